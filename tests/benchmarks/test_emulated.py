"""What is read of AMD's code objects, and the instructions that stand in for the emulator's, need no emulator."""

from __future__ import annotations

import ctypes
import struct
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from autotuner.build import Builder
from autotuner.problems import Gemm
from autotuner.problems.render import problem_mlir
from autotuner.system import process
from autotuner.targets import Target
from benchmarks.emulated import instructions, lanes, matrices
from benchmarks.emulated.machine import CodeObject, load_emulator, one_instruction

LANES = 64


@dataclass
class Wave:
    """A wave's registers, as the emulator has them."""

    wave_size: int = LANES
    pc: int = 0
    vgpr_buf: Any = None
    sgpr_buf: Any = None
    accvgpr_buf: Any = None
    vectors: Any = field(default_factory=lambda: np.zeros((256, LANES), np.uint32))
    scalars: Any = field(default_factory=lambda: np.zeros(300, np.uint32))

    def __post_init__(self) -> None:
        self.scalars[126:128] = 0xFFFFFFFF  # all lanes are active
        self._vgpr_mv, self._sgpr_mv = memoryview(self.vectors.reshape(-1)), memoryview(self.scalars)


def test_a_code_object_is_read_into_memory(builder: Builder, tmp_path: Path) -> None:
    (tmp_path / "problem.mlir").write_text(problem_mlir(Gemm.parse(shape="64x64x64")))
    words = [
        "problem.mlir",
        *Target.parse("gfx942").compile_flags,
        "--iree-hal-dump-executable-binaries-to=.",
        "-o",
        "m",
    ]
    assert process.run([builder.tools.iree_compile, *words], timeout=120, cwd=tmp_path).ok
    code = CodeObject(next(tmp_path.glob("*.hsaco")))
    assert code.chip == "gfx942"
    ((name, kernel),) = code.kernels.items()
    found = code.descriptor(name)
    assert found.arguments == kernel[".kernarg_segment_size"] == 3 * 8
    assert found.shared == kernel[".group_segment_fixed_size"]
    assert code.base < found.entry < code.base + code.size
    assert ctypes.string_at(found.entry, 4) != bytes(4)
    arguments = ctypes.create_string_buffer(struct.pack("<3Q", 1, 2, 3) + bytes(256))
    packet = ctypes.create_string_buffer(64)
    registers = found.user_registers(arguments, packet)
    assert registers[:2] == [ctypes.addressof(arguments) & 0xFFFFFFFF, ctypes.addressof(arguments) >> 32]
    assert registers[2:] == [1, 0, 2, 0, 3, 0][: len(registers) - 2]


def test_what_is_no_checkout_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="no checkout"):
        load_emulator(tmp_path)


def test_lanes_are_swapped_by_masks_and_by_quads() -> None:
    for offset, other in ((0x1F | 1 << 10, 1), (0x8000 | 0b00011011, 3)):
        wave = Wave()
        wave.vectors[3] = np.arange(LANES)
        lanes.swizzle(offset | 3 << 32 | 5 << 56, LANES)(wave, None)
        assert wave.vectors[5].tolist() == [lane ^ other for lane in range(LANES)]
        assert wave.pc == 8


def test_lanes_of_the_other_row_are_chosen_by_a_constant_behind_the_instruction() -> None:
    wave = Wave()
    wave.scalars[19] = 0x76543210
    wave.vectors[77] = np.arange(LANES)
    raw = bytes.fromhex("4d085cd64d27fc03efcdab89")  # v_permlanex16_b32 v77, v77, s19, 0x89abcdef, of all lanes
    lanes.chosen(raw, 12, other=True)(wave, None)
    assert wave.vectors[77, :32].tolist() == [*range(16, 24), *range(31, 23, -1), *range(8), *range(15, 7, -1)]
    assert wave.pc == 12


