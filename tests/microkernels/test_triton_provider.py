"""Triton's kernels: what is run, what is compiled, what is kept, and objects that fit their manifests."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from autotuner.errors import UsageError
from autotuner.iree.objects import read_object
from autotuner.microkernels.instance import own_folder, search_folders, shipped_folder
from autotuner.microkernels.library import find
from autotuner.microkernels.loader import FILE, load
from autotuner.microkernels.manifest import Manifest
from autotuner.microkernels.providers.triton import cache_key, kernel_parameters, plan, read_sources, trusted_source
from autotuner.microkernels.providers.triton_compile import SOURCE, Job, trim_amdgcn, trim_ptx
from autotuner.problems import Gemm, Problem
from autotuner.problems.operations import OPERATIONS
from tests.support.kernels import built, request

needs_triton = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")

GEMM = Gemm.parse(shape="1024x1024x1024", dtype="f16")
SMALL = {"bm": 64, "bn": 128, "num_warps": 4, "tma": 0}
PTX = """
.version 8.6
.target sm_90a
.extern .shared .align 16 .b8 global_smem[];
.visible .entry kernel(
	.param .u64 .ptr .global .align 1 kernel_param_0, // the first, with (a comment)
	.param .u32 kernel_param_1,
	.param .u64 .ptr .global .align 1 kernel_param_2,
	.param .u64 .ptr .global .align 1 kernel_param_20
)
.reqntid 128
{
	ld.param.b64 	%rd1, [kernel_param_0];
	ld.param.b32 	%r1, [kernel_param_1]; // not kernel_param_2
	ret;
}
"""
AMDGCN = """
		.amdhsa_kernarg_size 32
		.amdhsa_user_sgpr_kernarg_preload_length 8
amdhsa.kernels:
  - .agpr_count:     0
    .args:
      - .address_space:  global
        .offset:         0
        .size:           8
        .value_kind:     global_buffer
      - .offset:         8
        .size:           4
        .value_kind:     by_value
      - .address_space:  global
        .offset:         16
        .size:           8
        .value_kind:     global_buffer
    .group_segment_fixed_size: 0
    .kernarg_segment_size: 32
