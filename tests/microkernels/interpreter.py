"""Runs kernels in Triton's interpreter, which needs no GPU: a process of its own, for Triton reads its setting when
it is imported. `python -m tests.microkernels.interpreter` reads a list of words a line, in JSON, and answers with
a line:

    ["epilogue", "NUMBERS.npy", "RESULTS.npy", "ACTIVATION", "FACTOR_BITS"]
    ["gemm", "INPUTS.npz", "RESULT.npy", "NUMBERS.json"]
    ["attention", "INPUTS.npz", "RESULT.npy", "TYPE", "NUMBERS.json"]

NUMBERS.json has the kernel's numbers, its grid and the shape of the result.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

os.environ["TRITON_INTERPRET"] = "1"

import triton
import triton.language as tl
from triton.runtime import interpreter

FOLDER = Path(__file__).parents[2] / "specs" / "microkernels"
for folder in ("", "gemm_triton", "attention_triton"):
    sys.path.insert(0, str(FOLDER / folder))
put = import_module("epilogue").put
_MULTIPLY = interpreter.InterpreterBuilder.create_dot
_GEMM = (
    *("BM", "BN", "MORE", "BK", "GROUP", "TRANSPOSE_LHS", "TRANSPOSE_RHS", "EVEN_M", "EVEN_N", "EVEN_K", "WORKERS"),
    *("SPLIT", "TMA", "CLIP_LOW", "CLIP_HIGH", "LOW_BITS", "HIGH_BITS", "ACTIVATION", "FACTOR_BITS", "GATED"),
)
_ATTENTION = ("BM", "BN", "WIDTH", "ROW", "OUT_ROW", "BLOCK_D", "MORE", "CAUSAL", "EVEN_M", "EVEN_N", "SPLIT")


class Memory:
    """An array with as much of a tensor as the interpreter asks for."""

    device = "cpu"

    def __init__(self, array: npt.NDArray[Any], dtype: str = "float32") -> None:
        self.array, self.dtype = array, dtype

    def data_ptr(self) -> int:
        return self.array.ctypes.data

    def untyped_storage(self) -> Memory:
        return self

    def cpu(self) -> Memory:
        return self

    def new_empty(self, *_: object, **__: object) -> Memory:
        return Memory(self.array, self.dtype)

    def set_(self, storage: Memory, *_: object) -> None:
        self.array = storage.array

    def storage_offset(self) -> int:
        return 0

    def size(self) -> tuple[int, ...]:
        return self.array.shape

    def stride(self) -> tuple[int, ...]:
        return (1,)

    def copy_(self, other: Memory) -> None:
        self.array[...] = other.array


@triton.jit  # type: ignore[untyped-decorator]
def _end(sums: Any, out: Any, COUNT: tl.constexpr, ACTIVATION: tl.constexpr, FACTOR_BITS: tl.constexpr) -> None:
    at = tl.arange(0, COUNT)
    total = tl.load(sums + at)
    put(
        out, at, at < COUNT, True, total, None, at, at < COUNT, None, False, False, 0, 0, ACTIVATION, FACTOR_BITS
    )  # fmt: skip


def epilogue(numbers: str, results: str, activation: str, factor_bits: str) -> None:
    given = np.load(numbers)
    padded = np.zeros(triton.next_power_of_2(given.size), np.float32)
    padded[: given.size] = given
    out = np.full_like(padded, np.nan)
    _end[(1,)](Memory(padded), Memory(out), padded.size, int(activation), int(factor_bits))
    np.save(results, out[: given.size])


def gemm(inputs: str, result: str, numbers: str) -> None:
    """With tiles read by pointers. Inputs and result have f16."""
    given = json.loads(Path(numbers).read_text())
    with np.load(inputs) as arrays:
        lhs, rhs = (Memory(np.ascontiguousarray(arrays[name]), "float16") for name in ("lhs", "rhs"))
    out = np.zeros(given["shape"], np.float16)
    arrived, parts = _shared(given, given["bn"])
    import_module("gemm").gemm_triton[tuple(given["grid"])](
        *(lhs, rhs, None, None, arrived, Memory(out, "float16"), parts, given["m"], given["n"], given["k"]),
        **{name: given[name.lower()] for name in _GEMM},
    )
    np.save(result, out)


def attention(inputs: str, result: str, dtype: str, numbers: str) -> None:
    """Inputs and result have 16 bits a number, as whole ones."""
    given = json.loads(Path(numbers).read_text())
    with np.load(inputs) as arrays:
        operands = [Memory(np.ascontiguousarray(arrays[name]), dtype) for name in ("query", "key", "value")]
    query, key, value = operands if given["row"] == given["out_row"] else (operands[0], None, None)
    out = np.zeros(given["shape"], np.uint16)
    arrived, parts = _shared(given, given["block_d"] + 2)
    import_module("attention").attention_triton[tuple(given["grid"])](
        *(query, key, value, arrived, Memory(out, dtype), parts, given["queries"], given["keys"]),
        **{name: given[name.lower()] for name in _ATTENTION},
    )
    np.save(result, out)


def _shared(given: dict[str, int], width: int) -> tuple[Memory, Memory]:
    """How many workgroups of a tile have arrived, and what each has summed up."""
    tiles = given["tiles"]
    parts = np.zeros(tiles * given["split"] * given["bm"] * width, np.float32)
    return Memory(np.zeros(tiles, np.int32), "int32"), Memory(parts)


def product(builder: Any, left: Any, right: Any, *more: Any) -> Any:
    """The interpreter has bf16 as whole numbers, and multiplies them as such."""
    if left.dtype.scalar == tl.bfloat16:
        wide = ((x.data.astype(np.uint32) << 16).view(np.float32) for x in (left, right))
        left, right = (interpreter.TensorHandle(data, tl.float32) for data in wide)
    return _MULTIPLY(builder, left, right, *more)


if __name__ == "__main__":
    interpreter.InterpreterBuilder.create_dot = product
    KERNELS: dict[str, Callable[..., None]] = {"epilogue": epilogue, "gemm": gemm, "attention": attention}
    for line in sys.stdin:
        kernel, *words = json.loads(line)
        KERNELS[kernel](*words)
        print("done", flush=True)