def test_lanes_are_crossed_and_shared_as_rdna_has_it() -> None:
    wave, emulator = Wave(), Adder()
    wave.vgpr_buf = _buffer(wave.vectors)
    every = np.arange(LANES)
    for control, sources in ((0x161, every ^ 1), (0x153, every & ~15 | 3)):
        wave.vectors[2], wave.vectors[7] = 0, 100 + every
        word = 250 | 2 << 9 | 9 << 17 | (7 | control << 8 | 0xFF << 24) << 32  # v9 = v7 of other lanes + v2
        assert instructions._misread(word, "rdna3")
        assert not instructions._misread(word, "cdna")
        raw = word.to_bytes(8, "little") + bytes(8)
        instructions._from_lanes(emulator, raw, "rdna3", 8)(wave, None)
        assert emulator.executed[-1] >> 40 & 511 == 0xE4  # each lane its own, of a spare register
        assert wave.vectors[9].tolist() == (100 + sources).tolist()


def test_a_buffers_bounds_hold_and_half_a_register_keeps_its_other_half() -> None:
    memory, wave = np.arange(1, 9, dtype=np.uint16), Wave()
    wave.scalars[8:12] = [memory.ctypes.data & 0xFFFFFFFF, memory.ctypes.data >> 32, memory.nbytes, 0]
    wave.scalars[128] = 0
    wave.vectors[1] = np.arange(LANES) * 2
    wave.vectors[2] = 0xAAAABBBB
    word = 1 << 12 | 1 << 32 | 2 << 40 | 2 << 48 | 128 << 56  # offen, address v1, data v2, descriptor s[8:11]
    instructions._buffer(word, "BUFFER_LOAD_SHORT_D16_HI", "cdna")(wave, None)
    assert wave.vectors[2][:9].tolist() == [value << 16 | 0xBBBB for value in (*range(1, 9), 0)]
    instructions._buffer(word, "BUFFER_STORE_SHORT", "cdna")(wave, None)
    assert memory.tolist() == [0xBBBB] * 8


def test_words_are_read_at_addresses_that_are_no_multiples_of_four() -> None:
    memory, wave = np.arange(1, 9, dtype=np.uint16), Wave()
    wave.scalars[8:12] = [memory.ctypes.data & 0xFFFFFFFF, memory.ctypes.data >> 32, memory.nbytes, 0]
    wave.vectors[1] = np.arange(LANES) * 4 + 2
    word = 1 << 12 | 1 << 32 | 2 << 40 | 2 << 48 | 128 << 56  # offen, address v1, data v2, descriptor s[8:11]
    instructions._buffer(word, "BUFFER_LOAD_DWORDX2", "cdna")(wave, None)
    assert wave.vectors[2:4, :4].T.tolist() == [
        [2 | 3 << 16, 4 | 5 << 16],
        [4 | 5 << 16, 6 | 7 << 16],
        [6 | 7 << 16, 0],
        [0, 0],
    ]


def test_the_sum_of_a_lanes_offset_and_an_instructions_wraps() -> None:
    memory, wave = np.arange(1, 9, dtype=np.uint16), Wave()
    wave.scalars[8:12] = [memory.ctypes.data & 0xFFFFFFFF, memory.ctypes.data >> 32, memory.nbytes, 0]
    wave.vectors[1] = 0xFFFFFFF0
    word = 1 << 12 | 1 << 32 | 2 << 40 | 2 << 48 | 128 << 56 | 20  # offen, address v1, data v2, descriptor s[8:11]
    instructions._buffer(word, "BUFFER_LOAD_DWORD", "cdna")(wave, None)
    assert set(wave.vectors[2].tolist()) == {3 | 4 << 16}


