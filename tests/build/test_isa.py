"""Figures of the machine code: what the binaries and the compiler's remarks say, and never a failure."""

from __future__ import annotations

import re
import shutil
import subprocess
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from autotuner.build import Builder, BuildJob, Isa
from autotuner.iree.folder import write_inputs
from autotuner.iree.isa import REMARKS, read_isa, split_remarks
from autotuner.problems import Gemm
from autotuner.problems.render import problem_mlir
from autotuner.system.process import CUT
from autotuner.targets import Target
from autotuner.tuning.plan import Candidate, Plan
from tests.support.patience import ENOUGH

PTX_HEAD = ".version 8.6\n.target sm_80\n"

MakePlan = Callable[[Gemm, str], Plan]
MakeJob = Callable[[Plan, Candidate], BuildJob]

SMALL = Gemm.parse(shape="256x256x256", dtype="f16")


@dataclass(frozen=True)
class Dumped:
    """IREE's own choice for a chip, compiled by the builder's command with all its dumps kept."""

    job: BuildJob
    folder: Path

    @property
    def binaries(self) -> Path:
        return self.folder / "binaries"

    @property
    def vmfb(self) -> Path:
        return self.folder / "module.vmfb"

    @property
    def binary(self) -> Path:
        (path,) = self.binaries.iterdir()
        return path

    @property
    def assembly(self) -> str:
        (path,) = (self.folder / "intermediates").glob("*.rocmasm")
        return path.read_text()

    def read(self, **options: Any) -> Isa:
        return read_isa(self.binaries, self.vmfb, **options)


@pytest.fixture(scope="session")
def dump(builder: Builder, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Dumped]:
    """dump(chip, problem): made only once; not to be changed."""
    made: dict[tuple[str, Gemm], Dumped] = {}

    def make(chip: str, problem: Gemm = SMALL) -> Dumped:
        if (chip, problem) not in made:
            target = Target.parse(chip)
            folder = tmp_path_factory.mktemp("dumped")
            job = BuildJob(problem_mlir(problem), target.compile_flags, timeout=120, figures=target.figures)
            write_inputs(job, folder)
            command = [*job.command(builder.tools), "--iree-hal-dump-executable-intermediates-to=intermediates"]
            subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=ENOUGH)
            made[chip, problem] = Dumped(job, folder)
        return made[chip, problem]

    return make


Dump = Callable[..., Dumped]


# AMD


def assembly_says(text: str) -> dict[str, Any]:
    """The figures as the assembly has them, read in another way than the tuner does."""
    names = {
        "vgpr": "vgpr_count",
        "vgpr_spills": "vgpr_spill_count",
        "lds_bytes": "group_segment_fixed_size",
        "threads": "max_flat_workgroup_size",
        "wavefront": "wavefront_size",
    }
    found = {name: re.search(rf"\s\.{key}:\s+(\d+)", text) for name, key in names.items()}
    figures = {name: int(match[1]) for name, match in found.items() if match}
    return {**figures, "mma": len(re.findall(r"^\s+v_(?:mfma|smfmac|wmma)_", text, re.M))}


