"""Runs sampled workgroups of a kernel in AMD's machine code, by the instruction emulator of a checkout of tinygrad's.

The emulator compiles each instruction to code for this processor. It knows no clocks, no wait counts and no order of
waves between barriers, and the MODE register is not modelled: what passes is right under this emulator, and what fails
is suspected only.
"""

from __future__ import annotations

import ctypes
import mmap
import struct
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import numpy.typing as npt
from elftools.elf.elffile import ELFFile

from benchmarks.emulated.instructions import BY_LANE, Emulator, lookup, memory
from benchmarks.emulated.matrices import first_matrix
from benchmarks.emulated.registers import sgprs, vgprs

ARCHITECTURES = {
    **dict.fromkeys(("gfx908", "gfx90a", "gfx942", "gfx950"), "cdna"),
    **dict.fromkeys(("gfx1100", "gfx1151"), "rdna3"),
    "gfx1201": "rdna4",
}
"""The emulator's names of chips."""
Place = tuple[int, int, int]
_PAGE = 4096
_RELATIVE = 13
"""R_AMDGPU_RELATIVE64."""
_SCALES = b"\xac\xd3"
"""Begins the one instruction of CDNA's that is longer than eight bytes."""
_NO_RESERVE = 0x4000  # MAP_NORESERVE of Linux, which Python 3.11 does not name
_LAZY = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE
_NUMBER_OF_WAVE = 116
"""ttmp8."""
_BARRIERS = ("SOPP", "SOP1")
_OWN_MEMORY = 1
"""The property of a kernel whose first four registers describe its waves' own memory."""


def load_emulator(checkout: Path) -> Emulator:
    """The emulator of a checkout."""
    source = checkout / "test" / "mockgpu" / "amd" / "emu.py"
    if not source.is_file():
        sys.exit(f"{checkout} is no checkout of tinygrad's: {source} is not there")
    sys.path.insert(0, str(checkout))
    formats = import_module("tinygrad.renderer.amd")._load_formats()
    emulator: Emulator = import_module("test.mockgpu.amd.emu")
    for architecture, buffers in (("rdna3", emulator.ir3.MUBUF), ("rdna4", emulator.ir4.VBUFFER)):
        if buffers not in formats[architecture]:
            formats[architecture].insert(0, buffers)
    decode = emulator.decode_inst
    emulator.decode_inst = lambda raw, architecture: decode(one_instruction(raw, architecture), architecture)
    return emulator


def one_instruction(raw: bytes, architecture: str) -> bytes:
    """Without what follows: the emulator takes any instruction before a matrix instruction of f8 for its scales."""
    alone = architecture == "cdna" and raw[2:4] != _SCALES
    return raw[:8].ljust(16, b"\0") if alone else raw


