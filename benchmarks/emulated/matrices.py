"""AMD's matrix instructions of waves of 64, computed with numpy on a wave's registers.

tinygrad's emulator has them for one format of f8, writes the rows of those of 32x32 in another order, makes C of those
for i8 that clang refuses, and reads scales of the lane that has the result. This is what the documents of the
instruction set say, for all of them: a lane has numbers of one row that follow each other in K, and their scale.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from benchmarks.emulated.registers import Run, Words, agprs, sgprs, vgprs

_LANES = 64
_INLINE = 256
"""Operands from here on are vector registers."""
_SIGNED, _BIASED = 127, 255
_NAME = re.compile(r"V_MFMA_(SCALE_)?(F32|I32)_(16|32)X(?:16|32)X(\d+)_(F32|F16|BF16|I8|[FB][PF]8_[FB][PF]8|F8F6F4)$")
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
    "FP8": (8, _viewed(ml_dtypes.float8_e4m3fn)),
    "BF8": (8, _viewed(ml_dtypes.float8_e5m2)),
    "FP8 of gfx942": (8, _viewed(ml_dtypes.float8_e4m3fnuz)),
    "BF8 of gfx942": (8, _viewed(ml_dtypes.float8_e5m2fnuz)),
    "FP4": (4, _f4),
}
"""Bits of a number, and how bytes are read."""
_CHOSEN = {0: "FP8", 1: "BF8", 4: "FP4"}
"""Formats that fields of the instruction choose."""


def matrix(name: str, word: int, size: int, chip: str) -> Run | None:
    """The code of a matrix instruction, if it is one of these."""
    if (found := _NAME.match(name)) is None:
        return None
    scaled, result, rows, depth, kinds = bool(found[1]), found[2], int(found[3]), int(found[4]), found[5]
    scales, word = (word & (1 << 64) - 1, word >> 64) if scaled else (0, word)
    if kinds == "F8F6F4":
        chosen = [_CHOSEN.get(word >> at & 7, "F6") for at in (8, 61)]
    else:
        chosen = (kinds.split("_") * 2)[:2]
    if chip == "gfx942":
        chosen = [f"{one} of {chip}" if one in ("FP8", "BF8") else one for one in chosen]
    if unknown := [one for one in chosen if one not in _FORMATS]:
        raise NotImplementedError(f"{name} with {unknown[0]}")
    groups = _LANES // rows
    kind = np.dtype(np.int32 if result == "I32" else np.float32)
    lanes, registers = np.arange(_LANES), np.arange(rows * rows // _LANES)[:, None]
    row = registers // 4 * 4 * groups + lanes // rows * 4 + registers % 4
    target, added = word & 255, word >> 50 & 511
    sources = [(word >> at & 511, word >> 59 + number & 1, chosen[number]) for number, at in enumerate((32, 41))]

    def run(state: Any, shared: Any) -> None:
        del shared
        a, b = (
            _operand(state, *source, depth // groups, _scales(state, scales, number) if scaled else None)
            .reshape(groups, rows, -1)
            .transpose(1, 0, 2)
            .reshape(rows, depth)
            for number, source in enumerate(sources)
        )
        product = (a @ b.T)[row, lanes % rows]
        results = agprs(state) if word >> 15 & 1 else vgprs(state)
        if added >= _INLINE:
            before = results[added - _INLINE : added - _INLINE + len(registers)].view(kind).astype(np.float64)
        else:
            before = sgprs(state)[added : added + 1].view(kind).astype(np.float64)
        total = product + before
        if result == "I32":
            total = total.astype(np.int64).astype(np.int32)
        results[target : target + len(registers)] = total.astype(kind).view(np.uint32)
        state.pc += size

    return run


def _operand(state: Any, source: int, accumulator: int, kind: str, count: int, scale: Numbers | None) -> Numbers:
    """The numbers of each lane."""
    bits, unpack = _FORMATS[kind]
    needed = count * bits // 32
    if source < _INLINE:
        words: Words = np.repeat(sgprs(state)[source : source + 1], _LANES * needed).reshape(needed, _LANES)
    else:
        every = agprs(state) if accumulator else vgprs(state)
        words = every[source - _INLINE : source - _INLINE + needed]
    numbers: Numbers = unpack(np.ascontiguousarray(words.T).view(np.uint8)).astype(np.float64)
    return numbers if scale is None else numbers * scale[:, None]


def _scales(state: Any, word: int, number: int) -> Numbers:
    """A power of two for each lane: one byte of a register, which two bits choose."""
    source = word >> (32, 41)[number] & 511
    byte = (word >> 11 + number & 1) | (word >> 59 + number & 1) << 1
    every = vgprs(state)[source - _INLINE] if source >= _INLINE else sgprs(state)[source].repeat(_LANES)
    exponents = (every >> np.uint32(8 * byte) & 255).astype(np.int64)
    return np.where(exponents == _BIASED, np.nan, np.exp2(exponents - float(_SIGNED)))