def registers_allow(chip: str, vgpr: int) -> int:
    """Waves of a SIMD by registers alone. CDNA: 512 registers a lane, given out by eights, at most 8 waves. RDNA 3 (the
    chips with the large file): 1536 in wave32, given out by 24, at most 16 waves."""
    total, granule, most = (1536, 24, 16) if chip.startswith("gfx11") else (512, 8, 8)
    return min(most, total // (-(-vgpr // granule) * granule))


@pytest.mark.parametrize("chip", ["gfx942", "gfx1100"])
def test_amd_figures_are_those_of_the_assembly(chip: str, builder: Builder, dump: Dump) -> None:
    dumped = dump(chip)
    isa = builder.build(dumped.job).isa
    expected = assembly_says(dumped.assembly)
    assert {name: getattr(isa, name) for name in expected} == expected
    assert expected["mma"] > 0
    assert isa.vgpr is not None
    assert isa.occupancy is not None
    assert 1 <= isa.occupancy <= registers_allow(chip, isa.vgpr)
    assert isa.code_bytes is not None
    assert 0 < isa.code_bytes < dumped.binary.stat().st_size


def test_the_remarks_change_no_binary_and_are_no_part_of_what_the_compiler_said(fresh: Builder, dump: Dump) -> None:
    job = dump("gfx942").job
    build, cached = fresh.build(job), fresh.build(job)
    silent = fresh.build(replace(job, figures="code"))
    assert (REMARKS in build.command, REMARKS in silent.command) == (True, False)
    assert build.binary == silent.binary
    assert build.vmfb.read_bytes() == silent.vmfb.read_bytes()
    assert build.stderr == silent.stderr
    assert silent.isa == replace(build.isa, mma=None, occupancy=None)
    assert cached.cached
    assert cached.isa == build.isa


def remarks_of(name: str, mma: int, occupancy: int) -> str:
    where = "remark: <unknown>:0:0:"
    return (
        f"{where} BasicBlock: \nS_BRANCH: 1\nV_MFMA_F32_16X16X16F16_e64: {mma}\n\n{where} 9 instructions in function\n"
        f"{where} Function Name: {name}\n{where}     VGPRs: 9\n{where}     Occupancy [waves/SIMD]: {occupancy}\n"
    )


def test_of_several_kernels_the_one_with_most_matrix_instructions_counts(dump: Dump, tmp_path: Path) -> None:
    for name, problem in (("a", SMALL), ("b", Gemm.parse(shape="128x512x256", dtype="f16"))):
        shutil.copy(dump("gfx942", problem).binary, tmp_path / f"{name}.hsaco")
    names = [f"main_dispatch_0_matmul_{shape}_f16xf16xf32" for shape in ("256x256x256", "128x512x256")]
    for heavy, light in (names, reversed(names)):
        remarks = remarks_of(light, mma=8, occupancy=4) + remarks_of(heavy, mma=64, occupancy=2)
        isa = read_isa(tmp_path, tmp_path / "none", remarks=remarks)
        assert (isa.mma, isa.occupancy) == (64, 2)


def test_only_our_remarks_are_taken_from_stderr() -> None:
    warning = "warning: <unknown>:0:0: failed to meet occupancy target\n"
    remarks = remarks_of("main", mma=3, occupancy=2)
    assert split_remarks(warning + remarks + "problem.mlir:1:1: error: no\n") == (
        remarks,
        warning + "problem.mlir:1:1: error: no\n",
    )
    assert split_remarks(remarks + CUT + remarks)[0] == ""


# NVIDIA


def test_nvidia_figures_are_those_of_the_ptx(builder: Builder, dump: Dump) -> None:
    dumped = dump("sm_80")
    isa = builder.build(dumped.job).isa
    ptx = dumped.binary.read_text()
    assert isa.mma == len(re.findall(r"^\s+(?:@\S+\s+)?(?:wmma\.)?mma\.sync", ptx, re.M)) > 0
    assert f".maxntid {isa.threads}, 1, 1" in ptx
    assert isa.registers is None
    # The kernel keeps tiles of both operands in shared memory, whose size only the module knows.
    assert isa.shared_bytes is not None
    assert 1024 <= isa.shared_bytes <= 163 * 1024
    assert isa.shared_bytes.to_bytes(4, "little") in dumped.vmfb.read_bytes()


def test_declared_shared_memory_counts_and_unknown_launch_sizes_are_unknown(tmp_path: Path) -> None:
    kernel = ".visible .entry main()\n{\n\t.shared .align 4 .b32 tile[64];\n}\n"
    (tmp_path / "x.ptx").write_text(PTX_HEAD + ".shared .align 16 .b8 other[100];\n" + kernel)
    assert read_isa(tmp_path, tmp_path / "none").shared_bytes == 356
    (tmp_path / "x.ptx").write_text(PTX_HEAD + ".extern .shared .align 16 .b8 dynamic[];\n" + kernel)
    assert read_isa(tmp_path, tmp_path / "none").shared_bytes is None


# The processor, and what is damaged


def test_a_processors_figure_is_the_size_of_its_code(dump: Dump) -> None:
    dumped = dump("cpu")
    isa = dumped.read()
    assert isa.code_bytes is not None
    assert 0 < isa.code_bytes < dumped.binary.stat().st_size
    assert isa == Isa(code_bytes=isa.code_bytes)


@pytest.mark.parametrize("chip", ["gfx942", "sm_80", "cpu"])
def test_damaged_dumps_give_no_figures_and_no_failure(chip: str, dump: Dump, tmp_path: Path) -> None:
    dumped = dump(chip)
    whole = dumped.binary.read_bytes()
    binary = tmp_path / dumped.binary.name
    assert read_isa(tmp_path, dumped.vmfb) == Isa()
    for size in (0, 3, 64, 500, len(whole) // 2, len(whole) - 100):
        binary.write_bytes(whole[:size])
        read_isa(tmp_path, dumped.vmfb)
    for garbage in (b"\x00" * 4096, b"\xff" * 4096, b"\x7fELF" + b"\xa5" * 4096):
        binary.write_bytes(garbage)
        assert read_isa(tmp_path, dumped.vmfb, remarks="remark: <unknown>:0:0: Function Name:") == Isa()
    assert read_isa(tmp_path / "nowhere", tmp_path / "nothing") == Isa()


@pytest.mark.parametrize("content", [b"", b"CDA1", b"CDA1" + b"\xff" * 100])
def test_a_module_that_cannot_be_read_costs_its_own_figure_only(tmp_path: Path, content: bytes) -> None:
    ptx = ".extern .shared .align 16 .b8 dynamic[];\n.visible .entry main()\n.maxntid 64, 1, 1\n{\n}\n"
    (tmp_path / "x.ptx").write_text(PTX_HEAD + ptx)
    with zipfile.ZipFile(tmp_path / "module.vmfb", "w") as module:
        module.writestr("x.fb", content)
    assert read_isa(tmp_path, tmp_path / "module.vmfb") == Isa(threads=64, mma=0, ptx_bytes=25)


# What is made of them


def test_figures_come_back_from_json_and_unknown_ones_are_left_out() -> None:
    isa = Isa(threads=256, vgpr=128, vgpr_spills=0, occupancy=4)
    assert isa.to_json() == {"threads": 256, "vgpr": 128, "vgpr_spills": 0, "occupancy": 4}
    assert Isa.from_json(isa.to_json()) == isa
    assert Isa.from_json({**isa.to_json(), "of a later version": 1}) == isa
    assert Isa.from_json(None) == Isa.from_json({}) == Isa()


@pytest.mark.parametrize(
    ("isa", "summary"),
    [
        (Isa(vgpr=128, vgpr_spills=0, lds_bytes=51_900, occupancy=2), "vgpr 128, spills 0, lds 50.7k, occ 2"),
        (Isa(vgpr=512, vgpr_spills=1756, lds_bytes=0, code_bytes=9), "vgpr 512, spills 1756, lds 0"),
        (Isa(registers=168, shared_bytes=49_152), "regs 168, smem 48k"),
        (Isa(code_bytes=12_288), "code 12k"),
        (Isa(), ""),
    ],
)
def test_the_summary_says_what_decides_how_a_kernel_runs(isa: Isa, summary: str) -> None:
    assert isa.summary == summary
