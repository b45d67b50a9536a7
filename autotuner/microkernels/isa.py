"""The vector instructions that a kernel in C is compiled for."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass


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
