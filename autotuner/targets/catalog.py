"""The targets that are known, by chip and by product name."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

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


@dataclass(frozen=True, slots=True)
class Peak:
    """What a product can do at most, by its maker's data sheet: dense, at its highest clock."""

    product: str
    chip: str
    gbs: float
    """GB/s of its memory."""
    tflops: Mapping[str, float]
    """TFLOP/s (of i8: TOP/s) by the inputs' type, by matrix instructions where it has some."""


PEAKS = (
    Peak("MI250X", "gfx90a", 1638.4, {"f16": 191.5, "bf16": 191.5, "f32": 47.9, "i8": 191.5}),  # one of its two chips
    Peak("MI210", "gfx90a", 1638.4, {"f16": 181.0, "bf16": 181.0, "f32": 45.3, "i8": 181.0}),
    Peak("MI300X", "gfx942", 5300.0, {"f16": 1307.4, "bf16": 1307.4, "f8": 2614.9, "f32": 163.4, "i8": 2614.9}),
    Peak("MI300A", "gfx942", 5300.0, {"f16": 980.6, "bf16": 980.6, "f8": 1961.2, "f32": 122.6, "i8": 1961.2}),
    Peak("MI325X", "gfx942", 6000.0, {"f16": 1307.4, "bf16": 1307.4, "f8": 2614.9, "f32": 163.4, "i8": 2614.9}),
    Peak("MI355X", "gfx950", 8000.0, {"f16": 2516.6, "bf16": 2516.6, "f8": 5033.2, "f32": 157.3, "i8": 5033.2}),
    Peak("MI350X", "gfx950", 8000.0, {"f16": 2306.9, "bf16": 2306.9, "f8": 4613.7, "f32": 144.2, "i8": 4613.7}),
    Peak("RX 7900 XTX", "gfx1100", 960.0, {"f16": 122.8, "bf16": 122.8, "f32": 61.4, "i8": 122.8}),
    Peak("RX 7800 XT", "gfx1101", 624.1, {"f16": 74.6, "bf16": 74.6, "f32": 37.3, "i8": 74.6}),
    Peak("A100", "sm_80", 2039.0, {"f16": 312.0, "bf16": 312.0, "f32": 19.5, "i8": 624.0}),
    Peak("A100 PCIE 40GB", "sm_80", 1555.0, {"f16": 312.0, "bf16": 312.0, "f32": 19.5, "i8": 624.0}),
    Peak("A100 SXM4 40GB", "sm_80", 1555.0, {"f16": 312.0, "bf16": 312.0, "f32": 19.5, "i8": 624.0}),
    Peak("H200", "sm_90", 4800.0, {"f16": 989.4, "bf16": 989.4, "f8": 1978.9, "f32": 66.9, "i8": 1978.9}),
    Peak("H100", "sm_90", 3350.0, {"f16": 989.4, "bf16": 989.4, "f8": 1978.9, "f32": 66.9, "i8": 1978.9}),
    Peak("H100 PCIe", "sm_90", 2000.0, {"f16": 756.4, "bf16": 756.4, "f8": 1512.9, "f32": 51.2, "i8": 1512.9}),
    Peak("RTX 3090", "sm_86", 936.2, {"f16": 71.2, "bf16": 71.2, "f32": 35.6, "i8": 284.7}),
    Peak("A10", "sm_86", 600.0, {"f16": 125.0, "bf16": 125.0, "f32": 31.2, "i8": 250.0}),
    Peak("L40S", "sm_89", 864.0, {"f16": 362.1, "bf16": 362.1, "f8": 733.0, "f32": 91.6, "i8": 733.0}),
    Peak("RTX 4090", "sm_89", 1008.0, {"f16": 165.2, "bf16": 165.2, "f8": 330.3, "f32": 82.6, "i8": 660.6}),
    Peak("L4", "sm_89", 300.0, {"f16": 121.0, "bf16": 121.0, "f8": 242.5, "f32": 30.3, "i8": 242.5}),
)
"""The first of a chip stands for it where no device says what it is. Code for sm_80 also runs on later products."""
_NO_CODE = {
    "sm_87": "sm_87",
    **dict.fromkeys(("sm_90", "sm_90a", "h100", "h200", "gh200"), "sm_90"),
    **dict.fromkeys(("sm_100", "b200", "gb200"), "sm_100"),
    "sm_103": "sm_103",
    **dict.fromkeys(("sm_120", "rtx5090"), "sm_120"),
}
"""Chips that IREE makes no code for, which run that for an earlier one: they may have microkernels of their own."""


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
    gpus = (_gpu(chip, backend, chips) for backend, chips in _GPUS.items() for chip in chips)
    return (_cpu(), *gpus)


def _gpu(chip: str, backend: Backend, chips: Mapping[str, _Facts]) -> Target:
    types, units, f8 = chips[chip]
    others = chips.items() if f8 is None and backend.assembled_on_load else ()
    f8_by = {op: name for name, (more, _, _) in others for op, pairs in more.items() if _F8[0] in pairs}
    return Target(chip, backend, backend.flags(chip), types, units, f8, knobs=knobs_of(backend.name), f8_by=f8_by)


def peak_of(chip: str, *, device: str) -> Peak | None:
    """Of the product that a device says it is; where no device answered, of the chip's first.

    None for a processor and for a product that is not in the table.
    """
    if not device:
        return next((peak for peak in PEAKS if peak.chip == chip), None)
    words = device.lower().replace("-", " ").split()
    said = "".join(words)
    known = [peak for peak in PEAKS if _names(peak.product.lower(), words, said)]
    return max(known, key=lambda peak: len(peak.product), default=None)


def _names(product: str, words: Sequence[str], said: str) -> bool:
    """A product of one word is one of the device's words: an A100 is no A10."""
    return product in words if " " not in product else product.replace(" ", "") in said


def find(text: str) -> Target:
    """The target of this chip or product name, or an error that lists them."""
    wanted = text.strip().lower().replace(" ", "")
    if (later := _NO_CODE.get(wanted)) is not None:
        raise UsageError(
            f"IREE has no code generation for {text} ({later}).",
            remedy=f"Use --target sm_80: its PTX runs there through the driver's JIT. Without the device at hand add "
            f"--chip {later} for microkernels.",
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


def find_chip(text: str, target: Target) -> str:
    """The chip of this name or product, which must run the target's code."""
    if target.backend.on_host:
        raise UsageError(
            f"--chip {text} is for GPUs, and the target is {target.name}.",
            remedy="Leave it out, or name the GPU's --target too; a processor is named by --flag.",
        )
    wanted = text.strip().lower().replace(" ", "")
    chips = {chip: chip for _, some in _GPUS.items() for chip in some} | _NO_CODE
    chip = chips.get(PRODUCTS.get(wanted, wanted))
    if chip is None:
        known = sorted({one for one in chips.values() if target.runs_on(one)}, key=lambda name: (len(name), name))
        close = difflib.get_close_matches(wanted, [*chips, *PRODUCTS], n=1)
        hint = f"Did you mean {close[0]}? " if close else ""
        raise UsageError(f"unknown chip {text!r}.", remedy=f"{hint}Code for {target.name} runs on: {', '.join(known)}.")
    if not target.runs_on(chip):
        other = chip if chip in _GPUS[ROCM] or chip in _GPUS[CUDA] else "sm_80"
        raise UsageError(f"--chip {text}: code for {target.name} does not run there.", remedy=f"Use --target {other}.")
    return chip
