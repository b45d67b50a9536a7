"""Instructions that tinygrad's emulator lacks, or gets wrong, computed with numpy on a wave's registers."""

from __future__ import annotations

import ctypes
import re
from importlib import import_module
from typing import Any

import numpy as np

from benchmarks.emulated.matrices import matrix
from benchmarks.emulated.registers import Run, agprs, executing, sgprs, vgprs

Emulator = Any
"""The module `test.mockgpu.amd.emu`."""
_LONG = 8
"""Bytes of an instruction of two words."""


def memory(emulator: Emulator, size: int, *, at: int | None = None) -> Any:
    """A buffer of the emulator's: new, or all memory from an address on."""
    del emulator
    device, dtypes = import_module("tinygrad.device"), import_module("tinygrad.dtype").dtypes
    options = None if at is None else device.BufferSpec(external_ptr=at)
    return device.Buffer("CPU", size, dtypes.uint8, options=options).ensure_allocated()


def lookup(emulator: Emulator, instruction: Any, raw: bytes, architecture: str, chip: str) -> Run | None:
    """The code of an instruction; None: the emulator's own is right."""
    name, word = emulator._op_name(instruction), int.from_bytes(raw[:8], "little")
    wave, form = emulator._wave_size(architecture), type(instruction).__name__
    if name.startswith("V_MFMA_"):
        return matrix(name, int.from_bytes(raw, "little"), instruction.size(), chip)
    if name.startswith("BUFFER_") and form == "MUBUF":
        # The emulator's own are right where no accumulation registers take part.
        right = architecture == "cdna" and re.search(r"DWORD(X2|X4)?$", name) and not word >> 55 & 1
        return None if right else _buffer(word, name, architecture)
    if form in ("VOP1_DPP16", "VOP2_DPP16") and (word >> 17 & 255) == (word >> 32 & 255):
        return _in_place(emulator, raw, architecture, instruction.size())
    if name.startswith("S_SETREG"):  # MODE is not modelled
        return _skip(_LONG if "IMM32" in name else 4)
    if form == "DS" and architecture == "cdna" and word >> 25 & 1:
        return _shared_accumulators(word, name)
    if re.match(r"DS_(LOAD|READ)_[UI](8|16)_D16", name):
        return _shared_half(word, name)
    return _swizzle(word, wave) if name == "DS_SWIZZLE_B32" else None


def _skip(size: int) -> Run:
    def run(state: Any, shared: Any) -> None:
        del shared
        state.pc += size

    return run


def _width(name: str) -> tuple[int, int, bool]:
    """Bytes of an element, the number of elements, and whether it is signed."""
    if found := re.search(r"_B(32|64|96|128)$", name):
        return 4, int(found[1]) // 32, False
    if found := re.search(r"_DWORD(?:X(\d))?$", name):
        return 4, int(found[1] or 1), False
    if re.search(r"BYTE|_[UI]8|_B8", name):
        return 1, 1, bool(re.search(r"SBYTE|_I8", name))
    if re.search(r"SHORT|_[UI]16|_B16", name):
        return 2, 1, bool(re.search(r"SSHORT|_I16", name))
    raise NotImplementedError(name)


def _half(old: int, new: int, *, high: bool) -> int:
    """One half of a register replaced."""
    return old & 0xFFFF | new << 16 if high else old & 0xFFFF0000 | new


def _buffer(word: int, name: str, architecture: str) -> Run:
    """Loads and stores by a buffer's descriptor, whose bounds they obey."""
    if re.search(r"INV|WBL2", name):
        return _skip(_LONG)
    cdna = architecture == "cdna"
    by_index, to_shared = word >> (13 if cdna else 55) & 1, word >> (16 if cdna else 53) & 1
    if by_index or to_shared or "ATOMIC" in name or "FORMAT" in name:
        raise NotImplementedError(f"{name} in this form")
    data, address, descriptor = word >> 40 & 255, word >> 32 & 255, (word >> 48 & 31) * 4
    offset, more, by_offset = word & 0xFFF, word >> 56 & 255, word >> (12 if cdna else 54) & 1
    accumulators = cdna and word >> 55 & 1
    size, count, signed = _width(name)
    store, narrow, high = "STORE" in name, "D16" in name, "HI" in name.split("_")

    def run(state: Any, shared: Any) -> None:
        del shared
        vectors, scalars = vgprs(state), sgprs(state)
        registers = agprs(state) if accumulators else vectors
        base = int(scalars[descriptor]) | (int(scalars[descriptor + 1]) & 0xFFFF) << 32
        records, start = int(scalars[descriptor + 2]), int(scalars[more])
        for lane in executing(state):
            own = offset + start + (int(vectors[address, lane]) if by_offset else 0)
            for number in range(count):
                at = own + number * 4
                within = at + size <= records
                if store and within:
                    value = int(registers[data + number, lane]) >> (16 if high else 0) & (1 << 8 * size) - 1
                    ctypes.memmove(base + at, value.to_bytes(size, "little"), size)
                elif not store:
                    loaded = int.from_bytes(ctypes.string_at(base + at, size), "little", signed=signed) if within else 0
                    old = int(registers[data, lane])
                    value = _half(old, loaded & 0xFFFF, high=high) if narrow else loaded & 0xFFFFFFFF
                    registers[data + number, lane] = value
        state.pc += _LONG

    return run