def test_words_of_a_waves_own_memory_lie_lane_by_lane() -> None:
    memory, wave = np.zeros(LANES * 4, np.uint32), Wave()
    wave.scalars[:4] = [memory.ctypes.data & 0xFFFFFFFF, memory.ctypes.data >> 32, memory.nbytes, instructions.BY_LANE]
    wave.scalars[128] = 0
    wave.vectors[2] = np.arange(LANES)
    word = 2 << 40 | 128 << 56 | 8  # data v2, descriptor s[0:3], the third word
    instructions._buffer(word, "BUFFER_STORE_DWORD", "cdna")(wave, None)
    assert memory[2 * LANES : 3 * LANES].tolist() == [*range(LANES)]
    instructions._buffer(word & ~(255 << 40) | 5 << 40, "BUFFER_LOAD_DWORD", "cdna")(wave, None)
    assert wave.vectors[5].tolist() == [*range(LANES)]


def test_numbers_of_16_bits_go_to_accumulation_registers() -> None:
    accumulated: Any = np.zeros((256, LANES), np.uint32)
    shared: Any = np.array([7, 0xFFFE, 9, 0], np.uint16).view(np.uint8)
    wave = Wave()
    wave.accvgpr_buf = SimpleNamespace(as_memoryview=lambda **_: memoryview(accumulated.reshape(-1)).cast("B"))
    wave.vectors[1] = 2
    instructions._shared_narrow(2 | 1 << 32 | 5 << 56, "DS_READ_I16", accumulators=True)(wave, _buffer(shared))
    assert set(accumulated[5].tolist()) == {9}


def test_shared_memory_is_read_and_written_at_any_address() -> None:
    shared, wave = np.zeros(6 * LANES + 8, np.uint8), Wave()
    wave.vectors[1] = 6 * np.arange(LANES)  # each lane has three numbers of 16 bits: a word and a half
    wave.vectors[2], wave.vectors[3] = 0x20001, 3
    instructions._shared_words(1 << 32 | 2 << 40, "DS_WRITE_B32", accumulators=False)(wave, _buffer(shared))
    instructions._shared_narrow(4 | 1 << 32 | 3 << 40, "DS_STORE_B16", accumulators=False)(wave, _buffer(shared))
    assert shared[: 6 * LANES].view(np.uint16).tolist() == [1, 2, 3] * LANES
    wave.vectors[1] += 2
    pair = 1 << 8 | 1 << 32 | 1 << 56  # two words in a row, the first to where the address was
    instructions._shared_words(pair, "DS_LOAD_2ADDR_B32", accumulators=False)(wave, _buffer(shared))
    assert wave.vectors[1:3, :-1].T.tolist() == [[2 | 3 << 16, 1 | 2 << 16]] * (LANES - 1)
    wave.vectors[1] = 1
    half = 1 << 32 | 5 << 56
    instructions._shared_narrow(half, "DS_READ_U16_D16_HI", accumulators=False)(wave, _buffer(shared))
    assert set(wave.vectors[5].tolist()) == {2 << 8 << 16}
    wave.vectors[1] = 0xFFFFFFFC + np.arange(LANES)  # of which only the first lanes reach it with an offset of 4
    wave.vectors[7] = 9
    instructions._shared_words(4 | 1 << 32 | 7 << 56, "DS_READ_B32", accumulators=False)(wave, _buffer(shared[:8]))
    assert wave.vectors[7, :6].tolist() == [0x20001, 0x3000200, 0x30002, 0x1000300, 0x10003, 9]
    assert wave.pc == 5 * 8


def test_only_scales_are_read_with_the_matrix_instruction_after_them() -> None:
    raw = bytes.fromhex("ff644668908400001400add346550202")
    assert one_instruction(raw, "cdna") == raw[:8] + bytes(8)
    scaled = bytes.fromhex("0000acd300000000") + raw[8:]
    assert one_instruction(scaled, "cdna") == scaled
    assert one_instruction(raw, "rdna3") == raw