class CodeObject:
    """The code of an hsaco in this process's memory."""

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            elf: Any = ELFFile(file)
            parts = list(elf.iter_segments("PT_LOAD"))
            self.size = max(one["p_vaddr"] + one["p_memsz"] for one in parts)
            self._memory = mmap.mmap(-1, -(-self.size // _PAGE) * _PAGE + _PAGE)
            self.base = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
            for one in parts:
                self._memory[one["p_vaddr"] : one["p_vaddr"] + one["p_filesz"]] = one.data()
            self._relocate(elf)
            notes = [note for one in elf.iter_segments("PT_NOTE") for note in one.iter_notes()]
            table = msgpack.unpackb(next(n["n_descdata"] for n in notes if n["n_name"] == "AMDGPU"))
            self.chip = str(table["amdhsa.target"]).rpartition("-")[2].partition(":")[0]
            self.kernels: dict[str, dict[str, Any]] = {one[".name"]: one for one in table["amdhsa.kernels"]}
            symbols = elf.get_section_by_name(".dynsym").iter_symbols()
            self._places = {one.name: one["st_value"] for one in symbols}

    def _relocate(self, elf: Any) -> None:
        for section in elf.iter_sections():
            if section["sh_type"] == "SHT_RELA" and section["sh_flags"] & 2:
                for one in section.iter_relocations():
                    if one["r_info_type"] != _RELATIVE:
                        raise NotImplementedError(f"a relocation of type {one['r_info_type']}")
                    struct.pack_into("<Q", self._memory, one["r_offset"], self.base + one["r_addend"])

    def descriptor(self, name: str) -> Descriptor:
        place = self._places[self.kernels[name][".symbol"]]
        shared, scratch, arguments, _, entry = struct.unpack_from("<4Iq", self._memory, place)
        (registers,) = struct.unpack_from("<I", self._memory, place + 52)
        properties, preloaded = struct.unpack_from("<2H", self._memory, place + 56)
        return Descriptor(self.base + place + entry, shared, scratch, arguments, registers, properties, preloaded)


@dataclass(frozen=True)
class Descriptor:
    """A kernel descriptor (https://llvm.org/docs/AMDGPUUsage.html#kernel-descriptor)."""

    entry: int
    shared: int
    scratch: int
    arguments: int
    registers: int
    properties: int
    preloaded: int

    def user_registers(self, arguments: Any, packet: Any) -> list[int]:
        """The scalar registers that a wave begins with, in the order of their bits."""

        def pair(buffer: Any) -> list[int]:
            return _halves(ctypes.addressof(buffer))

        parts = ([0] * 4, pair(packet), [0, 0], pair(arguments), [0, 0], [0, 0], [self.scratch])
        found = [word for bit, part in enumerate(parts) if self.properties >> bit & 1 for word in part]
        count, offset = self.preloaded & 0x7F, self.preloaded >> 7
        return found + list(struct.unpack_from(f"<{count}I", arguments.raw, offset * 4))


def _halves(address: int) -> list[int]:
    return [address & 0xFFFFFFFF, address >> 32]


@dataclass
class _Instruction:
    run: Any
    buffers: tuple[int, ...] | None
    """Which of a wave's buffers it takes; None: it is one of `instructions`."""
    barrier: bool


@dataclass
class Launch:
    """A kernel with its arguments: pointers to memory, then constants."""

    emulator: Emulator
    code: CodeObject
    name: str
    memory: Sequence[npt.NDArray[np.uint8]]
    constants: Sequence[int]
    grid: Place
    block: Place
    dynamic_shared: int = 0
    executed: int = 0
    """Instructions of waves."""
    _program: dict[int, _Instruction] = field(default_factory=dict)

    def run(self, workgroups: Sequence[Place]) -> None:
        """Runs these workgroups, one after the other."""
        emulator, architecture = self.emulator, ARCHITECTURES[self.code.chip]
        kernel, wave = self.code.descriptor(self.name), emulator._wave_size(architecture)
        if self.code.kernels[self.name][".wavefront_size"] != wave:
            raise NotImplementedError(f"waves_of {self.code.kernels[self.name]['.wavefront_size']}")
        total = self.block[0] * self.block[1] * self.block[2]
        pointers = struct.pack(f"<{len(self.memory)}Q", *(one.ctypes.data for one in self.memory))
        arguments = pointers + b"".join(struct.pack("<I", one & 0xFFFFFFFF) for one in self.constants)
        given = ctypes.create_string_buffer(arguments.ljust(kernel.arguments, b"\0") + bytes(256))
        self._hide(given)
        items = [groups * size for groups, size in zip(self.grid, self.block, strict=True)]
        head = struct.pack("<HHHHHHIII", 0, 1, *self.block, 0, *items)
        packet = ctypes.create_string_buffer(
            head + struct.pack("<IIQQQQ", kernel.scratch, kernel.shared, 0, ctypes.addressof(given), 0, 0), 64
        )
        user = kernel.user_registers(given, packet)
        size = (kernel.shared + self.dynamic_shared + 511) // 512 * 512 or 512
        reach = mmap.mmap(-1, 1 << 32, flags=_LAZY)  # the emulator reads for lanes that do not execute, too
        shared = memory(emulator, size, at=ctypes.addressof(ctypes.c_char.from_buffer(reach)))
        everything = memory(emulator, 1 << 42, at=0)
        starts = range(0, total, wave)
        scratch = [memory(emulator, max(kernel.scratch, 1) * wave + 64) for _ in starts]
        with emulator._MXCSRContext():
            for place in workgroups:
                ctypes.memset(shared._buf.va_addr, 0, shared.nbytes)
                waves = []
                for start, own in zip(starts, scratch, strict=True):
                    first = (kernel.entry, start, total, *self.block, ctypes.addressof(given), kernel.registers)
                    state = emulator._init_wave(*first, kernel.scratch, architecture, *place, user, wave)
                    sgprs(state)[_NUMBER_OF_WAVE] = start // wave << 25  # where RDNA4 has it
                    if kernel.properties & _OWN_MEMORY:
                        sgprs(state)[:4] = [*_halves(own._buf.va_addr), own.nbytes, BY_LANE]
                    if self.code.chip == "gfx908":  # it has the three numbers of a work item in three registers
                        vectors = vgprs(state)
                        vectors[:3] = [vectors[0] >> np.uint32(10 * axis) & 1023 for axis in range(3)]
                    buffers = (state.sgpr_buf, state.vgpr_buf, everything, shared, own, state.accvgpr_buf)
                    waves.append((state, [ctypes.c_uint64(one._buf.va_addr) for one in buffers]))
                while waves:  # up to the next barrier, each in turn
                    waves = [one for one in waves if self._until_barrier(*one, shared, architecture)]

    def _hide(self, arguments: Any) -> None:
        """Writes what HIP adds to the arguments, where the kernel reads it: the grid, say."""
        for one in self.code.kernels[self.name].get(".args", ()):
            what, _, axis = one[".value_kind"].rpartition("_")
            sizes = {"hidden_block_count": self.grid, "hidden_group_size": self.block}.get(what)
            if sizes is not None:
                value = sizes["xyz".index(axis)].to_bytes(one[".size"], "little")
                ctypes.memmove(ctypes.addressof(arguments) + one[".offset"], value, len(value))

    def _until_barrier(self, state: Any, buffers: list[Any], shared: Any, architecture: str) -> bool:
        """Whether the wave has reached a barrier, and not its end."""
        while (place := state._sgpr_mv[256] | state._sgpr_mv[257] << 32) != self.emulator.ENDPGM_PC:
            one = self._program.get(place) or self._decode(place, architecture)
            if one.buffers is None:
                one.run(state, shared)
            else:
                one.run(*(buffers[number] for number in one.buffers))
            self.executed += 1
            if one.barrier:
                return True
        return False

    def _decode(self, place: int, architecture: str) -> _Instruction:
        emulator, code = self.emulator, self.code
        if not code.base <= place < code.base + code.size:
            raise RuntimeError(f"the kernel went on at {place:#x}, outside of its code")
        raw = ctypes.string_at(place, 16)
        if (run := first_matrix(raw, code.chip)) is not None:
            return self._program.setdefault(place, _Instruction(run, None, False))
        decoded = emulator.decode_inst(raw, architecture)
        own = lookup(emulator, decoded, raw, architecture, code.chip)
        known = {"SOPP": emulator._BARRIER_OPS, "SOP1": emulator._BARRIER_SOP1_OPS}.get(type(decoded).__name__, ())
        barrier = type(decoded).__name__ in _BARRIERS and decoded.op in known
        if own is not None:
            found = _Instruction(own, None, barrier)
        else:
            (program, runner), _ = emulator._decode_at(place, architecture)
            found = _Instruction(runner.fxn, tuple(program.arg.globals), barrier)
        self._program[place] = found
        return found
