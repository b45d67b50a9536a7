"""Where kernels fit in a program: layers are joined only where some kernel computes what they become."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autotuner.jobs.model.entries import Library
from autotuner.microkernels.instance import shipped_folder
from autotuner.microkernels.loader import FILE, load
from autotuner.microkernels.variants import Variants
from autotuner.problems import Gemm, Problem
from autotuner.problems.operations import OPERATIONS
from autotuner.problems.render import problem_mlir
from tests.support.arguments import parse_arguments
from tests.support.patterns import GATE, GATED, JOINED, PACKED, example

ATTENTION, GATES = (example(name) for name in ("queries_keys_values", "gate"))
NO_RUN: Any = None
"""Only notes need one."""


def found(text: str, names: Sequence[str]) -> list[Problem]:
    manifests = tuple(load(shipped_folder() / name / FILE, OPERATIONS) for name in names)
    return [place.problem for place in Library(NO_RUN, manifests, "sm_90", "").places(text)]


@pytest.mark.parametrize(
    ("text", "names", "wanted"),
    [
        (ATTENTION, ("gemm_triton", "attention_triton"), [JOINED, PACKED]),
        (ATTENTION, ("gemm_triton",), [replace(JOINED, n=12)]),
        (ATTENTION, ("attention_triton",), [replace(PACKED, layout="bshd")]),
        (ATTENTION, ("gemm_hopper", "attention_triton"), [replace(PACKED, layout="bshd")]),
        (GATES, ("gemm_triton",), [GATED]),
        (GATES, ("gemm_hopper",), []),
    ],
    ids=["both kernels fit", "no attention", "no product", "too small a product", "gates", "too small for gates"],
)
def test_layers_are_joined_only_where_kernels_fit_all_that_they_become(
    text: str, names: Sequence[str], wanted: list[Problem]
) -> None:
    assert found(text, names) == wanted


def test_what_a_user_accepts_of_a_model_is_accepted_of_each_of_its_problems() -> None:
    wanted = Gemm.parse(shape="512x2048x1024", dtype="f8", layout="nt")
    library = Library(NO_RUN, (load(shipped_folder() / "gemm_cuda" / FILE, OPERATIONS),), "sm_90", "")
    assert library.places(problem_mlir(wanted)) == []
    (place,) = replace(library, allow="f16").places(problem_mlir(wanted))
    assert place.problem == wanted.allowing("f16")


def test_a_kernel_that_knows_no_gates_takes_both_products_alone() -> None:
    manifest = load(shipped_folder() / "gemm_triton" / FILE, OPERATIONS)
    plain = replace(manifest, epilogues=("bias", "residual", "relu", "clip", "activation"))
    problems = [place.problem for place in Library(NO_RUN, (plain,), "sm_90", "").places(GATES)]
    assert problems == [
        GATE,
        replace(GATE, epilogue=replace(GATE.epilogue, activation="")),
    ]


MATMUL = ("gemm_cuda", "gemm_hopper", "gemm_triton")
CONVS = ("conv_nchw_triton", "conv_triton")
CONV = "conv --shape 2x64x64x320 --filter 3x3x320 --layout"


@pytest.mark.parametrize(
    ("words", "kernels", "first"),
    [
        ("gemm --shape 2008x2040x1976", MATMUL, "gemm_cuda"),  # rows that are no whole sectors are read once for two
        ("gemm --shape 1024x4096x1024 --epilogue residual", MATMUL, "gemm_hopper"),
        ("gemm --shape 64x4096x4096 --epilogue bias", MATMUL, "gemm_cuda"),
        ("gemm --shape 256x512x512", MATMUL, "gemm_triton"),
        # One that images are transposed for comes after one that takes them as they are.
        (f"{CONV} nchw-fchw", CONVS, "conv_nchw_triton"),
        (f"{CONV} nhwc-hwcf", CONVS, "conv_triton"),
        (f"{CONV} nchw-fchw", CONVS[1:], "conv_triton"),
        ("attention --shape 1x16x2048x2048x128", ("attention_hopper", "attention_triton"), ""),
    ],
)
def test_of_several_kernels_the_first_is_expected_to_be_fastest(words: str, kernels: Sequence[str], first: str) -> None:
    manifests = [load(shipped_folder() / name / FILE, OPERATIONS) for name in kernels]
    problem = parse_arguments([*words.split(), "--dtype", "f16"])
    if not first:
        expected = {one.name: Variants.of(one, problem, "sm_90", workspace=Path()).expected for one in manifests}
        first = min(expected, key=expected.__getitem__)
    for order in (manifests, manifests[::-1]):
        assert Library(NO_RUN, tuple(order), "sm_90", "").first(problem) == (first,)
