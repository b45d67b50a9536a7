"""What a chip is to a microkernel: its units, threads that go in step, how wide vectors are, whose object it takes."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from autotuner.targets.backends import backend_of

_PTX = re.compile(r"sm_(\d+)")


def object_for(chip: str, there: Sequence[str]) -> str | None:
    """This very chip's; else, as NVIDIA's driver translates PTX for later chips, that of the nearest earlier one."""
    if chip in there:
        return chip
    wanted = _PTX.fullmatch(chip)
    earlier = [
        int(found[1]) for found in map(_PTX.fullmatch, there) if found and wanted and int(found[1]) < int(wanted[1])
    ]
    return f"sm_{max(earlier)}" if earlier else None


def is_gpu(chip: str) -> bool:
    return not backend_of(chip).on_host


def subgroup_of(chip: str) -> int:
    """How many threads go in step: 64 on CDNA, 32 on RDNA and NVIDIA, 1 on processors."""
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
"""Part of what every compiler for x86_64 assumes, as NEON is for aarch64."""
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
