"""The shipped kernels in CUDA C++: they build for their chip, fit their manifests, and IREE calls them."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotuner.carriers.calls import kernel_calls, preprocess, prove
from autotuner.carriers.microkernel import spec_mlir
from autotuner.carriers.render import problem_mlir
from autotuner.iree.tools import Tools
from autotuner.microkernels.library import find, shipped_folder
from autotuner.microkernels.variants import Variants
from autotuner.problems import Gemm, Problem
from autotuner.targets import Target
from tests.support.cuda_kernel import needs_nvrtc
from tests.support.kernels import spec_flags

PROBLEMS = [
    Gemm.parse(shape="1536x1536x2048", dtype="bf16", layout="nt"),
    Gemm.parse(shape="1024x5632x1024", out="f16", layout="nt", epilogue="rms=1e-5,silu,gated"),
    Gemm.parse(shape="512x512x512", batch=16, layout="tt", epilogue="bias,residual,gelu"),
    Gemm.parse(shape="384x512x32768", dtype="bf16", out="bf16", layout="nt", epilogue="bias,relu"),
    Gemm.parse(shape="2008x2040x1976", layout="tn", epilogue="clip=0:6"),
]


@needs_nvrtc
@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.name)
def test_the_product_for_hopper_builds_and_iree_calls_it(problem: Problem, tools: Tools, tmp_path: Path) -> None:
    """By what its manifest expects to be fastest; IREE compiles for sm_80."""
    variants = Variants.of(find("gemm_cuda", [shipped_folder()]), problem, "sm_90", workspace=tmp_path)
    call = variants.call(variants.default())
    source, spec = tmp_path / "problem.mlir", tmp_path / "spec.mlir"
    source.write_text(problem_mlir(problem))
    spec.write_text(spec_mlir([call]))
    flags = [*Target.parse("sm_80").compile_flags, *spec_flags(spec, [call.instance])]
    kernels = kernel_calls([call])
    assert prove(preprocess(tools, source, flags, timeout=120), kernels).reason(kernels, expected=[1]) == ""


@needs_nvrtc
@pytest.mark.long
@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.name)
def test_what_a_search_begins_with_builds(problem: Problem, tmp_path: Path) -> None:
    variants = Variants.of(find("gemm_cuda", [shipped_folder()]), problem, "sm_90", workspace=tmp_path)
    for config in variants.leading():
        assert variants.call(config).instance.objects