def test_copies_reach_shared_memory_beyond_64_kib() -> None:
    shared, source, wave = np.zeros(80 * 1024, np.uint8), np.arange(LANES, dtype=np.uint32), Wave()
    wave.scalars[124] = 70 * 1024
    wave.vectors[1] = (source.ctypes.data & 0xFFFFFFFF) + 4 * np.arange(LANES)
    wave.vectors[2] = source.ctypes.data >> 32
    place = SimpleNamespace(_buf=SimpleNamespace(va_addr=shared.ctypes.data))
    instructions._to_shared(1 << 32 | 127 << 48, "GLOBAL_LOAD_LDS_DWORD")(wave, place)
    assert shared[70 * 1024 :].view(np.uint32)[:LANES].tolist() == source.tolist()


class Adder:
    """An emulator with one instruction, `v_add_f16` on vector registers below 128, as tinygrad's is asked for one."""

    def __init__(self) -> None:
        self.executed: list[int] = []

    def _wave_size(self, _: str) -> int:
        return LANES

    def _decode_at(self, place: int, _: str) -> Any:
        self.executed.append(word := int.from_bytes(ctypes.string_at(place, 8), "little"))
        source = word >> 32 & 255 if word & 511 == 250 else word & 255

        def run(vectors: Any) -> None:
            every = np.ctypeslib.as_array(ctypes.cast(vectors.value, ctypes.POINTER(ctypes.c_uint32)), (256, LANES))
            every[word >> 17 & 255] = every[source] + every[word >> 9 & 255]

        return (SimpleNamespace(arg=SimpleNamespace(globals=[1])), SimpleNamespace(fxn=run)), None


def _buffer(content: Any) -> Any:
    return SimpleNamespace(_buf=SimpleNamespace(va_addr=content.ctypes.data), nbytes=content.nbytes)


def test_registers_from_128_on_are_whole_registers_in_instructions_of_16_bits() -> None:
    word = 256 | 200 | 3 << 9 | 130 << 17  # v130 = v200 + v3
    assert instructions._high("VOP2", "V_ADD_F16_E32", word) == [0, 17]
    assert instructions._high("VOP2", "V_ADD_F32_E32", word) == []
    wave, emulator = Wave(), Adder()
    wave.vectors[0], wave.vectors[2] = 77, 88
    wave.vectors[200], wave.vectors[3] = 5, np.arange(LANES)
    wave.vgpr_buf = _buffer(wave.vectors)
    raw = word.to_bytes(4, "little").ljust(16, b"\0")
    instructions._moved(emulator, raw, "cdna", 4, [0, 17])(wave, None)
    assert wave.vectors[130].tolist() == [5 + lane for lane in range(LANES)]
    assert set(wave.vectors[0]) == {77}
    assert set(wave.vectors[2]) == {88}
    assert set(wave.vectors[200]) == {5}
    assert wave.pc == 4
    assert all(field < 128 for field in (emulator.executed[0] >> at & 255 for at in (0, 9, 17)))


def test_a_part_of_an_instruction_may_be_a_scalar_register() -> None:
    wave, emulator = Wave(), Adder()
    wave.scalars[22] = 1000
    wave.vectors[22], wave.vectors[7] = 1, np.arange(LANES)
    wave.vgpr_buf = _buffer(wave.vectors)
    first, second = 249 | 22 << 9 | 9 << 17, 7 | instructions._SCALAR_1  # v9 = v7 + s22
    raw = first.to_bytes(4, "little") + second.to_bytes(4, "little") + bytes(8)
    wave.vectors[249 & 255] = 0
    run = instructions._part_of_scalar(emulator, raw, "cdna", 8)
    run(wave, None)
    assert wave.vectors[9].tolist() == [1000] * LANES
    assert emulator.executed[0] >> 9 & 255 == 255
    assert wave.pc == 8


def test_matrix_instructions_of_the_first_chips_are_known() -> None:
    raw = bytes.fromhex("0c00edd3") + bytes(12)  # v_mfma_f32_16x16x8bf16
    assert matrices.first_matrix(raw, "gfx90a") is not None
    assert matrices.first_matrix(raw, "gfx942") is None
    assert matrices.first_matrix(bytes.fromhex("0c00cdd3") + bytes(12), "gfx90a") is None  # v_mfma_f32_16x16x16_f16
