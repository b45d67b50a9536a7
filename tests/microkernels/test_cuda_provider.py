"""Kernels in CUDA C++: what their source is told, what is compiled and kept, and that IREE calls what comes out."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from autotuner.build import Builder
from autotuner.errors import EnvironmentFailure, UsageError
from autotuner.iree.objects import read_object
from autotuner.microkernels.check import check
from autotuner.microkernels.chips import runs_on
from autotuner.microkernels.kernel_table import kernels_json, kernels_table
from autotuner.microkernels.loader import load
from autotuner.microkernels.own import create
from autotuner.microkernels.providers import cuda
from autotuner.microkernels.providers.cuda import architecture, find_nvrtc
from autotuner.microkernels.variants import Variants
from autotuner.problems import Gemm
from autotuner.problems.operations import OPERATIONS
from autotuner.targets import Target
from tests.support.cuda_kernel import SOURCE, needs_nvrtc, write_kernel
from tests.support.kernels import bound, built, job_of, request

GEMM = Gemm.parse(shape="40x128x24", dtype="bf16", layout="nt", epilogue="bias,relu")
PLAIN = Gemm.parse(shape="40x128x24", dtype="f16")


# --- What it is told ------------------------------------------------------------------------------------------------


def test_a_source_is_told_its_numbers_its_epilogue_and_the_types_of_its_buffers(tmp_path: Path) -> None:
    manifest = load(write_kernel(tmp_path / "mine"), OPERATIONS)
    said = request(manifest, GEMM, "sm_90", {"wide": 64}).macros()
    assert (said["WIDE"], said["ROWS"]) == (64, 4)
    assert (said["TRANSPOSE_LHS"], said["TRANSPOSE_RHS"], said["BIAS"], said["CLIP_LOW"]) == (0, 1, 1, 1)
    types = {name for name, value in said.items() if value and name.split("_")[0] in ("LHS", "RHS", "BIAS", "OUT")}
    assert types == {"LHS_BF16", "RHS_BF16", "BIAS", "BIAS_F32", "OUT_F32"}
    assert "M" not in said  # sizes are arguments, and such names are a template's
    plain = request(manifest, replace(PLAIN, out="f16"), "sm_80").macros()
    names = ("BIAS", "BIAS_F16", "BIAS_F32", "ACTIVATION", "LHS_F16", "OUT_F16")
    assert [plain[name] for name in names] == [0, 0, 0, 0, 1, 1]


def test_hoppers_code_is_for_that_chip_alone() -> None:
    assert [architecture(chip) for chip in ("sm_80", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_120")] == [
        *("sm_80", "sm_89", "sm_90a", "sm_90a", "sm_100a", "sm_120a")
    ]


@needs_nvrtc
@pytest.mark.parametrize("name", ['"/etc/hostname"', '"../other.h"', "HEADER"])
def test_a_header_from_elsewhere_is_refused(name: str, tmp_path: Path) -> None:
    manifest = load(write_kernel(tmp_path / "mine", source=f"# include {name}\n{SOURCE}"), OPERATIONS)
    with pytest.raises(UsageError, match="it finds headers of its own folder only"):
        built(request(manifest, PLAIN, "sm_90"))


# --- By NVRTC -------------------------------------------------------------------------------------------------------


@needs_nvrtc
def test_iree_compiles_the_call_and_its_kernel_is_in_the_module(builder: Builder, tmp_path: Path) -> None:
    """IREE compiles for sm_80; the cubin, for the Hopper that is there, goes into the module as it is."""
    manifest = load(write_kernel(tmp_path / "mine"), OPERATIONS)
    variants = Variants.of(manifest, GEMM, "sm_90", workspace=tmp_path)
    call = variants.call(variants.default())
    build = builder.build(replace(job_of(call, Target.parse("sm_80").compile_flags), figures="code"))
    assert build.ok, build.stderr
    assert call.instance.objects[0].read_bytes() in build.vmfb.read_bytes()
    (kernel,) = read_object(call.instance.objects[0]).kernels
    assert (kernel.symbol, kernel.kind, kernel.chip) == ("gemm", "cubin", "sm_90a")
    assert [argument.size for argument in kernel.arguments or ()] == [8] * 4 + [4] * 3
    assert (build.isa.threads, build.isa.shared_bytes) == (256, 256 * 4)
    assert build.isa.registers == kernel.registers
    (row,) = kernels_table(call.instance.objects[0])
    assert (row["constants"], row["workgroup"]) == ("3", "≤ 256")


@needs_nvrtc
def test_a_function_with_a_name_of_cpp_is_told_of(tmp_path: Path) -> None:
    manifest = load(write_kernel(tmp_path / "mine", source=SOURCE.replace('extern "C" ', "")), OPERATIONS)
    variants = Variants.of(manifest, PLAIN, "sm_90", workspace=tmp_path)
    with pytest.raises(UsageError, match=r'C\+\+ names need extern "C"|Did you mean _Z'):
        variants.call(variants.default())


@needs_nvrtc
def test_clusters_want_a_grid_that_is_a_multiple(tmp_path: Path) -> None:
    source = SOURCE.replace("__launch_bounds__", "__cluster_dims__(3, 1, 1) __launch_bounds__")
    manifest = load(write_kernel(tmp_path / "mine", source=source), OPERATIONS)
    instance = bound(request(manifest, PLAIN, "sm_90"))
    assert instance.grid == (4, 5, 1)
    (mismatch,) = check(instance)
    assert (mismatch.what, mismatch.expected, mismatch.found) == ("grid", "a multiple of 3x1x1", "4x5x1")
    assert check(replace(instance, grid=(6, 5, 1))) == []


@needs_nvrtc
def test_static_shared_memory_is_counted_without_the_systems(tmp_path: Path) -> None:
    source = SOURCE.replace(
        "float sum = 0;", "__shared__ float mine[100]; mine[column % 100] = 1; float sum = mine[0];"
    )
    manifest = load(write_kernel(tmp_path / "mine", source=source), OPERATIONS)
    for chip in ("sm_80", "sm_90"):
        (kernel,) = read_object(built(request(manifest, PLAIN, chip)).path).kernels
        assert kernel.local_memory == 400


@needs_nvrtc
def test_a_cubin_that_is_cut_off_or_changed_gives_a_usage_error(tmp_path: Path) -> None:
    manifest = load(write_kernel(tmp_path / "mine"), OPERATIONS)
    path = built(request(manifest, PLAIN, "sm_90")).path
    whole, damaged = path.read_bytes(), tmp_path / "damaged.cubin"
    tried = [whole[:size] for size in range(4, len(whole), len(whole) // 40)]
    tried += [whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :] for at in range(4, len(whole), 97)]
    for content in tried:
        damaged.write_bytes(content)
        with contextlib.suppress(UsageError):
            kernels_json(damaged)


def test_machine_code_runs_on_chips_of_its_generation_only() -> None:
    """What NVIDIA says of binary compatibility; PTX is translated for all later ones."""
    for made, chip, runs in (
        ("sm_80", "sm_80", True),
        ("sm_80", "sm_86", True),
        ("sm_86", "sm_80", False),
        ("sm_80", "sm_90", False),
        ("sm_90a", "sm_90", True),
        ("sm_100a", "sm_103", False),
    ):
        assert runs_on(made, chip, translated=False) == runs, (made, chip)
    assert runs_on("sm_80", "sm_90")


@needs_nvrtc
def test_the_skeleton_in_cuda_builds_as_it_is_written(tmp_path: Path) -> None:
    file, source = create("mine", tmp_path, language="cuda")
    manifest = load(file, OPERATIONS)
    for problem, chip in ((PLAIN, "sm_80"), (replace(PLAIN, dtype="bf16"), "sm_90")):
        assert check(bound(request(manifest, problem, chip))) == []
    docs = (Path(__file__).parents[2] / "docs" / "microkernels.md").read_text()
    assert f"```cpp\n{source.read_text()}```" in docs


@needs_nvrtc
def test_a_library_that_does_not_load_is_no_fault_of_the_source(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The newest of those that wheels have."""
    folder = tmp_path / "nvidia" / "cu99" / "lib"
    folder.mkdir(parents=True)
    for name in ("libnvrtc.so.99", "libnvrtc.so.x", "libnvrtc-builtins.so.99.4"):
        (folder / name).write_text("no library")
    there = ModuleSpec("nvidia", None, is_package=True)
    there.submodule_search_locations = [str(tmp_path / "nvidia"), str(find_nvrtc().parents[2])]
    monkeypatch.setattr(cuda, "find_spec", lambda _: there)
    with pytest.raises(EnvironmentFailure, match=r"libnvrtc.so.99 cannot be used: .*(invalid ELF|too short)"):
        built(request(load(write_kernel(tmp_path / "mine"), OPERATIONS), PLAIN, "sm_90"))
