"""Objects are read as they are: IREE's own for several chips, one with MISA's ABI, and broken ones."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotuner.errors import UsageError
from autotuner.iree.kernels import Kernel
from autotuner.iree.objects import read_object
from autotuner.iree.tools import Tools
from autotuner.microkernels.check import check
from autotuner.microkernels.kernel_table import kernels_json, kernels_table
from autotuner.targets import Target
from tests.support.patience import ENOUGH
from tests.support.stand_in import RELOCATABLE, instance, misa_metadata, misa_stand_in, write_hsaco

MISA = "igemm_fwd_gtcx3_nhwc_fp16_bx0_ex1_bt128x128x32_wt32x32x8_ws1x1_wr2x2_ta1x8x2x1_1x4x1x64_tb1x8x2x1_1x4x1x64"

# Sizes that are not known become constants of the kernel, two for each.
ADD = """
func.func @main(%a: tensor<?x?xf32>, %b: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %r = arith.addf %a, %b : tensor<?x?xf32>
  return %r : tensor<?x?xf32>
}
"""
Compiled = Callable[[str], tuple[Path, int]]


@pytest.fixture(scope="session")
def compiled(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    """compiled(chip): IREE's object for a sum of two matrices, and how many constants its layout has."""
    made: dict[str, tuple[Path, int]] = {}

    def make(chip: str) -> tuple[Path, int]:
        if chip not in made:
            folder = tmp_path_factory.mktemp(chip)
            (folder / "add.mlir").write_text(ADD)
            flags = [*Target.parse(chip).compile_flags, "--iree-hal-dump-executable-files-to=."]
            command: list[str | Path] = [tools.iree_compile, "add.mlir", *flags, "-o", "add.vmfb"]
            subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=ENOUGH)
            (binary,) = [*folder.glob("*.hsaco"), *folder.glob("*.ptx")]
            (source,) = folder.glob("configured_*.mlir")
            constants = re.search(r"pipeline.layout<constants = (\d+)", source.read_text())
            assert constants
            made[chip] = binary, int(constants[1])
        return made[chip]

    return make


def inspect(path: Path) -> list[Kernel]:
    """Its kernels, once they can be shown."""
    kernels_json(path)
    return list(read_object(path).kernels)


def offsets(kernel: Kernel, kind: str) -> list[int]:
    return [a.offset for a in kernel.arguments or () if a.kind == kind]


# AMD


@pytest.mark.parametrize("chip", ["gfx942", "gfx1100", "sm_80"])
def test_irees_own_objects_fit_the_layout_that_iree_gave_them(compiled: Compiled, chip: str) -> None:
    """Among them kernels with hidden arguments, which IREE launches as it does all others."""
    path, constants = compiled(chip)
    (kernel,) = inspect(path)
    fitting = instance(
        path,
        symbol=kernel.symbol,
        chip=chip,
        constants=(0,) * constants,
        workgroup_size=kernel.workgroup_size or (kernel.most_threads, 1, 1),
        subgroup_size=kernel.wavefront,
    )
    assert check(fitting) == []
    assert "arguments" in [m.what for m in check(replace(fitting, constants=(0,)))]
    assert bool(kernel.of_kind("hidden")) == (chip != "sm_80")
    assert (kernel.kind, kernel.chip) == ("ptx" if chip == "sm_80" else "hsaco", chip)
    assert kernel.symbol.startswith("main_dispatch_0_elementwise")
    assert offsets(kernel, "pointer") == [0, 8, 16]
    assert offsets(kernel, "value") == [24 + 4 * i for i in range(constants)] != []
    assert kernel.wavefront == (64 if chip.startswith("gfx9") else 32)
    if chip == "sm_80":
        assert f".maxntid {kernel.most_threads}, 1, 1" in path.read_text()
    assert read_object(path).linked


