"""Which operation of a program computes a problem: told by the sizes of operands, without compiling the problem."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from autotuner import Attention, Conv, Gemm, Problem, Target
from autotuner.build import Builder
from autotuner.iree.compile import ROOT_ATTRIBUTES
from autotuner.iree.mlir import Dispatch, read_root
from autotuner.problems.render import problem_mlir

PROBLEMS: Sequence[Problem] = (
    Gemm.parse(shape="96x64x128", dtype="f32"),
    Gemm.parse(shape="96x64x128", dtype="f32", layout="nt", epilogue="bias,relu"),
    Gemm.parse(shape="96x64x128", dtype="f32", batch=3),
    Gemm.parse(shape="100x60x90", dtype="f32"),
    Conv.parse(shape="1x30x30x16", filter="3x3x32", dtype="f32", pad="1x1"),
    Conv.parse(shape="1x60x60x16", filter="3x3x32", dtype="f32", pad="1x1", stride="2x2"),
    Conv.parse(shape="1x30x30x32", filter="1x1x64", dtype="f32", layout="nchw-fchw", epilogue="bias,residual"),
    Conv.parse(shape="1x16x16x64", filter="3x3x64", groups=4, dtype="f32"),
    Conv.parse(shape="1x16x16x64", filter="3x3x64", groups=64, dtype="f32"),
    Attention.parse(shape="1x4x128x256x64", dtype="f32"),
)
SAME = {0: {0, 1}, 1: {0, 1}}
"""What differs in layout and epilogue alone has the same sizes."""


def roots(builder: Builder, problems: Sequence[Problem], *flags: str) -> list[Dispatch]:
    words = [*Target.parse("cpu").compile_flags, *flags, ROOT_ATTRIBUTES]
    found = [read_root(builder.inspect(problem_mlir(one), [*one.flags, *words], timeout=120)) for one in problems]
    return [one for one in found if one is not None]


@pytest.fixture(scope="module")
def plain(builder: Builder) -> list[Dispatch]:
    return roots(builder, PROBLEMS)


@pytest.mark.parametrize("number", range(len(PROBLEMS)), ids=lambda number: PROBLEMS[number].name)
def test_a_problem_knows_its_root_among_others(plain: list[Dispatch], number: int) -> None:
    assert len(plain) == len(PROBLEMS)
    own = {other for other, root in enumerate(plain) if PROBLEMS[number].excess(root) == 1}
    assert own == SAME.get(number, {number})
    assert all(math.isinf(PROBLEMS[number].excess(root)) for other, root in enumerate(plain) if other not in own)


def test_of_packed_operands_the_nearest_is_its_own(builder: Builder) -> None:
    products = [Gemm.parse(shape=shape, dtype="f32") for shape in ("100x60x90", "160x64x90", "60x200x90", "100x60x45")]
    packed = roots(builder, products, "--iree-opt-data-tiling")
    assert all(root.packed for root in packed)
    for number, problem in enumerate(products):
        assert min(range(len(packed)), key=lambda other: problem.excess(packed[other])) == number
