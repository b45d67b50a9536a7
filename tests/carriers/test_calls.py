"""A spec that never fires gives exit code 0 and no word: the proof must say so, and what was there instead."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotuner.carriers.calls import KernelCall, Proof, kernel_calls, preprocess, prove
from autotuner.carriers.microkernel import executable_name, spec_mlir
from autotuner.iree.compile import CompilerRefusal
from autotuner.iree.tools import Tools
from autotuner.problems import Gemm
from autotuner.problems.render import problem_mlir
from autotuner.targets import Target
from tests.support.kernels import spec_flags
from tests.support.patterns import kernel_call

GEMM = Gemm.parse(shape="64x96x32")
OTHER = Gemm.parse(shape="64x96x48")
FLAGS = Target.parse("gfx942").compile_flags


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "problem.mlir"
    path.write_text(problem_mlir(GEMM))
    return path


def wanted(*gemms: Gemm) -> tuple[KernelCall, ...]:
    return kernel_calls([kernel_call(gemm) for gemm in gemms])


def preprocessed(tools: Tools, source: Path, *gemms: Gemm) -> str:
    calls, spec = [kernel_call(gemm) for gemm in gemms], source.with_name("spec.mlir")
    spec.write_text(spec_mlir(calls))
    return preprocess(tools, source, [*FLAGS, *spec_flags(spec, [c.instance for c in calls])], timeout=120)


def test_a_spec_for_another_shape_is_not_applied(tools: Tools, source: Path) -> None:
    proof = prove(preprocessed(tools, source, OTHER), wanted(OTHER))
    assert proof.found == (0,)
    assert not proof.applied
    reason = proof.reason(wanted(OTHER))
    assert reason.splitlines()[:2] == ["kernel_gemm is not called", "the program has:"]
    assert "linalg.matmul(tensor<64x32xf16>, tensor<32x96xf16>, tensor<64x96xf32>) -> tensor<64x96xf32>" in reason
    assert "which starts from linalg.fill" in reason
    assert prove(preprocess(tools, source, FLAGS, timeout=120), wanted(GEMM)).found == (0,)


def test_kernels_of_one_symbol_are_told_apart_by_their_types(tools: Tools, source: Path) -> None:
    calls = wanted(OTHER, GEMM)
    proof = prove(preprocessed(tools, source, OTHER, GEMM), calls)
    assert proof.found == (0, 1)
    assert proof.instead == ()
    assert proof.reason(calls).endswith("the program has no such operation left")


@pytest.mark.parametrize("text", ["module attributes {transform.with_named_sequence} { nonsense }", None])
def test_a_spec_that_does_not_read_is_an_error_not_an_unapplied_one(
    text: str | None, tools: Tools, source: Path
) -> None:
    spec = source.with_name("spec.mlir")
    if text is not None:
        spec.write_text(text)
    with pytest.raises(CompilerRefusal, match=r"spec\.mlir"):
        preprocess(tools, source, [*FLAGS, *spec_flags(spec, [])], timeout=120)


def test_a_reason_lists_a_dozen_at_the_most() -> None:
    reason = Proof((0,), tuple(f"operation {i}" for i in range(20))).reason(wanted(GEMM))
    assert reason.endswith("operation 11\nand 8 more")


def test_nothing_is_wrong_where_a_kernel_is_called_however_often() -> None:
    assert Proof((3,), ()).reason(wanted(GEMM)) == Proof((1,), ()).reason(wanted(GEMM)) == ""


def test_every_call_of_a_kernel_is_counted_and_no_others_dispatch(tools: Tools, source: Path) -> None:
    name = executable_name(1)
    dispatches = "\n".join(
        f"%{n + 1} = flow.dispatch @{executable}::@entry(%{n}) : (tensor<4xf32>) -> tensor<4xf32>"
        for n, executable in enumerate((name, "other", name, executable_name(2)))
    )
    text = f"util.func public @f(%0: tensor<4xf32>) -> tensor<4xf32> {{ {dispatches} util.return %4 : tensor<4xf32> }}"
    assert prove(text, wanted(GEMM, OTHER)).found == (0, 2)
    once = preprocessed(tools, source, GEMM)
    assert prove(f"module {{ {once} {once} }}", wanted(GEMM)).found == (2,)
