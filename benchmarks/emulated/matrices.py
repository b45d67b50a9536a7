"""AMD's matrix instructions, computed with numpy on a wave's registers.

tinygrad's emulator knows one format of f8, writes the rows of 32x32 in another order, makes C for i8 that clang
refuses, reads scales from the lane of the result, and needs a minute to compile one for waves of 32. This is one form
for all of them: a lane has numbers of one row that follow each other in K, and their scale.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from benchmarks.emulated.registers import Run, Words, agprs, sgprs, vgprs

_INLINE = 256
"""Operands from here on are vector registers."""
_BIAS, _NO_NUMBER = 127.0, 255
_MFMA = re.compile(r"V_MFMA_(SCALE_)?(F32|I32)_(16|32)X(?:16|32)X(\d+)_(F32|F16|BF16|I8|[FB][PF]8_[FB][PF]8|F8F6F4)$")
_WMMA = re.compile(r"V_WMMA_(F32|I32)_16X16X16_(F16|BF16|IU8|[FB][PF]8_[FB][PF]8)$")
_RESULTS: dict[str, np.dtype[Any]] = {"F32": np.dtype(np.float32), "I32": np.dtype(np.int32)}
_F4 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)
Numbers = npt.NDArray[np.float64]
Unpack = Callable[[npt.NDArray[np.uint8]], Any]


def _f4(content: npt.NDArray[np.uint8]) -> Any:
    numbers = np.stack([content & 15, content >> 4], axis=-1).reshape(len(content), -1)
    return np.where(numbers & 8, -_F4[numbers & 7], _F4[numbers & 7])


def _viewed(kind: Any) -> Unpack:
    def view(content: npt.NDArray[np.uint8]) -> Any:
        numbers: Any = content.view(kind)
        return numbers

    return view


_FORMATS: dict[str, tuple[int, Unpack]] = {
    "F32": (32, _viewed(np.float32)),
    "F16": (16, _viewed(np.float16)),
    "BF16": (16, _viewed(ml_dtypes.bfloat16)),
    "I8": (8, _viewed(np.int8)),
    "U8": (8, _viewed(np.uint8)),
    "FP8": (8, _viewed(ml_dtypes.float8_e4m3fn)),
    "BF8": (8, _viewed(ml_dtypes.float8_e5m2)),
    "FP8 of gfx942": (8, _viewed(ml_dtypes.float8_e4m3fnuz)),
    "BF8 of gfx942": (8, _viewed(ml_dtypes.float8_e5m2fnuz)),
    "FP4": (4, _f4),
}
"""Bits of a number, and how bytes are read."""
_CHOSEN = {0: "FP8", 1: "BF8", 4: "FP4"}
"""Formats that fields of the instruction choose."""


@dataclass(frozen=True)
class _Form:
    """Where the numbers of a matrix instruction are."""

    kinds: Sequence[str]
    """The formats of A and B."""
    result: np.dtype[Any]
    rows: int
    """Of A, of B and of the result."""
    depth: int
    groups: int
    """Lanes with other parts of the same row; those beyond have copies."""
    row: npt.NDArray[np.int64]
    """Of the result: by register and lane."""


def matrix(name: str, word: int, size: int, chip: str) -> Run | None:
    """The code of a matrix instruction, if it is one of these."""
    if found := _MFMA.match(name):
        scales, word = (word & (1 << 64) - 1, word >> 64) if found[1] else (None, word)
        rows = int(found[3])
        groups, lanes = 64 // rows, np.arange(64)
        registers = np.arange(rows * rows // 64)[:, None]
        row = registers // 4 * 4 * groups + lanes // rows * 4 + registers % 4
        form = _Form(_kinds(found[5], word, chip), _RESULTS[found[2]], rows, int(found[4]), groups, row)
        result = 1 if chip == "gfx908" else word >> 15 & 1  # which has all results there
        return _multiplied(form, word, size, scales, (word >> 59 & 1, word >> 60 & 1, result))
    if found := _WMMA.match(name):
        fourth = chip.startswith("gfx12")
        registers, half = np.arange(8)[:, None], np.arange(32) // 16
        row = half * 8 + registers if fourth else 2 * registers + half
        kinds = _kinds(found[2], word, chip)
        return _multiplied(_Form(kinds, _RESULTS[found[1]], 16, 16, 1 + fourth, row), word, size, None, (0, 0, 0))
    return None


_OF_FIRST_CHIPS = {
    0x54: "V_MFMA_I32_32X32X8_I8",
    0x55: "V_MFMA_I32_16X16X16_I8",
    0x66: "V_MFMA_F32_32X32X8_BF16",
    0x67: "V_MFMA_F32_16X16X16_BF16",
    0x6C: "V_MFMA_F32_32X32X4_BF16",
    0x6D: "V_MFMA_F32_16X16X8_BF16",
}


def first_matrix(raw: bytes, chip: str) -> Run | None:
    """The code of a matrix instruction that gfx908 or gfx90a has and later chips do not."""
    if chip not in ("gfx908", "gfx90a") or raw[3] != 0xD3 or not raw[2] & 0x80:
        return None
    name = _OF_FIRST_CHIPS.get(raw[2] & 0x7F)
    return None if name is None else matrix(name, int.from_bytes(raw[:8], "little"), 8, chip)


def _kinds(kinds: str, word: int, chip: str) -> list[str]:
    if kinds == "F8F6F4":
        chosen = [_CHOSEN.get(word >> at & 7, "F6") for at in (8, 61)]
    elif kinds == "IU8":
        chosen = ["I8" if word >> at & 1 else "U8" for at in (61, 62)]
    else:
        chosen = (kinds.split("_") * 2)[:2]
    if chip == "gfx942":
        chosen = [f"{one} of {chip}" if one in ("FP8", "BF8") else one for one in chosen]
    if unknown := [one for one in chosen if one not in _FORMATS]:
        raise NotImplementedError(f"matrix_instruction with {unknown[0]}")
    return chosen


def _multiplied(form: _Form, word: int, size: int, scales: int | None, apart: tuple[int, int, int]) -> Run:
    """`apart`: whether A, B and the result are in accumulation registers."""
    target, added, count, columns = (
        word & 255,
        word >> 50 & 511,
        len(form.row),
        np.arange(form.row.shape[1]) % form.rows,
    )
    sources = [word >> at & 511 for at in (32, 41)]

    def run(state: Any, shared: Any) -> None:
        del shared
        matrices = []
        for number, source in enumerate(sources):
            every = agprs(state) if apart[number] else vgprs(state)
            numbers = _operand(state, every, source, form.kinds[number], form.depth // form.groups)
            if scales is not None:
                numbers = numbers * _scales(state, scales, number)[:, None]
            used = numbers[: form.rows * form.groups].reshape(form.groups, form.rows, -1)
            matrices.append(used.transpose(1, 0, 2).reshape(form.rows, form.depth))
        product = (matrices[0] @ matrices[1].T)[form.row, columns]
        results = agprs(state) if apart[2] else vgprs(state)
        if added >= _INLINE:
            before = results[added - _INLINE : added - _INLINE + count].view(form.result).astype(np.float64)
        else:
            before = sgprs(state)[added : added + 1].view(form.result).astype(np.float64)
        total = product + before
        if form.result == np.int32:
            total = total.astype(np.int64).astype(np.int32)
        results[target : target + count] = total.astype(form.result).view(np.uint32)
        state.pc += size

    return run


def _operand(state: Any, every: Words, source: int, kind: str, count: int) -> Numbers:
    """The numbers of each lane."""
    bits, unpack = _FORMATS[kind]
    needed, lanes = count * bits // 32, state.wave_size
    if source < _INLINE:
        words: Words = np.repeat(sgprs(state)[source : source + 1], lanes * needed).reshape(needed, lanes)
    else:
        words = every[source - _INLINE : source - _INLINE + needed]
    numbers: Numbers = unpack(np.ascontiguousarray(words.T).view(np.uint8)).astype(np.float64)
    return numbers


def _scales(state: Any, word: int, number: int) -> Numbers:
    """A power of two for each lane: one byte of a register, which two bits choose."""
    source = word >> (32, 41)[number] & 511
    byte = (word >> 11 + number & 1) | (word >> 59 + number & 1) << 1
    every = vgprs(state)[source - _INLINE] if source >= _INLINE else sgprs(state)[source].repeat(state.wave_size)
    exponents = (every >> np.uint32(8 * byte) & 255).astype(np.int64)
    return np.where(exponents == _NO_NUMBER, np.nan, np.exp2(exponents - _BIAS))