def test_the_chip_stands_in_the_header_where_the_note_does_not_say_it(compiled: Compiled, tmp_path: Path) -> None:
    """The header's byte is that of the real objects."""
    for chip in ("gfx942", "gfx1100"):
        flags = compiled(chip)[0].read_bytes()[48]
        by_hand = misa_stand_in(tmp_path / "k.hsaco", symbol="k", chip=chip)
        assert by_hand.read_bytes()[48] == flags
        assert inspect(by_hand)[0].chip == chip
    for target in ("amdgcn-amd-amdhsa--gfx942:sramecc+:xnack-", "amdgpu9.42-amd-amdhsa-unknown-gfx942"):
        write_hsaco(tmp_path / "k.hsaco", [misa_metadata("k")], target=target)
        assert inspect(tmp_path / "k.hsaco")[0].chip == "gfx942"


def test_a_code_object_may_have_many_kernels_no_sections_or_not_be_linked(tmp_path: Path) -> None:
    many = [misa_metadata(f"k{i}", constants=i) for i in range(100)]
    kernels = inspect(write_hsaco(tmp_path / "many.hsaco", many))
    assert [(k.symbol, len(k.of_kind("value"))) for k in kernels] == [(f"k{i}", i) for i in range(100)]
    stripped = inspect(write_hsaco(tmp_path / "stripped.hsaco", many, sections=False))
    assert stripped == [replace(kernel, code=None) for kernel in kernels]
    assert not read_object(write_hsaco(tmp_path / "loose.hsaco", many, type_=RELOCATABLE)).linked


# NVIDIA


PTX = """//
/* .target sm_20 */
.version 8.6
.target sm_90a, debug
.address_size 64
.extern .shared .align 16 .b8 global_smem[];
.shared .align 4 .f32 table[4][8];
// .entry commented(.param .u32 x)
.visible .entry first(
	.param .u64 .ptr .global .align 16 first_param_0,
	.param .u64 first_param_1, // } a brace
	.param .b32 first_param_2,
	.param .align 16 .b8 first_param_3[20],
	.param .f64 first_param_4
)
.reqntid 64, 2
.minnctapersm 1
{
	.shared .align 16 .v4 .f32 own[3];
	.param .b32 inner;
	mov.b64 {%r1, %r2}, %rd1;
}
.entry second
.maxntid 128, 1, 1
{
	ret;
}
"""


def test_every_entry_of_a_ptx_is_read(tmp_path: Path) -> None:
    (tmp_path / "k.ptx").write_bytes(PTX.encode() + b"\0")
    first, second = inspect(tmp_path / "k.ptx")
    assert [(a.kind, a.type, a.offset, a.size) for a in first.arguments or ()] == [
        ("pointer", "u64", 0, 8),
        ("pointer", "u64", 8, 8),
        ("value", "b32", 16, 4),
        ("value", "b8", 32, 20),
        ("value", "f64", 56, 8),
    ]
    assert (first.workgroup_size, first.most_threads) == ((64, 2, 1), None)
    assert (first.local_memory, first.dynamic_memory, first.chip) == (4 * 8 * 4 + 3 * 16, True, "sm_90a")
    assert (second.symbol, second.arguments, second.workgroup_size, second.most_threads) == ("second", (), None, 128)
    assert second.local_memory == 128
    assert read_object(tmp_path / "k.ptx").version == "8.6"


# What is shown


def test_the_table_has_a_row_for_each_kernel_and_no_empty_columns(tmp_path: Path) -> None:
    (row,) = kernels_table(misa_stand_in(tmp_path / "misa.hsaco", symbol=MISA))
    assert row == {
        "symbol": MISA,
        "chip": "gfx942",
        "pointers": "3",
        "constants": "26",
        "kernarg": "128",
        "workgroup": "256x1x1",
        "wavefront": "64",
        "local memory": "32768",
        "vgpr": "128",
        "agpr": "64",
        "sgpr": "96",
    }
    (tmp_path / "k.ptx").write_text(PTX)
    first, second = kernels_table(tmp_path / "k.ptx")
    assert (first["workgroup"], second["workgroup"]) == ("64x2x1", "≤ 128")
    assert (first["PTX"], first["local memory"]) == ("8.6", "176 + dynamic")