"""
LLVM = """
define amdgpu_kernel void @kernel(ptr addrspace(1) inreg %0, i32 inreg %1, ptr addrspace(1) inreg %2) #0 {
  store i32 %1, ptr addrspace(1) %0
  ret void
}
"""


def shipped(name: str) -> Manifest:
    return load(shipped_folder() / name / FILE, OPERATIONS)


def gemm_job(problem: Problem = GEMM, chip: str = "sm_90", parameters: Mapping[str, int] = SMALL) -> Job:
    manifest = shipped("gemm_triton")
    assert manifest.provider.source is not None
    return plan(request(manifest, problem, chip, parameters), manifest.provider.source.read_text())


def test_scratch_that_is_read_is_an_error() -> None:
    used = PTX.replace("\tret;", "\tld.param.b64 	%rd2, [kernel_param_20];\n\tret;")
    with pytest.raises(ValueError, match="kernel_param_20"):
        trim_ptx(used, "kernel", 2)
    with pytest.raises(ValueError, match="no entry"):
        trim_ptx(PTX, "kern", 2)
    with pytest.raises(ValueError, match="4 parameters"):
        trim_ptx(PTX, "kernel", 5)


def test_tritons_own_scratch_goes_behind_the_pointers_and_is_aligned(tmp_path: Path) -> None:
    used = PTX.replace("\tret;", "\tld.param.b64 	%rd2, [kernel_param_2];\n\tret;")
    text = trim_ptx(used, "kernel", 2, pointers=1, alignment=128)
    header = text[text.index("(") : text.index(".reqntid")]
    assert [int(name) for name in re.findall(r"kernel_param_(\d+)", header)] == [0, 2, 1]
    assert "[kernel_param_2];\n\tadd.s64 %rd2, %rd2, 127;\n\tand.b64 %rd2, %rd2, -128;" in text
    (tmp_path / "kernel.ptx").write_text(text)
    (kernel,) = read_object(tmp_path / "kernel.ptx").kernels
    assert [argument.kind for argument in kernel.arguments or ()] == ["pointer", "pointer", "value"]
    with pytest.raises(ValueError, match="a way that is not known"):
        trim_ptx(PTX, "kernel", 2, pointers=1, alignment=128)


def test_amd_assembly_loses_its_scratch_arguments() -> None:
    text = trim_amdgcn(AMDGCN, LLVM, "kernel", 2)
    assert text.count(".value_kind") == 2
    assert ".kernarg_segment_size: 12" in text
    assert ".amdhsa_kernarg_size 12" in text
    assert "preload_length 3" in text
    with pytest.raises(ValueError, match="scratch"):
        trim_amdgcn(AMDGCN, LLVM.replace("ptr addrspace(1) %0\n", "ptr addrspace(1) %2\n"), "kernel", 2)


def test_rdna_has_no_accumulation_registers_before_its_arguments() -> None:
    rdna = re.sub(r"  - \.agpr_count:.*\n    \.args:", "  - .args:", AMDGCN)
    assert "agpr_count" not in rdna
    assert trim_amdgcn(rdna, LLVM, "kernel", 2).count(".value_kind") == 2


def test_hidden_arguments_of_amd_stay_where_they_are() -> None:
    hidden = "      - .offset:         24\n        .size:           4\n        .value_kind:     hidden_block_count_x\n"
    with_hidden = AMDGCN.replace("    .group_segment", hidden + "    .group_segment")
    reads = LLVM.replace("  ret", "  %4 = call ptr addrspace(4) @llvm.amdgcn.implicitarg.ptr()\n  ret")
    text = trim_amdgcn(with_hidden, reads, "kernel", 2)
    assert text.count(".value_kind") == 3
    assert ".kernarg_segment_size: 32" in text
    # LLVM lists them also where nothing reads them.
    assert trim_amdgcn(with_hidden, LLVM, "kernel", 2) == trim_amdgcn(AMDGCN, LLVM, "kernel", 2)


def test_the_source_is_read_for_its_parameters_and_not_run(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    source = f"open({str(mark)!r}, 'w')\ndef kernel(a, n, BM: tl.constexpr, BN: 'tl.constexpr'): pass\n"
    assert kernel_parameters(source, "kernel") == [("a", False), ("n", False), ("BM", True), ("BN", True)]
    assert not mark.exists()
    with pytest.raises(UsageError, match="no function"):
        kernel_parameters(source, "other")
    with pytest.raises(UsageError, match="not Python"):
        kernel_parameters("def", "kernel")


def test_a_job_has_types_alignment_and_constexprs() -> None:
    job = gemm_job(Gemm.parse(shape="1024x1000x1024", dtype="bf16", layout="tn", out="bf16"), parameters=SMALL)
    types = [type_ for type_ in job.signature.values() if type_ != "constexpr"]
    assert types == ["*bf16", "*bf16", "*bf16", "i32", "i32", "i32"]
    assert (job.pointers, job.arguments) == (3, 6)
    aligned = {list(job.signature)[position]: divisor for position, divisor in job.aligned}
    assert aligned == {"a": 16, "b": 16, "c": 16, "M": 16, "N": 8, "K": 16}
    assert job.constexprs["BM"] == 64
    assert (job.constexprs["bias"], job.constexprs["partial"], job.constexprs["CLIP_LOW"]) == (None, None, 0)
    assert (job.constexprs["TRANSPOSE_LHS"], job.constexprs["TRANSPOSE_RHS"]) == (1, 0)
    assert (job.constexprs["EVEN_M"], job.constexprs["EVEN_N"]) == (1, 0)
    assert job.options == {"num_warps": 4, "num_stages": 3}


def test_the_key_follows_all_that_the_object_depends_on() -> None:
    job, other = gemm_job(), {"k": "a", "epilogue.py": "c"}
    changed = [replace(job, chip="sm_80"), replace(job, options={}), replace(job, aligned=[(0, 16)])]
    changed.append(replace(job, constexprs=job.constexprs | {"BM": 32}))
    keys = {cache_key(one, {"k": "a"}, "3.4") for one in (job, *changed)}
    keys |= {cache_key(job, {"k": "a"}, "3.5"), cache_key(job, {"k": "b"}, "3.4"), cache_key(job, other, "3.4")}
    assert len(keys) == 8
    assert cache_key(gemm_job(Gemm.parse(shape="2048x1024x1024", dtype="f16")), {"k": "a"}, "3.4") in keys


def test_constexprs_that_nothing_names_are_refused() -> None:
    source = "def gemm_triton(a, b, bias, residual, counters, c, partial, M, N, K, DEPTH: tl.constexpr): pass"
    with pytest.raises(UsageError, match="DEPTH"):
        plan(request(shipped("gemm_triton"), GEMM, "sm_90", SMALL), source)
    source = "def gemm_triton(a, b, BM: tl.constexpr, c, M, N, K): pass"
    with pytest.raises(UsageError, match="7 pointers, then 3 constants"):
        plan(request(shipped("gemm_triton"), GEMM, "sm_90", SMALL), source)


def test_only_sources_of_the_workspace_are_run(tmp_path: Path) -> None:
    elsewhere = tmp_path / "download" / "gemm_triton"
    shutil.copytree(shipped_folder() / "gemm_triton", elsewhere)
    workspace = tmp_path / "workspace"
    with pytest.raises(UsageError, match="outside of the workspace"):
        built(request(load(elsewhere / FILE, OPERATIONS), GEMM, "sm_90", workspace=workspace))
    own = own_folder(workspace) / "my_gemm"
    shutil.copytree(elsewhere, own)
    wanted = request(find("my_gemm", search_folders(workspace), OPERATIONS), GEMM, "sm_90", workspace=workspace)
    assert trusted_source(wanted) == (own / "gemm.py").resolve()
    (own / "gemm.py").unlink()
    (own / "gemm.py").symlink_to(elsewhere / "gemm.py")
    with pytest.raises(UsageError, match="outside of the workspace"):
        trusted_source(wanted)


def test_a_source_brings_what_lies_in_its_folder_and_what_all_share(tmp_path: Path) -> None:
    own = tmp_path / "kernel.py"
    own.write_text("import triton\nfrom epilogue import put\nimport tiles\n")
    (tmp_path / "tiles.py").write_text("from epilogue import number\n")
    found = read_sources(own)
    assert (found[SOURCE], set(found)) == (own.read_text(), {SOURCE, "epilogue.py", "kernel.py", "tiles.py"})
    assert found["epilogue.py"] == (shipped_folder() / "epilogue.py").read_text()
    (tmp_path / "epilogue.py").write_text("# mine")
    assert read_sources(own)["epilogue.py"] == "# mine"
