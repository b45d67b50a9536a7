"""The targets that are known, by chip and by product name."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import replace

from autotuner.errors import UsageError
from autotuner.system.settings import usable_cores
from autotuner.targets.backends import CUDA, LLVM_CPU, ROCM, Backend
from autotuner.targets.base import Target
from autotuner.targets.knobs import PLAIN, Route, knobs_of, named_route


def _single(op: str, *names: str) -> tuple[Route, ...]:
    """Routes of single problems of one operation."""
    return tuple(replace(named_route(_CPU_KNOBS, name), ops=(op,)) for name in names)


_CPU_KNOBS = knobs_of(LLVM_CPU.name)
CPU_ROUTES = (
    PLAIN,
    *_single(
        "gemm",
        "data-tiling",
        "data-tiling+ukernels",
        "data-tiling+inner-tiled",
        "global-data-tiling",
        "global-data-tiling+ukernels",
        "global-data-tiling+inner-tiled",
    ),
    *_single(
        "conv",
        "channels-last",
        "channels-last+data-tiling",
        "im2col",
        "im2col+data-tiling",
        "im2col+data-tiling+inner-tiled",
        "im2col+global-data-tiling",
        "im2col+global-data-tiling+inner-tiled",
    ),
    *_single(
        "attention",
        "decomposed",
        "decomposed+data-tiling",
        "decomposed+data-tiling+ukernels",
        "decomposed+global-data-tiling",
    ),
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
        knobs=_CPU_KNOBS,
    )


def all_targets() -> tuple[Target, ...]:
    gpus = (
        Target(chip, backend, backend.flags(chip), types, units, f8, knobs=knobs_of(backend.name))
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
