"""What kernels want done to constant weights is evaluated by the compiler as one function: each costs much."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from autotuner.carriers.calls import kernel_calls, preprocess, prove
from autotuner.carriers.microkernel import spec_mlir
from autotuner.iree.tools import Tools
from autotuner.microkernels.instance import Binding, Call
from autotuner.problems import Gemm, Operand
from autotuner.targets import Target
from tests.support.kernels import spec_flags
from tests.support.patterns import kernel_call

GEMM = Gemm.parse(shape="8x4x2")
MODEL = Path(__file__).with_name("layers.mlir").read_text().partition("\n")[2]
CONSTANT = MODEL.replace("GLOBAL", "").replace(
    "WEIGHTS", "arith.constant dense<[[9.0, 8.0, 7.0, 6.0], [5.0, 4.0, 3.0, 2.0]]>"
)
PARAMETER = '#flow.parameter.named<"model"::"w"> : tensor<2x4xf16>'
OWN = MODEL.replace("GLOBAL", f"util.global private @w = {PARAMETER}").replace("WEIGHTS", "util.global.load @w")


def preprocessed(text: str, *, tools: Tools, folder: Path, transposed: bool = True) -> str:
    """The program with a kernel that wants its weights the other way round."""
    lhs, rhs, out = GEMM.operands
    own = Binding(1, "read", Operand((4, 2), rhs.element), (1, 0)) if transposed else Binding(1, "read", rhs)
    bindings = (Binding(0, "read", lhs), own, Binding(2, "write", out))
    kernel = replace(kernel_call(GEMM).instance, bindings=bindings)
    source, spec, calls = folder / "model.mlir", folder / "spec.mlir", [Call(kernel, GEMM)]
    source.write_text(text)
    spec.write_text(spec_mlir(calls))
    flags = [*Target.parse("gfx942").compile_flags, *spec_flags(spec, [kernel])]
    program = preprocess(tools, source, flags, timeout=120)
    assert prove(program, kernel_calls(calls)).found == (2,)
    return program


def test_all_weights_are_made_ready_in_one_initializer(tools: Tools, tmp_path: Path) -> None:
    before, initializer, rest = preprocessed(CONSTANT, tools=tools, folder=tmp_path).partition("util.initializer")
    inside, _, function = rest.partition("util.func")
    assert initializer
    assert "util.initializer" not in rest
    assert inside.count("linalg.transpose") == inside.count("util.global.store") == before.count("@__hoisted_") == 2
    assert "linalg.transpose" not in function
    assert "dense<[1.000000e+00, 2.000000e+00]>" in function, "what would grow is fused by the compiler"


def test_a_program_with_parameters_of_its_own_is_left_to_the_compiler(tools: Tools, tmp_path: Path) -> None:
    """In one initializer with what is read at load, nothing could be evaluated while compiling."""
    program = preprocessed(OWN, tools=tools, folder=tmp_path)
    assert "util.initializer" not in program
    assert PARAMETER in program
    assert program.count("linalg.transpose") == 2


def test_a_kernel_that_takes_weights_as_they_are_changes_nothing_else(tools: Tools, tmp_path: Path) -> None:
    program = preprocessed(CONSTANT, tools=tools, folder=tmp_path, transposed=False)
    assert "util.initializer" not in program
    assert "__hoisted_" not in program
