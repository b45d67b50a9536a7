"""The named suites: shapes of models and libraries that people tune for, all in one place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from types import MappingProxyType

from autotuner.problems import Attention, Conv, Gemm, Problem

_SKINNY = (2, 4, 8, 16, 32)
_HALVES = ("f16", "bf16")


@dataclass(frozen=True)
class Suite:
    """A list of problems with a name; each counts as one call."""

    name: str
    about: str
    make: Callable[[], Iterator[Problem]]

    def problems(self) -> tuple[Problem, ...]:
        return tuple(self.make())


@dataclass(frozen=True)
class _Llama:
    """The matrix products of one decoder layer and the vocabulary, as (rows, depth)."""

    by_rows: tuple[tuple[int, int], ...]
    """Tensor parallelism gives each device a part of the rows: vocabulary, QKV, gate and up."""
    by_depth: tuple[tuple[int, int], ...]
    """Here it divides what is summed over: the attention's output and down."""

    def shards(self) -> Iterator[tuple[int, int]]:
        for parallel in (1, 2, 4, 8):
            yield from ((rows // parallel, depth) for rows, depth in self.by_rows)
            yield from ((rows, depth // parallel) for rows, depth in self.by_depth)


_LLAMA_13B = _Llama(by_rows=((32000, 5120), (15360, 5120), (27648, 5120)), by_depth=((5120, 5120), (5120, 13824)))
_LLAMA_70B = _Llama(by_rows=((32000, 8192), (10240, 8192), (57344, 8192)), by_depth=((8192, 8192), (8192, 28672)))


def _decode(model: _Llama, widths: tuple[int, ...]) -> Callable[[], Iterator[Problem]]:
    def make() -> Iterator[Problem]:
        for dtype, (rows, depth), width in product(_HALVES, model.shards(), widths):
            yield Gemm(rows, width, depth, dtype=dtype, layout="tn")

    return make


def _llama70b_memory() -> Iterator[Problem]:
    for n in (1280, 3584, 7168):
        yield Gemm(2, n, 8192, dtype="bf16", layout="nt")


def _gpt4(*, compute_bound: bool) -> Callable[[], Iterator[Problem]]:
    def make() -> Iterator[Problem]:
        sizes = (16, 2048, 8192)
        for m, n, k in product(sizes, sizes, (1024, 8192, 65536)):
            gemm = Gemm(m, n, k)
            if (gemm.flops >= 64 * gemm.bytes) == compute_bound:
                yield gemm

    return make


def _compute() -> Iterator[Problem]:
    for dtype, layout in product(_HALVES, ("nn", "nt", "tn", "tt")):
        yield Gemm(4096, 4096, 8192, dtype=dtype, layout=layout)


def _unet() -> Iterator[Problem]:
    shapes = ((2048, 10240, 1280), (2048, 1280, 1280), (2048, 1280, 5120), (128, 1280, 2048), (8192, 5120, 640))
    for m, n, k in shapes:
        yield Gemm(m, n, k)


def _unet_conv() -> Iterator[Problem]:
    yield Conv(2, 34, 34, 1280, 3, 3, 1280)


def _sdxl_attention() -> Iterator[Problem]:
    for shape in ((2, 10, 4096, 4096, 64), (2, 10, 4096, 64, 64), (2, 10, 1024, 1024, 64), (2, 20, 1024, 64, 64)):
        yield Attention(*shape)


def _llama70b_attention() -> Iterator[Problem]:
    lengths = (1024, 2048, 4096)
    for dtype, batch, heads, queries, keys in product(("f16", "f8"), (1, 2, 4), (32, 40, 64), lengths, lengths):
        attention = Attention(batch, heads, queries, keys, 128, dtype)
        if attention.bytes < 10**9:
            yield attention


def _batched_gemm() -> Iterator[Problem]:
    for (n, k), power in product(((128, 512), (512, 128), (8192, 8192)), range(4, 12)):
        yield Gemm(1 << power, n, k, batch=128, dtype="bf16", layout="nt")
    for m in (1, *(1 << power for power in range(5, 15))):
        yield Gemm(m, 1280, 8192, batch=16, dtype="bf16", layout="nt")


def _hopper() -> Iterator[Problem]:
    """Of every class that a vendor's library has kernels for: large, ragged, deep, thin, small, one row, batched."""
    yield Gemm(4096, 4096, 4096)
    yield Gemm(3072, 5120, 4096, dtype="bf16", layout="nt")
    yield Gemm(2008, 2040, 1976)
    yield Gemm(1536, 1536, 2048, dtype="bf16", layout="nt")
    yield Gemm(640, 1920, 2560, layout="nt")
    yield Gemm(1024, 1280, 14336, dtype="bf16", layout="nt")
    yield Gemm(384, 512, 32768, dtype="bf16", layout="nt")
    yield Gemm(16, 4096, 4096, layout="nt")
    yield Gemm(48, 7168, 4096)
    yield Gemm(128, 4096, 4096)
    yield Gemm(512, 768, 1024)
    yield Gemm(1, 4096, 11008, layout="nt")
    yield Gemm(1, 5120, 5120)
    yield Gemm(384, 512, 64, batch=24)
    yield Gemm(512, 512, 512, batch=16, layout="nt")
    yield Conv(2, 64, 64, 320, 3, 3, 320, pad=(1, 1), out="f16")
    yield Conv(2, 16, 16, 1280, 3, 3, 1280, pad=(1, 1), out="f16")
    yield Conv(16, 28, 28, 256, 3, 3, 512, stride=(2, 2), pad=(1, 1), out="f16")
    yield Conv(1, 56, 56, 64, 3, 3, 192, pad=(1, 1), layout="nchw-fchw", out="f16")
    yield Conv(8, 14, 14, 480, 1, 1, 208, layout="nchw-fchw", out="f16")
    for causal in (False, True):
        yield Attention(1, 32, 2048, 2048, 128, causal=causal)
        yield Attention(2, 16, 4096, 4096, 64, causal=causal)
    yield Attention(4, 12, 384, 384, 64)
    yield Attention(1, 32, 1, 8192, 128)


def _hopper_f8() -> Iterator[Problem]:
    """Large, small, of few rows, of sixteen."""
    yield Gemm(4096, 4096, 4096, dtype="f8", layout="nt")
    yield Gemm(1536, 1536, 2048, dtype="f8", layout="nt", out="bf16")
    yield Gemm(128, 7168, 4096, dtype="f8", layout="nt", out="f16")
    yield Gemm(16, 4096, 4096, dtype="f8", layout="nt")


SUITES: Mapping[str, Suite] = MappingProxyType(
    {
        suite.name: suite
        for suite in (
            Suite("llama13b-matvec", "Llama 13B, one token, tensor parallel 1 to 8", _decode(_LLAMA_13B, (1,))),
            Suite("llama70b-matvec", "Llama 70B, one token, tensor parallel 1 to 8", _decode(_LLAMA_70B, (1,))),
            Suite("llama13b-skinny", "Llama 13B, 2 to 32 tokens", _decode(_LLAMA_13B, _SKINNY)),
            Suite("llama70b-skinny", "Llama 70B, 2 to 32 tokens", _decode(_LLAMA_70B, _SKINNY)),
            Suite("llama70b-memory", "Llama 70B, two rows, bound by memory", _llama70b_memory),
            Suite("gpt4-memory", "GPT-4 shapes under 64 flop/byte", _gpt4(compute_bound=False)),
            Suite("gpt4-compute", "GPT-4 shapes of 64 flop/byte and more", _gpt4(compute_bound=True)),
            Suite("compute", "4096x4096x8192 in all layouts, f16 and bf16", _compute),
            Suite("unet", "matrix products of a U-Net", _unet),
            Suite("unet-conv", "the top convolution of a U-Net", _unet_conv),
            Suite("sdxl-attention", "self and cross attention of SDXL", _sdxl_attention),
            Suite("llama70b-attention", "Llama 70B attention, f16 and f8, under 1 GB", _llama70b_attention),
            Suite("hopper", "every class of problem, beside a vendor's library", _hopper),
            Suite("hopper-f8", "f8 products, for --allow-precision f16", _hopper_f8),
            Suite("batched-gemm", "aiter's batched products, bf16, B transposed", _batched_gemm),
        )
    }
)


def canonical(name: str) -> str:
    """`llama70b attention`, `Llama70B_attention`: people write it as they like."""
    return "-".join(name.lower().replace("_", " ").replace("-", " ").split())
