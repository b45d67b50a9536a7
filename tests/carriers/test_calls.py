"""A spec that never fires gives exit code 0 and no word: the proof must say so, and what was there instead."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotuner.carriers.calls import KernelCall, Proof, kernel_calls, preprocess, prove
from autotuner.carriers.microkernel import executable_name, spec_mlir
from autotuner.iree.compile import CompilerRefusal
from autotuner.iree.tools import Tools
from autotuner.microkernels.instance import Binding, Call, Instance
from autotuner.problems import Gemm
from autotuner.problems.render import problem_mlir
from autotuner.targets import Target
from tests.support.kernels import spec_flags

pytestmark = pytest.mark.versions

GEMM = Gemm.parse(shape="64x96x32")
OTHER = Gemm.parse(shape="64x96x48")
FLAGS = Target.parse("sm_80").compile_flags


def call(gemm: Gemm) -> Call:
    bindings = tuple(Binding(i, "write" if i == 2 else "read", operand) for i, operand in enumerate(gemm.operands))
    return Call(
        Instance("mine", "kernel", "sm_80", (Path("kernel.ptx"),), bindings, (), (32, 1, 1), 32, 0, (1, 1, 1)), gemm
    )


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "problem.mlir"
    path.write_text(problem_mlir(GEMM))
    return path


def wanted(*gemms: Gemm) -> tuple[KernelCall, ...]:
    return kernel_calls([call(gemm) for gemm in gemms])


def preprocessed(tools: Tools, source: Path, calls: list[Call]) -> str:
    spec = source.with_name("spec.mlir")
    spec.write_text(spec_mlir(calls))
    return preprocess(tools, source, [*FLAGS, *spec_flags(spec, [c.instance for c in calls])], timeout=120)


def test_a_spec_for_another_shape_is_not_applied(tools: Tools, source: Path) -> None:
    proof = prove(preprocessed(tools, source, [call(OTHER)]), wanted(OTHER))
    assert proof.found == (0,)
    assert not proof.applied
    reason = proof.reason(wanted(OTHER))
    assert reason.splitlines()[:2] == ["mine is called 0 times, not at least 1", "the program has:"]
    assert "linalg.matmul(tensor<64x32xf16>, tensor<32x96xf16>, tensor<64x96xf32>) -> tensor<64x96xf32>" in reason
    assert "which starts from linalg.fill" in reason


def test_kernels_of_one_symbol_are_told_apart_by_their_types(tools: Tools, source: Path) -> None:
    calls = wanted(OTHER, GEMM)
    proof = prove(preprocessed(tools, source, [call(OTHER), call(GEMM)]), calls)
    assert proof.found == (0, 1)
    assert proof.instead == ()
    assert proof.reason(calls, expected=[0, 1]) == ""
    assert proof.reason(calls).endswith("the program has no such operation left")


def test_a_program_without_the_spec_has_no_kernel(tools: Tools, source: Path) -> None:
    text = preprocess(tools, source, FLAGS, timeout=120)
    assert prove(text, wanted(GEMM)).found == (0,)


def test_a_spec_that_does_not_read_is_an_error_not_an_unapplied_one(tools: Tools, source: Path) -> None:
    spec = source.with_name("spec.mlir")
    spec.write_text("module attributes {transform.with_named_sequence} { nonsense }")
    with pytest.raises(CompilerRefusal, match=r"spec\.mlir"):
        preprocess(tools, source, [*FLAGS, *spec_flags(spec, [])], timeout=120)


def test_a_missing_spec_is_an_error(tools: Tools, source: Path) -> None:
    with pytest.raises(CompilerRefusal):
        preprocess(tools, source, [*FLAGS, *spec_flags(source.with_name("none.mlir"), [])], timeout=120)


def test_a_reason_lists_a_dozen_at_the_most() -> None:
    reason = Proof((0,), tuple(f"operation {i}" for i in range(20))).reason(wanted(GEMM))
    assert "operation 11\nand 8 more" in reason
    assert "operation 12" not in reason


def test_too_many_is_wrong_too_when_a_number_is_expected() -> None:
    assert Proof((3,), ()).reason(wanted(GEMM)) == ""
    assert "called 3 times, not 2" in Proof((3,), ()).reason(wanted(GEMM), expected=[2])


def test_every_call_of_a_kernel_is_counted_and_no_others_dispatch(tools: Tools, source: Path) -> None:
    name = executable_name(1)
    dispatches = "\n".join(
        f"%{n + 1} = flow.dispatch @{executable}::@entry(%{n}) : (tensor<4xf32>) -> tensor<4xf32>"
        for n, executable in enumerate((name, "other", name, executable_name(2)))
    )
    text = f"util.func public @f(%0: tensor<4xf32>) -> tensor<4xf32> {{ {dispatches} util.return %4 : tensor<4xf32> }}"
    assert prove(text, wanted(GEMM, OTHER)).found == (0, 2)
    once = preprocessed(tools, source, [call(GEMM)])
    assert prove(f"module {{ {once} {once} }}", wanted(GEMM)).found == (2,)


def test_exactly_as_many_as_are_wanted_is_enough() -> None:
    assert Proof((1,), ()).reason(wanted(GEMM)) == ""
    assert Proof((1,), ()).reason(wanted(GEMM), expected=[1]) == ""


def test_a_dozen_operations_are_all_listed() -> None:
    reason = Proof((0,), tuple(f"operation {i}" for i in range(12))).reason(wanted(GEMM))
    assert reason.endswith("operation 11")
    assert Proof((0,), tuple("abcdefghijklm")).reason(wanted(GEMM)).endswith("l\nand 1 more")