def _swizzle(word: int, wave: int) -> Run:
    offset, target, source = word & 0xFFFF, word >> 56 & 255, word >> 32 & 255
    lanes = np.arange(wave)
    if offset >= 0xC000:
        raise NotImplementedError("DS_SWIZZLE_B32 that rotates")
    if offset & 0x8000:
        chosen = lanes & ~3 | np.array([offset >> 2 * (lane & 3) & 3 for lane in lanes])
    else:
        chosen = lanes & ~31 | ((lanes & 31 & offset | offset >> 5 & 31) ^ offset >> 10 & 31)

    def run(state: Any, shared: Any) -> None:
        del shared
        vectors, active = vgprs(state), executing(state)
        there = np.zeros(wave, bool)
        there[active] = True
        vectors[target, active] = np.where(there[chosen], vectors[source, chosen], 0)[active]
        state.pc += _LONG

    return run


def _shared_accumulators(word: int, name: str) -> Run:
    """Between shared memory and accumulation registers; the emulator takes others for them."""
    found = re.fullmatch(r"DS_(READ|WRITE)(2)?(ST64)?_B(32|64|96|128)", name)
    if found is None:
        raise NotImplementedError(f"{name} with accumulation registers")
    count = int(found[4]) // 32
    if found[2]:
        unit = count * (64 if found[3] else 1)
        offsets = [(word & 255) * unit, (word >> 8 & 255) * unit]
    else:
        offsets = [(word & 0xFFFF) // 4]
    reads, address = found[1] == "READ", word >> 32 & 255
    firsts = [(word >> 56 & 255) + count * part if reads else word >> (40 + 8 * part) & 255 for part in (0, 1)]

    def run(state: Any, shared: Any) -> None:
        content = np.frombuffer(shared.as_memoryview(force_zero_copy=True).cast("B"), np.uint32)
        registers, lanes = agprs(state), executing(state)
        for offset, first in zip(offsets, firsts, strict=False):
            at = vgprs(state)[address, lanes] // 4 + offset
            for number in range(count):
                if reads:
                    registers[first + number, lanes] = content[at + number]
                else:
                    content[at + number] = registers[first + number, lanes]
        state.pc += _LONG

    return run


def _shared_half(word: int, name: str) -> Run:
    """Loads half a register from shared memory; the emulator overwrites the other half, too."""
    offset, target, source = word & 0xFFFF, word >> 56 & 255, word >> 32 & 255
    size = 1 if re.search(r"[UI]8", name) else 2
    kind = np.dtype(np.int8 if "I8" in name else np.uint8 if size == 1 else np.uint16)

    def run(state: Any, shared: Any) -> None:
        vectors = vgprs(state)
        content = bytes(shared.as_memoryview(force_zero_copy=True))
        for lane in executing(state):
            at = int(vectors[source, lane]) + offset
            value = int(np.frombuffer(content[at : at + size], kind)[0]) if at + size <= len(content) else 0
            vectors[target, lane] = _half(int(vectors[target, lane]), value & 0xFFFF, high=name.endswith("HI"))
        state.pc += _LONG

    return run


def _in_place(emulator: Emulator, raw: bytes, architecture: str, size: int) -> Run:
    """Data from other lanes of the register that is written: the emulator reads lanes that it has written before.

    A copy of the instruction writes a spare register, from which the result is moved.
    """
    word = int.from_bytes(raw[:4], "little")
    target = word >> 17 & 255
    spare = 255 if target != 255 else 254
    code = ctypes.create_string_buffer((word & ~(255 << 17) | spare << 17).to_bytes(4, "little") + raw[4:] + bytes(16))
    place = ctypes.addressof(code)
    (program, runner), _ = emulator._decode_at(place, architecture)

    def run(state: Any, shared: Any, kept: Any = code) -> None:
        del kept  # it must live as long as this function
        vectors, back = vgprs(state), state.pc
        saved, vectors[spare] = vectors[spare].copy(), vectors[target]
        state.pc = place
        buffers = (state.sgpr_buf, state.vgpr_buf, None, shared, None, state.accvgpr_buf)
        addresses = [ctypes.c_uint64(0 if one is None else one._buf.va_addr) for one in buffers]
        runner.fxn(*(addresses[number] for number in program.arg.globals))
        vectors[target], vectors[spare] = vectors[spare], saved
        state.pc = back + size

    return run
