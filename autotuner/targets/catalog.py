"""The targets that are known, by chip and by product name."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from autotuner.errors import UsageError
from autotuner.system.settings import usable_cores
from autotuner.targets.backends import CUDA, LLVM_CPU, ROCM, Backend
from autotuner.targets.base import PLAIN, Route, Target

_GLOBAL_TILING = "--iree-global-opt-data-tiling"
_DATA_TILING = "--iree-opt-data-tiling"
_UKERNELS = "--iree-llvmcpu-enable-ukernels=all"
_INNER_TILED = "--iree-llvmcpu-enable-inner-tiled"

_IM2COL = "--iree-global-opt-use-im2col-for-convs"


def _preprocess(passes: str) -> str:
    return f"--iree-preprocessing-pass-pipeline=builtin.module({passes})"


_CHANNELS_LAST = _preprocess("iree-preprocessing-transpose-convolution-pipeline")
_DECOMPOSED = _preprocess(
    "util.func(iree-linalg-ext-convert-attention-to-online-attention,iree-linalg-ext-decompose-attention)"
)
_GEMM, _CONV, _ATTENTION = ("gemm",), ("conv",), ("attention",)

# --iree-opt-data-tiling resolves encodings after the tuning spec has run, so a spec cannot reach its mmt4d; the
# global-optimization path makes the mmt4d before, and there a spec applies.
CPU_ROUTES = (
    PLAIN,
    Route("data-tiling", (_DATA_TILING,), reachable=False, ops=_GEMM),
    Route("data-tiling+ukernels", (_DATA_TILING, _UKERNELS), reachable=False, ops=_GEMM),
    Route("data-tiling+inner-tiled", (_DATA_TILING, _INNER_TILED), reachable=False, ops=_GEMM, models=False),
    Route("global-data-tiling", (_GLOBAL_TILING,), ops=_GEMM),
    Route("global-data-tiling+ukernels", (_GLOBAL_TILING, _UKERNELS), ops=_GEMM),
    Route("global-data-tiling+inner-tiled", (_GLOBAL_TILING, _INNER_TILED), ops=_GEMM, models=False),
    Route("channels-last", (_CHANNELS_LAST,), ops=_CONV),
    Route("channels-last+data-tiling", (_CHANNELS_LAST, _DATA_TILING), reachable=False, ops=_CONV),
    Route("im2col", (_IM2COL,), ops=_CONV),
    Route("im2col+data-tiling", (_IM2COL, _DATA_TILING), reachable=False, ops=_CONV),
    Route(
        "im2col+data-tiling+inner-tiled",
        (_IM2COL, _DATA_TILING, _INNER_TILED),
        reachable=False,
        ops=_CONV,
        models=False,
    ),
    Route("im2col+global-data-tiling", (_IM2COL, _GLOBAL_TILING), ops=_CONV),
    Route("im2col+global-data-tiling+inner-tiled", (_IM2COL, _GLOBAL_TILING, _INNER_TILED), ops=_CONV, models=False),
    # No Winograd: its transforms round more than any bound here allows, and whole numbers do not come out whole.
    Route("decomposed", (_DECOMPOSED,), ops=_ATTENTION),
    Route("decomposed+data-tiling", (_DECOMPOSED, _DATA_TILING), reachable=False, ops=_ATTENTION),
    Route("decomposed+data-tiling+ukernels", (_DECOMPOSED, _DATA_TILING, _UKERNELS), reachable=False, ops=_ATTENTION),
    Route("decomposed+global-data-tiling", (_DECOMPOSED, _GLOBAL_TILING), ops=_ATTENTION),
)

Types = Mapping[str, tuple[tuple[str, str], ...]]
_HALVES = (("f16", "f32"), ("bf16", "f32"))
_FLOATS = (("f32", "f32"), *_HALVES)
_I8 = (("i8", "i32"),)
_F8 = (("f8", "f32"),)
_F16_SUMS = (("f16", "f16"),)

# What compiles and has knobs; tests ask the compiler for every pair.
_CPU_TYPES: Types = {
    "gemm": _FLOATS + _F16_SUMS + _I8 + _F8,
    "conv": _FLOATS + _I8 + _F8,
    "attention": _FLOATS + _F8,
}
_CDNA: Types = {"gemm": _FLOATS + _I8, "conv": _FLOATS + _I8, "attention": _FLOATS}
_CDNA_F8: Types = {op: pairs + _F8 for op, pairs in _CDNA.items()}
_RDNA3: Types = {"gemm": _HALVES + _F16_SUMS + _I8, "conv": _HALVES + _I8, "attention": _HALVES}
_AMPERE: Types = {"gemm": _HALVES + _F16_SUMS, "conv": _HALVES, "attention": _HALVES}
_ADA: Types = {**_AMPERE, "gemm": _AMPERE["gemm"] + _F8, "conv": _AMPERE["conv"] + _F8}

_Facts = tuple[Types, int, str | None]
_ROCM: Mapping[str, _Facts] = {
    "gfx90a": (_CDNA, 110, None),
    "gfx942": (_CDNA_F8, 304, "f8E4M3FNUZ"),
    "gfx950": (_CDNA_F8, 256, "f8E4M3FN"),
    "gfx1100": (_RDNA3, 96, None),
    "gfx1101": (_RDNA3, 60, None),
}
_CUDA: Mapping[str, _Facts] = {
    "sm_80": (_AMPERE, 108, None),
    "sm_86": (_AMPERE, 84, None),
    "sm_89": (_ADA, 142, "f8E4M3FN"),
}
_GPUS: Mapping[Backend, Mapping[str, _Facts]] = {ROCM: _ROCM, CUDA: _CUDA}
_CPU = "cpu"
PRODUCTS = {
    "host": _CPU,
    "mi210": "gfx90a",
    "mi250": "gfx90a",
    "mi250x": "gfx90a",
    "mi300a": "gfx942",
    "mi300x": "gfx942",
    "mi308x": "gfx942",
    "mi325x": "gfx942",
    "mi350x": "gfx950",
    "mi355x": "gfx950",
    "rx7900xt": "gfx1100",
    "rx7900xtx": "gfx1100",
    "w7900": "gfx1100",
    "rx7800xt": "gfx1101",
    "w7700": "gfx1101",
    "a100": "sm_80",
    "a10": "sm_86",
    "rtx3090": "sm_86",
    "l4": "sm_89",
    "l40s": "sm_89",
    "rtx4090": "sm_89",
}
_HOPPER = {"sm_90", "sm_90a", "h100", "h200", "gh200"}


def _cpu() -> Target:
    return Target(
        name=_CPU,
        backend=LLVM_CPU,
        flags=LLVM_CPU.flags("host"),
        types=_CPU_TYPES,
        units=usable_cores(),
        f8="f8E4M3FN",
        routes=CPU_ROUTES,
    )


def all_targets() -> tuple[Target, ...]:
    gpus = (
        Target(chip, backend, backend.flags(chip), types, units, f8)
        for backend, chips in _GPUS.items()
        for chip, (types, units, f8) in chips.items()
    )
    return (_cpu(), *gpus)


def find(text: str) -> Target:
    """The target of this chip or product name, or an error that lists them."""
    wanted = text.strip().lower().replace(" ", "")
    if wanted in _HOPPER:
        raise UsageError(
            f"IREE has no code generation for {text} (sm_90).",
            remedy="Use --target sm_80: its PTX runs on Hopper through the driver's JIT.",
        )
    name = PRODUCTS.get(wanted, wanted)
    targets = {t.name: t for t in all_targets()}
    if name in targets:
        return targets[name]
    close = difflib.get_close_matches(wanted, [*targets, *PRODUCTS], n=1)
    hint = f"Did you mean {close[0]}? " if close else ""
    raise UsageError(
        f"unknown target {text!r}.",
        remedy=f"{hint}Known: {', '.join(targets)}; products: {', '.join(PRODUCTS)}.",
    )
