"""The facts of a chip that microkernels need: units, subgroup size, vector width, and which objects it runs."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from autotuner.targets.backends import backend_of

_NVIDIA = re.compile(r"sm_(\d{1,4})([af]?)")


def runs_on(made_for: str, chip: str, *, translated: bool = True) -> bool:
    """Whether an object runs on a chip. NVIDIA's driver translates PTX; machine code must be for that chip."""
    made, asked = _NVIDIA.fullmatch(made_for), _NVIDIA.fullmatch(chip)
    if made is None or asked is None:
        return made_for == chip
    # The driver translates PTX for its own chip and later ones; with `a` for that very chip, with `f` for its family.
    least, number = int(made[1]), int(asked[1])
    if made[2] == "a":
        return least == number
    family = made[2] == "f" or not translated  # machine code runs on later chips of one generation
    return least <= number and (not family or least // 10 == number // 10)


def object_for(chip: str, there: Sequence[str]) -> str | None:
    """The object for this chip, else that for the nearest earlier one."""
    fitting = [one for one in there if runs_on(one, chip)]
    return chip if chip in there else max(fitting, key=lambda one: (len(one), one), default=None)


def is_gpu(chip: str) -> bool:
    return not backend_of(chip).on_host


def subgroup_of(chip: str) -> int:
    """The subgroup size: 64 on CDNA, 32 on RDNA and NVIDIA, 1 on processors."""
    return backend_of(chip).like(chip).subgroup if is_gpu(chip) else 1


def units_of(chip: str) -> int:
    """Its compute units, or SMs; 1 on processors."""
    return backend_of(chip).like(chip).units if is_gpu(chip) else 1


@dataclass(frozen=True, slots=True)
class Isa:
    """The vector instructions that a kernel may use."""

    name: str
    flags: tuple[str, ...]
    lanes: int
    """How many f32 a vector has."""


_AVX512 = Isa(
    "AVX-512",
    ("-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mavx2", "-mfma", "-mprefer-vector-width=512"),
    16,
)
_AVX2 = Isa("AVX2", ("-mavx2", "-mfma"), 8)
_SSE2 = Isa("SSE2", (), 4)
"""Every compiler for x86_64 assumes it, as it assumes NEON for aarch64."""
_NEON = Isa("NEON", ("-ffixed-x18",), 4)
"""IREE's executables for aarch64 leave x18 alone: on some systems it belongs to the platform."""
_OTHER = Isa("the architecture's own", (), 4)
_X86 = (
    (frozenset({"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx2", "fma"}), _AVX512),
    (frozenset({"avx2", "fma"}), _AVX2),
)


def choose_isa(machine: str, features: Collection[str]) -> Isa:
    """The widest instructions that a processor with these features has all of."""
    if machine == "aarch64":
        return _NEON
    if machine != "x86_64":
        return _OTHER
    return next((isa for needed, isa in _X86 if needed <= set(features)), _SSE2)


def lanes_of(chip: str, features: Collection[str] = ()) -> int:
    """How many f32 the vectors have that a kernel in C is compiled for; 1 on GPUs."""
    return 1 if is_gpu(chip) else choose_isa(chip, features).lanes


def numbers_of(chip: str, features: Collection[str] = ()) -> tuple[int, ...]:
    """What `manifest.CHIP_NUMBERS` name, in their order; a processor has no shared memory, and copies nothing ahead."""
    backend = backend_of(chip)
    shared = backend.like(chip).shared if is_gpu(chip) else 0
    return subgroup_of(chip), lanes_of(chip, features), units_of(chip), shared, int(backend.copies_ahead)
