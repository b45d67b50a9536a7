"""A spec that never fires gives exit code 0 and no word: the proof must say so, and what was there instead. What
kernels want done to constant weights is evaluated by the compiler as one function: each costs much."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from autotuner.carriers.calls import KernelCall, Proof, kernel_calls, preprocess, prove
from autotuner.carriers.microkernel import executable_name, spec_mlir
from autotuner.iree.compile import CompilerRefusal
from autotuner.iree.tools import Tools
from autotuner.microkernels.instance import Binding, Call
from autotuner.problems import Gemm, Operand
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


# --- constant weights -------------------------------------------------------------------------------------------------


TINY = Gemm.parse(shape="8x4x2")
MODEL = Path(__file__).with_name("layers.mlir").read_text().partition("\n")[2]
CONSTANT = MODEL.replace("GLOBAL", "").replace(
    "WEIGHTS", "arith.constant dense<[[9.0, 8.0, 7.0, 6.0], [5.0, 4.0, 3.0, 2.0]]>"
)
PARAMETER = '#flow.parameter.named<"model"::"w"> : tensor<2x4xf16>'
OWN = MODEL.replace("GLOBAL", f"util.global private @w = {PARAMETER}").replace("WEIGHTS", "util.global.load @w")


def with_kernel(text: str, *, tools: Tools, folder: Path, transposed: bool = True) -> str:
    """The program with a kernel that wants its weights the other way round."""
    lhs, rhs, out = TINY.operands
    own = Binding(1, "read", Operand((4, 2), rhs.element), (1, 0)) if transposed else Binding(1, "read", rhs)
    bindings = (Binding(0, "read", lhs), own, Binding(2, "write", out))
    kernel = replace(kernel_call(TINY).instance, bindings=bindings)
    source, spec, calls = folder / "model.mlir", folder / "spec.mlir", [Call(kernel, TINY)]
    source.write_text(text)
    spec.write_text(spec_mlir(calls))
    flags = [*Target.parse("gfx942").compile_flags, *spec_flags(spec, [kernel])]
    program = preprocess(tools, source, flags, timeout=120)
    assert prove(program, kernel_calls(calls)).found == (2,)
    return program


def test_all_weights_are_made_ready_in_one_initializer(tools: Tools, tmp_path: Path) -> None:
    before, initializer, rest = with_kernel(CONSTANT, tools=tools, folder=tmp_path).partition("util.initializer")
    inside, _, function = rest.partition("util.func")
    assert initializer
    assert "util.initializer" not in rest
    assert inside.count("linalg.transpose") == inside.count("util.global.store") == before.count("@__hoisted_") == 2
    assert "linalg.transpose" not in function
    assert "dense<[1.000000e+00, 2.000000e+00]>" in function, "what would grow is fused by the compiler"


def test_a_program_with_parameters_of_its_own_is_left_to_the_compiler(tools: Tools, tmp_path: Path) -> None:
    """In one initializer with what is read at load, nothing could be evaluated while compiling."""
    program = with_kernel(OWN, tools=tools, folder=tmp_path)
    assert "util.initializer" not in program
    assert PARAMETER in program
    assert program.count("linalg.transpose") == 2


def test_a_kernel_that_takes_weights_as_they_are_changes_nothing_else(tools: Tools, tmp_path: Path) -> None:
    program = with_kernel(CONSTANT, tools=tools, folder=tmp_path, transposed=False)
    assert "util.initializer" not in program
    assert "__hoisted_" not in program
