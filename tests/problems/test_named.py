"""The name of a problem is enough to have it again: specs and flagfiles have no more."""

import pytest

from autotuner.problems import Attention, Conv, Gemm, Problem, problem_named

PROBLEMS = (
    Gemm.parse(shape="5x6x7"),
    Gemm.parse(shape="5x6x7", batch=3, dtype="f32", layout="nt", epilogue="bias,clip=-1.5:6"),
    Gemm.parse(shape="5x6x7", dtype="bf16", out="bf16", epilogue="bias,residual,relu"),
    Gemm.parse(shape="5x16x7", out="f16", epilogue="silu,gated"),
    Gemm.parse(shape="5x6x7", dtype="i8"),
    Gemm.parse(shape="5x6x7", dtype="f8"),
    Conv.parse(shape="1x8x8x16", filter="3x3x32", groups=4, dtype="f32", stride="2x2", pad="1x1", dilation="2x1"),
    Conv.parse(shape="1x8x8x16", filter="3x3x32", layout="nchw-fchw", out="f16", epilogue="bias,relu"),
    Attention.parse(shape="1x2x3x4x5", causal=True),
)


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.name)
def test_a_name_gives_its_problem_again(problem: Problem) -> None:
    assert problem_named(problem.name) == problem


@pytest.mark.parametrize(
    "name",
    [
        *("", "gemm", "gemm_", "gemm_1x2x3", "gemm_axbxc_f32_f32_nn", "gemm_1x2x3_f32_f32_nn_cosh", "conv_x", "bert"),
        *("contraction_4x4", "gemm_1x2x3_f32_f32_nn_", "gemm_01x2x3_f32_f32_nn", "attention_1x2x3x4x5_f16_flat_causal"),
    ],
)
def test_what_is_no_problems_name_gives_none(name: str) -> None:
    assert problem_named(name) is None
