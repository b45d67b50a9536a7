"""Instructions that tinygrad's emulator lacks, or gets wrong, computed with numpy on a wave's registers."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import numpy as np

from benchmarks.emulated.lanes import chosen, swapped, swizzle
from benchmarks.emulated.matrices import matrix
from benchmarks.emulated.registers import Run, agprs, executing, sgprs, vgprs

Emulator = Any
"""The module `test.mockgpu.amd.emu`."""
_M0, _M0_OF_RDNA, _OFF = 124, 125, 127
_FMAC = 0x3B
_SHARED = 0x3FFFF
"""The bits of M0 that are an address: gfx950 has more than 64 KiB of shared memory."""
BY_LANE = 1 << 23
"""In the last word of a descriptor: memory of a wave's own, each lane with words of its own (gfx908, gfx90a)."""
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
    if name.startswith(("V_MFMA_", "V_WMMA_")):
        return matrix(name, int.from_bytes(raw, "little"), instruction.size(), chip)
    if name.startswith("BUFFER_") and form in ("MUBUF", "VBUFFER"):
        whole = int.from_bytes(raw[: instruction.size()], "little")
        return _buffer(whole, name, architecture)  # the emulator's own read and write at multiples of four only
    if form in ("VOP1_DPP16", "VOP2_DPP16") and _misread(word, architecture):
        return _from_lanes(emulator, raw, architecture, instruction.size())
    if "_SDWA" in form and word >> 32 & (_SCALAR_0 | _SCALAR_1):
        return _part_of_scalar(emulator, raw, architecture, instruction.size())
    if architecture == "cdna" and (fields := _high(form, name, word)):
        return _moved(emulator, raw, architecture, instruction.size(), fields)
    if re.fullmatch(r"GLOBAL_(INV|WB|WBINV)|V_NOP(_E32)?", name):
        return _skip(instruction.size())
    if form == "VOP2" and name.startswith("V_DOT2C_F32_BF16") and chip in ("gfx908", "gfx90a"):
        fused = word & 0x81FFFFFF | _FMAC << 25  # there the number of v_mac_f32
        code = (fused & 0xFFFFFFFF).to_bytes(4, "little") + raw[4:]
        return _elsewhere(emulator, architecture, code, instruction.size(), {})
    if name.startswith("V_MOVRELS_B32"):
        return _indexed(word)
    if name.startswith("S_SETREG"):  # MODE is not modelled
        return _skip(_LONG if "IMM32" in name else 4)
    if found := re.match(r"V_PERMLANE(16|32)_SWAP", name):
        return swapped(word, int(found[1]))
    if found := re.fullmatch(r"V_PERMLANE(X?)16_B32", name):
        return chosen(raw, instruction.size(), other=bool(found[1]))
    if form == "GLOBAL" and name.startswith("GLOBAL_LOAD_LDS_"):
        return _to_shared(word, name)
    if found := re.fullmatch(r"DS_READ_B64_TR_B(8|16)", name):
        return _turned(word, int(found[1]) // 8)
    accumulators = bool(form == "DS" and architecture == "cdna" and word >> 25 & 1)
    if re.fullmatch(r"DS_(READ|LOAD|WRITE|STORE)_[UIB](8|16)(_D16)?(_HI)?", name):
        return _shared_narrow(word, name, accumulators=accumulators)
    if accumulators or _WORDS.fullmatch(name):
        return _shared_words(word, name, accumulators=accumulators)
    return swizzle(word, wave) if name == "DS_SWIZZLE_B32" else None


def _skip(size: int) -> Run:
    def run(state: Any, shared: Any) -> None:
        del shared
        state.pc += size

    return run


def _indexed(word: int) -> Run:
    """A copy of a register so many beyond the named one as M0 says, on RDNA."""
    target, source = word >> 17 & 255, word & 255

    def run(state: Any, shared: Any) -> None:
        del shared
        vectors, lanes = vgprs(state), executing(state)
        vectors[target, lanes] = vectors[source + int(sgprs(state)[_M0_OF_RDNA]), lanes]
        state.pc += 4

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


def _half(old: Any, new: Any, *, high: bool) -> Any:
    """One half of a register replaced."""
    return old & 0xFFFF | new << 16 if high else old & 0xFFFF0000 | new


def _buffer(word: int, name: str, architecture: str) -> Run:
    """Loads and stores by a buffer's descriptor, whose bounds they obey."""
    cdna, fourth = architecture == "cdna", architecture == "rdna4"
    size_of_code = 12 if fourth else _LONG
    if re.search(r"INV|WBL2", name):
        return _skip(size_of_code)
    by_index, to_shared = word >> (13 if cdna else 63 if fourth else 55) & 1, cdna and word >> 16 & 1
    if by_index or "ATOMIC" in name or "FORMAT" in name or (word >> 53 & 1 and architecture == "rdna3"):
        raise NotImplementedError(f"{name} in this form")
    data, address, descriptor = word >> 40 & 255, word >> 32 & 255, (word >> 48 & 31) * 4
    offset, more, by_offset = word & 0xFFF, word >> 56 & 255, word >> (12 if cdna else 54) & 1
    if fourth:
        data, address, descriptor = word >> 32 & 255, word >> 64 & 255, word >> 41 & 511
        offset, more, by_offset = word >> 72, word & 127, word >> 62 & 1
    accumulators = cdna and word >> 55 & 1
    size, count, signed = _width(name)
    store, narrow, high = "STORE" in name, "D16" in name, "HI" in name.split("_")

    def run(state: Any, shared: Any) -> None:
        scalars, lanes = sgprs(state), executing(state)
        registers = (agprs if accumulators else vgprs)(state)
        base = int(scalars[descriptor]) | (int(scalars[descriptor + 1]) & 0xFFFF) << 32
        records = int(scalars[descriptor + 2])
        own = vgprs(state)[address, lanes] if by_offset else np.zeros(len(lanes), np.uint32)
        own = int(scalars[more]) + (own + np.uint32(offset)).astype(np.int64)  # this sum wraps, and not the other
        each = np.arange(count * size)
        places, there = own[:, None] + each, own[:, None] + (each // size + 1) * size <= records
        if int(scalars[descriptor + 3]) & BY_LANE:  # words of a wave's own memory lie with those of its other lanes
            places = places // 4 * 4 * state.wave_size + lanes[:, None] * 4 + places % 4
        content = _at(base, records) if there.any() else None
        if store:
            given = np.ascontiguousarray(registers[data : data + count, lanes].T >> np.uint32(16 if high else 0))
            if content is not None:
                content[places[there]] = given.view(np.uint8)[:, each][there]
            state.pc += size_of_code
            return
        raw = np.zeros(places.shape, np.uint8)
        if content is not None:
            raw[there] = content[places[there]]
        if to_shared:
            into = (int(scalars[_M0]) & _SHARED) + offset + lanes[:, None] * len(each)
            _bytes(shared)[into + each] = raw
        elif size < 4:
            value = raw.view(f"{'i' if signed else 'u'}{size}")[:, 0].astype(np.uint32)
            registers[data, lanes] = _half(registers[data, lanes], value & 0xFFFF, high=high) if narrow else value
        else:
            registers[data : data + count, lanes] = raw.view(np.uint32).T
        state.pc += size_of_code

    return run


def _to_shared(word: int, name: str) -> Run:
    """Loads from memory to shared memory, lane after lane from where M0 says."""
    offset, address, scalar = word & 0xFFF, word >> 32 & 255, word >> 48 & 127
    offset -= (word >> 12 & 1) << 12
    size = 4 * _width(name)[1]

    def run(state: Any, shared: Any) -> None:
        words, every, lanes = sgprs(state), vgprs(state), executing(state).tolist()
        start = int(words[_M0]) & _SHARED
        into = shared._buf.va_addr + start + offset
        for lane in lanes:
            own = int(every[address, lane])
            if scalar == _OFF:
                own |= int(every[address + 1, lane]) << 32
            else:
                own += int(words[scalar]) | int(words[scalar + 1]) << 32
            ctypes.memmove(into + lane * size, own + offset, size)
        state.pc += _LONG

    return run


def _turned(word: int, size: int) -> Run:
    """Sixteen lanes read rows of 16 numbers from shared memory, 8 bytes each; each lane gets a column."""
    offset, address, target = word & 0xFFFF, word >> 32 & 255, word >> 56 & 255
    accumulators = word >> 25 & 1

    def run(state: Any, shared: Any) -> None:
        content = _bytes(shared)
        at = vgprs(state)[address].astype(np.int64) + offset
        at = np.minimum(at, len(content) - 8)  # of lanes that do not execute
        rows = content[at[:, None] + np.arange(8)].reshape(-1, 8 // size, 16, size)
        columns = np.ascontiguousarray(rows.transpose(0, 2, 1, 3)).reshape(-1, 8).view(np.uint32)
        (agprs if accumulators else vgprs)(state)[target : target + 2] = columns.T
        state.pc += _LONG

    return run


_WORDS = re.compile(r"DS_(READ|LOAD|WRITE|STORE)(2|_2ADDR)?(ST64|_STRIDE64)?_B(32|64|96|128)")


def _bytes(shared: Any) -> Any:
    return _at(shared._buf.va_addr, shared.nbytes)


def _at(address: int, count: int) -> Any:
    """So many bytes of this process's memory."""
    there: Any = (ctypes.c_uint8 * count).from_address(address)
    return np.frombuffer(there, np.uint8)


def _reached(state: Any, address: int, offset: int, size: int, content: Any) -> tuple[Any, Any]:
    """The executing lanes whose addresses, sums that wrap, are in shared memory, and where each one's bytes are."""
    lanes = executing(state)
    starts = (vgprs(state)[address, lanes] + np.uint32(offset)).astype(np.int64)
    inside = starts + size <= len(content)
    return lanes[inside], starts[inside, None] + np.arange(size)


def _shared_words(word: int, name: str, *, accumulators: bool) -> Run:
    """Words between shared memory and registers: IREE's compiler counts on any address being allowed.

    The emulator rounds addresses down to multiples of four, and takes other registers for accumulation ones.
    """
    found = _WORDS.fullmatch(name)
    if found is None:
        raise NotImplementedError(f"{name} in this form")
    count = int(found[4]) // 32
    if found[2]:
        unit = 4 * count * (64 if found[3] else 1)
        offsets = [(word & 255) * unit, (word >> 8 & 255) * unit]
    else:
        offsets = [word & 0xFFFF]
    reads, address = found[1] in ("READ", "LOAD"), word >> 32 & 255
    firsts = [(word >> 56 & 255) + count * part if reads else word >> (40 + 8 * part) & 255 for part in (0, 1)]

    def run(state: Any, shared: Any) -> None:
        registers, content = (agprs if accumulators else vgprs)(state), _bytes(shared)
        found = [_reached(state, address, offset, 4 * count, content) for offset in offsets]
        for (lanes, places), first in zip(found, firsts, strict=False):
            if reads:
                registers[first : first + count, lanes] = content[places].view(np.uint32).T
            else:
                content[places] = np.ascontiguousarray(registers[first : first + count, lanes].T).view(np.uint8)
        state.pc += _LONG

    return run


def _shared_narrow(word: int, name: str, *, accumulators: bool) -> Run:
    """Numbers of up to 16 bits between shared memory and registers, or half a register, at any address.

    The emulator overwrites the other half, and takes other registers for the accumulation ones.
    """
    offset, address = word & 0xFFFF, word >> 32 & 255
    size, _, signed = _width(name)
    reads, half, high = name.startswith(("DS_READ", "DS_LOAD")), "D16" in name, name.endswith("HI")
    register = word >> (56 if reads else 40) & 255

    def run(state: Any, shared: Any) -> None:
        registers, content = (agprs if accumulators else vgprs)(state), _bytes(shared)
        lanes, places = _reached(state, address, offset, size, content)
        old = registers[register, lanes]
        if reads:
            value = content[places].view(f"{'i' if signed else 'u'}{size}")[:, 0].astype(np.uint32)
            registers[register, lanes] = _half(old, value & 0xFFFF, high=high) if half else value
        else:
            content[places] = (old >> (16 if high else 0)).astype(f"u{size}")[:, None].view(np.uint8)
        state.pc += _LONG

    return run


_SAME_LANE = 0xE4
"""The control word of data that stays where it is."""
_FROM_ROWS_BEFORE = {0x142: (15, 0b1110), 0x143: (31, 0b1100)}
"""Control words of data from the last lanes before a row (of 16 lanes, or of 32), and the rows that get some."""
_SHARED_LANE, _CROSSED = 0x15, 0x16
"""Control words of RDNA's, without the last four bits: one lane's data for its row, or lanes crossed by a mask."""


def _misread(word: int, architecture: str) -> bool:
    """Whether data from other lanes is read from lanes that are written before, or from the first lane of a row."""
    control = word >> 40 & 511
    unknown = control >> 4 in (_SHARED_LANE, _CROSSED) and architecture != "cdna"
    return (word >> 17 & 255) == (word >> 32 & 255) or control in _FROM_ROWS_BEFORE or unknown


def _from_lanes(emulator: Emulator, raw: bytes, architecture: str, size: int) -> Run:
    """A copy of the instruction, which reads what it wants from a spare register."""
    second = _words(raw)[1]
    source, control, spare = second & 255, second >> 8 & 511, _spare(raw)
    lanes, masked = np.arange(emulator._wave_size(architecture)), second & ~255 | spare
    if control in _FROM_ROWS_BEFORE:
        back, rows = _FROM_ROWS_BEFORE[control]
        lanes = np.maximum((lanes & ~back) - 1, 0)
        masked = masked & ~(511 << 8) & ~(15 << 28) | _SAME_LANE << 8 | (second >> 28 & rows) << 28
    elif control >> 4 in (_SHARED_LANE, _CROSSED):
        lanes = lanes & ~15 | control & 15 if control >> 4 == _SHARED_LANE else lanes ^ control & 15
        masked = masked & ~(511 << 8) | _SAME_LANE << 8
    code = raw[:4] + masked.to_bytes(4, "little") + raw[8:]
    return _elsewhere(emulator, architecture, code, size, {spare: lambda state: vgprs(state)[source, lanes]})


_SCALAR_0, _SCALAR_1 = 1 << 23, 1 << 31
"""Bits of an SDWA word: the first or the second operand is a scalar register; the emulator takes it for a vector's."""


def _part_of_scalar(emulator: Emulator, raw: bytes, architecture: str, size: int) -> Run:
    """A copy of the instruction, with a spare vector register for the scalar one; there is but one of these."""
    first, second = _words(raw)
    spare, scalar = _spare(raw), first >> 9 & 255 if second & _SCALAR_1 else second & 255
    if second & _SCALAR_1:
        first = first & ~(255 << 9) | spare << 9
    if second & _SCALAR_0:
        second = second & ~255 | spare
    words = (first, second & ~(_SCALAR_0 | _SCALAR_1))
    code = b"".join(word.to_bytes(4, "little") for word in words) + raw[8:]
    return _elsewhere(emulator, architecture, code, size, {spare: lambda state: sgprs(state)[scalar]})


_FIELDS = {"VOP1": (0, 17), "VOP2": (0, 9, 17), "VOPC": (0, 9)}
"""Where the vector registers of an instruction stand."""
_RESULT, _HALVES = 17, 128
"""From this register on, the emulator takes numbers of 16 bits for the other halves of registers, as RDNA has them."""


def _high(form: str, name: str, word: int) -> list[int]:
    """The fields that the emulator misreads in CDNA's instructions on numbers of 16 bits."""
    fields = _FIELDS.get(form.removesuffix("_LIT"), ()) if re.search(r"[FBIU]16", name) else ()
    return [at for at in fields if word >> at & 255 >= _HALVES and (at or word & 256)]


def _moved(emulator: Emulator, raw: bytes, architecture: str, size: int, fields: list[int]) -> Run:
    """A copy of the instruction on other registers, whose content changes places with that of its own."""
    first = _words(raw)[0]
    unused = [number for number in range(4) if number not in {first >> at & 255 for at in (0, 9, 17)}]
    spares: dict[int, int] = {}
    for at in fields:
        spares.setdefault(first >> at & 255, unused[len(spares)])
        first = first & ~(255 << at) | spares[first >> at & 255] << at
    reads = {spare: (lambda state, own=own: vgprs(state)[own]) for own, spare in spares.items()}
    target = int.from_bytes(raw[:4], "little") >> _RESULT & 255 if _RESULT in fields else None
    result = None if target is None else (target, spares[target])
    return _elsewhere(emulator, architecture, first.to_bytes(4, "little") + raw[4:], size, reads, result)


def _words(raw: bytes) -> tuple[int, int]:
    return int.from_bytes(raw[:4], "little"), int.from_bytes(raw[4:8], "little")


def _spare(raw: bytes) -> int:
    """A vector register that an instruction of two operands does not name."""
    first, second = _words(raw)
    used = {first >> 17 & 255, first >> 9 & 255, second & 255}
    return next(number for number in (255, 254, 253, 252) if number not in used)


def _elsewhere(
    emulator: Emulator,
    architecture: str,
    raw: bytes,
    size: int,
    reads: Mapping[int, Callable[[Any], Any]],
    result: tuple[int, int] | None = None,
) -> Run:
    """Executes an instruction that is not in the program, with this content in registers that it reads.

    `result`: the register that gets what comes of it, and the one where it is.
    """
    code = ctypes.create_string_buffer(raw + bytes(16))
    place = ctypes.addressof(code)
    (program, runner), _ = emulator._decode_at(place, architecture)

    def run(state: Any, shared: Any, kept: Any = code) -> None:
        del kept  # it must live as long as this function
        vectors, back, spares = vgprs(state), state.pc, list(reads)
        saved = vectors[spares]
        for spare, read in reads.items():
            vectors[spare] = read(state)
        state.pc = place
        buffers = (state.sgpr_buf, state.vgpr_buf, None, shared, None, state.accvgpr_buf)
        addresses = [ctypes.c_uint64(0 if one is None else one._buf.va_addr) for one in buffers]
        runner.fxn(*(addresses[number] for number in program.arg.globals))
        if result is not None:
            vectors[result[0]] = vectors[result[1]]
        vectors[spares] = saved
        state.pc = back + size

    return run
