"""The targets of all backends, by chip and by product name."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import replace

from autotuner.errors import UsageError
from autotuner.system.settings import usable_cores
from autotuner.targets.backends import BACKENDS, LLVM_CPU, Backend, Chip, Peak
from autotuner.targets.backends.base import F8, F8_MIXED, F8_PRODUCTS, F16_SUMS, FLOATS, I8, MX
from autotuner.targets.base import Target
from autotuner.targets.knobs import knobs_of

_CPU = "cpu"
CHIPS: Mapping[str, tuple[Backend, Chip]] = {chip.name: (one, chip) for one in BACKENDS for chip in one.chips}
"""The GPU targets by name."""
PRODUCTS = {"host": _CPU} | {
    name: chip.name for _, chip in CHIPS.values() if chip.types for name in (*chip.products, *chip.skus)
}
_NO_CODE = {
    name: chip.name
    for _, chip in CHIPS.values()
    if not chip.types
    for name in (chip.name, f"{chip.name}a", *chip.products)
}
"""Chips that run the code of an earlier one, because IREE makes none for them."""
_UNTUNED = ("vulkan", "vulkan-spirv", "metal", "metal-spirv")
"""What IREE compiles for, too."""
PEAKS = tuple(replace(peak, chip=chip.name) for _, chip in CHIPS.values() for peak in chip.peaks)


def _cpu() -> Target:
    return Target(
        name=_CPU,
        backend=LLVM_CPU,
        flags=LLVM_CPU.flags("host"),
        # What compiles and has knobs; tests ask the compiler for every pair.
        types=FLOATS + F16_SUMS + I8 + F8 + F8_PRODUCTS + F8_MIXED + MX,
        units=usable_cores(),
        f8="f8E4M3FN",
        knobs=knobs_of(LLVM_CPU.settings),
    )


def all_targets() -> tuple[Target, ...]:
    return (_cpu(), *(_gpu(chip, backend) for backend, chip in CHIPS.values() if chip.types))


def _gpu(chip: Chip, backend: Backend, sku: str = "") -> Target:
    name, units = (sku, chip.skus[sku]) if sku else (chip.name, chip.units)
    own = (name, backend, backend.flags(name), chip.types, units, chip.f8, chip.lacks)
    return Target(*own, knobs=knobs_of(backend.settings), arch=chip.name)


def peak_of(chip: str, *, device: str) -> Peak | None:
    """The peak rates of the device's product; without a device, of the target's own or its chip's first product.

    None for a processor and for a product that is not in the table.
    """
    if not device:
        alike = [peak for peak in PEAKS if peak.chip == PRODUCTS.get(chip, chip)]
        return next((peak for peak in alike if _plain(peak.product) == chip), next(iter(alike), None))
    words = device.lower().replace("-", " ").split()
    said = "".join(words)
    known = [peak for peak in PEAKS if _names(peak.product.lower(), words, said)]
    return max(known, key=lambda peak: len(peak.product), default=None)


def _names(product: str, words: Sequence[str], said: str) -> bool:
    """Whether a device's name has the product's words: an A100 is no A10."""
    return product in words if " " not in product else product.replace(" ", "") in said


def find(text: str) -> Target:
    """The target of this chip or product name, or an error that lists them."""
    wanted = _plain(text)
    if (later := _NO_CODE.get(wanted)) is not None:
        raise UsageError(
            f"IREE has no code generation for {text if wanted == later else f'{text} ({later})'}.",
            remedy=f"Use --target {_runs_there(later)}: its code runs there through the driver's JIT. Without the "
            f"device at hand add --chip {later} for microkernels.",
        )
    name = PRODUCTS.get(wanted, wanted)
    if name in CHIPS:
        backend, chip = CHIPS[name]
        return _gpu(chip, backend, wanted if wanted in chip.skus else "")
    targets = {t.name: t for t in all_targets()}
    if name in targets:
        return targets[name]
    if wanted in _UNTUNED:
        raise UsageError(
            f"--target {text}: IREE compiles for it, but emits no constraints, and takes no tuning spec there.",
            remedy="Name a chip of AMD's or NVIDIA's, such as gfx1201; docs/amd.md says what is missing.",
        )
    raise UsageError(
        f"unknown target {text!r}.",
        remedy=f"{_hint(wanted, [*targets, *PRODUCTS])}Known: {', '.join(targets)}; products: {', '.join(PRODUCTS)}.",
    )


def _plain(text: str) -> str:
    return text.strip().lower().replace(" ", "")


def _hint(wanted: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(wanted, known, n=1)
    return f"Did you mean {close[0]}? " if close else ""


def _runs_there(chip: str) -> str:
    """The target whose code a chip runs: its own, else the first of its backend."""
    backend, own = CHIPS[chip]
    return chip if own.types else backend.chips[0].name


def find_chip(text: str, target: Target) -> str:
    """The chip of this name or product, which must run the target's code."""
    if target.backend.on_host:
        raise UsageError(
            f"--chip {text} is for GPUs, and the target is {target.name}.",
            remedy="Leave it out, or name the GPU's --target too; a processor is named by --flag.",
        )
    wanted = _plain(text)
    chips = {chip: chip for chip in CHIPS} | _NO_CODE
    chip = chips.get(PRODUCTS.get(wanted, wanted))
    if chip is None:
        known = sorted({one for one in chips.values() if target.runs_on(one)}, key=lambda name: (len(name), name))
        hint = _hint(wanted, [*chips, *PRODUCTS])
        raise UsageError(f"unknown chip {text!r}.", remedy=f"{hint}Code for {target.name} runs on: {', '.join(known)}.")
    if not target.runs_on(chip):
        other = _runs_there(chip)
        raise UsageError(f"--chip {text}: code for {target.name} does not run there.", remedy=f"Use --target {other}.")
    return chip
