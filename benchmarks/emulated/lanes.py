"""Instructions that move numbers between a wave's lanes, computed with numpy."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.emulated.registers import Run, executing, sgprs, vgprs

_CONSTANT = 255
"""The operand that follows the instruction."""


def swapped(word: int, size: int) -> Run:
    """Every second group of lanes of one register changes places with the groups before of another."""
    target, source = word >> 17 & 255, word & 255

    def run(state: Any, shared: Any) -> None:
        del shared
        pairs = vgprs(state)
        first, second = (pairs[number].reshape(-1, 2, size) for number in (target, source))
        kept = first[:, 1].copy()
        first[:, 1], second[:, 0] = second[:, 0], kept
        state.pc += 4

    return run


def chosen(raw: bytes, size: int, *, other: bool) -> Run:
    """Each lane reads one of its row of 16, or of the other row, by four bits; the emulator has no constants here."""
    word, constant = int.from_bytes(raw[:8], "little"), int.from_bytes(raw[8:12], "little")
    target, source, anyway, zero = word & 255, word >> 32 & 255, word >> 11 & 1, word >> 12 & 1

    def run(state: Any, shared: Any) -> None:
        del shared
        scalars, vectors, active = sgprs(state), vgprs(state), executing(state)
        halves = [constant if at == _CONSTANT else int(scalars[at]) for at in (word >> 41 & 511, word >> 50 & 511)]
        lanes = np.arange(state.wave_size)
        bits = np.array([halves[lane >> 3 & 1] >> 4 * (lane & 7) & 15 for lane in lanes])
        others = (lanes & ~15 ^ 16 * other) | bits
        there = np.isin(others, active) | bool(anyway)
        found = np.where(there, vectors[source, others], 0 if zero else vectors[target])
        vectors[target, active] = found[active]
        state.pc += size

    return run


def swizzle(word: int, wave: int) -> Run:
    offset, target, source = word & 0xFFFF, word >> 56 & 255, word >> 32 & 255
    lanes = np.arange(wave)
    if offset >= 0xC000:
        raise NotImplementedError("DS_SWIZZLE_B32 that rotates")
    if offset & 0x8000:
        others = lanes & ~3 | np.array([offset >> 2 * (lane & 3) & 3 for lane in lanes])
    else:
        others = lanes & ~31 | ((lanes & 31 & offset | offset >> 5 & 31) ^ offset >> 10 & 31)

    def run(state: Any, shared: Any) -> None:
        del shared
        vectors, active = vgprs(state), executing(state)
        there = np.zeros(wave, bool)
        there[active] = True
        vectors[target, active] = np.where(there[others], vectors[source, others], 0)[active]
        state.pc += 8

    return run