# What is no object, or not whole


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is no ELF, PTX or hsaco: it is empty"),
        (b"#!/bin/sh\n", "is no ELF, PTX or hsaco: it starts with b'#!/bin/s'"),
        (b".version 8.6\n.entry k() {}", "is no ELF, PTX or hsaco"),
        (b"\x7fELF", "is a damaged object"),
        (b".version 8.6\n.target sm_80\n", "defines no kernel"),
    ],
)
def test_what_is_no_object_is_named(tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(UsageError, match=re.escape(words)) as raised:
        inspect(tmp_path / "file")
    assert raised.value.remedy


def test_missing_files_folders_and_other_machines_code_are_named(tmp_path: Path) -> None:
    for path, words in ((tmp_path / "none", "does not exist"), (tmp_path, "cannot be read"), (Path("a\0b"), "cannot")):
        with pytest.raises(UsageError, match=words):
            inspect(path)
    whole = misa_stand_in(tmp_path / "k.hsaco", symbol="k").read_bytes()
    (tmp_path / "k.hsaco").write_bytes(whole[:18] + bytes([243]) + whole[19:])
    assert inspect(tmp_path / "k.hsaco")[0].chip == "riscv"
    write_hsaco(tmp_path / "k.hsaco", [])
    with pytest.raises(UsageError, match="defines no kernel"):
        inspect(tmp_path / "k.hsaco")
    (tmp_path / "k.hsaco").write_bytes(whole.replace(b"AMDGPU\0\0", b"AMD\0\0\0\0\0"))
    with pytest.raises(UsageError, match="without a list of kernels"):
        inspect(tmp_path / "k.hsaco")


def survives(path: Path, content: bytes) -> None:
    """Either kernels or a UsageError with a remedy."""
    path.write_bytes(content)
    try:
        kernels_table(path)
        kernels_json(path)
    except UsageError as error:
        if not error.remedy:
            raise


def test_objects_cut_off_anywhere_give_a_usage_error(compiled: Compiled, tmp_path: Path) -> None:
    for chip in ("gfx942", "sm_80"):
        whole = compiled(chip)[0].read_bytes()
        for size in range(0, len(whole), max(1, len(whole) // 60)):
            survives(tmp_path / "cut", whole[:size])
    cut = compiled("gfx942")[0].read_bytes()
    (tmp_path / "cut").write_bytes(cut[:-100])
    with pytest.raises(UsageError, match=r"damaged object: its .* headers do not fit"):
        inspect(tmp_path / "cut")


changes = st.lists(st.tuples(st.integers(0, 4000), st.integers(0, 255)), min_size=1, max_size=8)
KERNEL = misa_metadata("k", constants=2)


@given(changes=changes, ptx=st.booleans())
def test_changed_bytes_give_a_usage_error_at_most(
    changes: list[tuple[int, int]], ptx: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "changed"
    whole = bytearray(PTX.encode() if ptx else write_hsaco(path, [KERNEL]).read_bytes())
    for place, value in changes:
        whole[place % len(whole)] = value
    survives(path, bytes(whole))


@pytest.mark.parametrize(
    "odd",
    [
        {"kernarg_segment_size": -8},
        {"args": [{}]},
        {"reqd_workgroup_size": [1, 2]},
    ],
)
def test_odd_metadata_gives_a_usage_error(tmp_path: Path, odd: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="damaged object"):
        inspect(misa_stand_in(tmp_path / "k.hsaco", symbol="k", **odd))


def test_long_texts_are_read_in_time(tmp_path: Path) -> None:
    """Patterns that try again from every place would take minutes here."""
    head = ".version 8.6\n.target sm_80\n"
    for filler in ("\n", " ", "/*", "{", ".shared ", ".entry k(", "[1]", '"', "9", ".extern\n"):
        survives(tmp_path / "long.ptx", (head + filler * (50_000 // len(filler))).encode())
