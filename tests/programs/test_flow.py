"""What is read of a model's dispatches, from the real compiler."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from iree.compiler import ir

from autotuner import Target
from autotuner.errors import UsageError
from autotuner.iree.mlir import read_root, walk
from autotuner.iree.tools import Tools
from autotuner.problems.render import problem_mlir
from autotuner.programs.dispatch import DispatchProblem, flops, loop_sizes, runs_alone
from autotuner.programs.flow import Sizes, Value
from autotuner.programs.model import Model, ModelBuilder, as_configured, call_of
from autotuner.programs.structure import ModelStructure, by_work, read_structure
from autotuner.system.cache import Cache
from tests.support.models import EXAMPLES

CPU = Target.parse("cpu")
PROGRAM = """
util.func public @main(%x: !hal.buffer_view) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %rows = hal.buffer_view.dim<%x : !hal.buffer_view>[0] : index
  %columns = hal.buffer_view.dim<%x : !hal.buffer_view>[1] : index
  %ended = scf.for %i = %c1 to %rows step %c2 iter_args(%carried = %columns) -> index {
    %0 = arith.addi %i, %carried : index
    util.optimization_barrier %0 : index
    %waited = scf.while (%j = %rows) : (index) -> index {
      %more = arith.cmpi ult, %c0, %j : index
      scf.condition(%more) %j : index
    } do {
    ^bb0(%k: index):
      %1 = arith.subi %k, %c1 : index
      util.optimization_barrier %1 : index
      scf.yield %1 : index
    }
    scf.yield %waited : index
  }
  util.optimization_barrier %ended : index
  util.return
}
"""


def structure(name: str, tmp_path: Path, *, flags: tuple[str, ...] = (), **model: object) -> ModelStructure:
    wanted = Model(EXAMPLES / f"{name}.mlir", **model)  # type: ignore[arg-type]
    builder = ModelBuilder(Tools.find(), Cache(tmp_path), wanted.opened(folder=tmp_path))
    return read_structure(builder, [*CPU.compile_flags, *flags], target="cpu", timeout=60)


def test_dispatches_are_read_with_their_roots_and_calls(tmp_path: Path) -> None:
    found = structure("three", tmp_path)
    assert found.flow.signature.function == "main"
    assert [a.text for a in found.flow.signature.arguments][:3] == ["64x96xf32", "96x128xf32", "128xf32"]
    assert found.flow.signature.results == ("f32",)
    assert [g.root.loops for g in found.groups] == [(64, 128, 96), (64, 64, 128), (64, 32, 64)]
    assert [g.calls for g in found.groups] == [1, 1, 1]
    assert not found.others
    assert found.flops == 2 * (64 * 128 * 96 + 64 * 64 * 128 + 64 * 32 * 64)
    # The bias is fused: it is an operand of the first dispatch.
    assert [v.type for v in found.groups[0].pieces[0].operands][-1] == "tensor<128xf32>"


def test_equal_roots_are_one_group_whatever_is_fused_to_them(tmp_path: Path) -> None:
    found = structure("twice", tmp_path, function="twice")
    assert len(found.groups) == 1
    assert len(found.groups[0].pieces) == 2
    assert found.groups[0].calls == 2


def test_a_model_with_two_functions_needs_a_choice(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"has 2 functions.*twice, other"):
        structure("twice", tmp_path)
    with pytest.raises(UsageError, match=r"no function 'thrice'.*It has: twice, other"):
        structure("twice", tmp_path, function="thrice")


def test_a_dispatch_alone_keeps_its_root_and_all_its_results(tmp_path: Path) -> None:
    group = structure("two_results", tmp_path).groups[0]
    assert runs_alone(group.pieces[0], group.root) == ""
    problem = DispatchProblem(group.pieces[0], group.root, "first")
    assert [o.text for o in problem.operands] == ["32x64xf32", "64x48xf32", "48xf32", "32x48xf32", "32x48xf32"]
    assert problem.outputs == problem.operands[3:]
    assert len(problem.inputs(0)) == 3
    (tmp_path / "alone.mlir").write_text(problem_mlir(problem))
    program = Model(tmp_path / "alone.mlir", trust=True).opened(folder=tmp_path)
    flags = [*problem.flags, *CPU.compile_flags]
    builder = ModelBuilder(Tools.find(), Cache(tmp_path), program)
    made = builder.build(as_configured(builder.job(flags, timeout=60)))
    assert read_root("\n".join(made.texts)) == group.root


def test_dynamic_sizes_come_from_the_inputs(tmp_path: Path) -> None:
    found = structure("dynamic", tmp_path, inputs=("48x96xf32", "96x128xf32"))
    group = found.groups[0]
    assert group.root.dynamic == (0,)
    assert loop_sizes(group.pieces[0], group.root) == {0: 48}
    assert not runs_alone(group.pieces[0], group.root)
    problem = DispatchProblem(group.pieces[0], group.root, "dynamic")
    assert [o.text for o in problem.operands] == ["48x96xf32", "96x128xf32", "48x128xf32"]
    assert flops(problem.resolved(group.root)) == found.flops == 2 * 48 * 96 * 128
    assert by_work(found.groups).total == found.flops


def test_what_is_not_read_is_an_argument_too_and_storage_for_results_is_refused(tmp_path: Path) -> None:
    given = ("48xf32", "48x96xf32", "0.5", "3x7xi64", "96x128xf32", "48x128xf32")
    found = structure("stored", tmp_path, inputs=given)
    signature = found.flow.signature
    assert [(a.text, a.read) for a in signature.arguments[1:5]] == [
        ("?x96xf32", True),
        ("f32", True),
        ("1xf32", False),
        ("96x128xf32", True),
    ]
    assert (signature.results, signature.shapes) == (("f32", "f32", "f32"), ((None, 128), (None,), ()))
    # The number between the inputs takes none of their shapes.
    group = found.groups[0]
    assert loop_sizes(group.pieces[0], group.root) == {0: 48}
    with pytest.raises(UsageError, match=r"takes or gives storage for a result, which cannot be made .* tensors and"):
        call_of(Model(tmp_path, inputs=given), signature, tmp_path / "inputs", seed=0)
    called = replace(signature, foreign=())
    call, notes = call_of(Model(tmp_path, inputs=given), called, tmp_path / "inputs", seed=0)
    assert [text.partition("=")[0] for text in call.inputs] == list(given)
    assert len(notes) == 1


def test_without_sizes_a_dynamic_dispatch_cannot_be_tuned_and_says_why(tmp_path: Path) -> None:
    group = structure("dynamic", tmp_path).groups[0]
    assert "dynamic" in runs_alone(group.pieces[0], group.root)


def test_encoded_operands_are_left_to_the_compiler(tmp_path: Path) -> None:
    found = structure("three", tmp_path, flags=("--iree-opt-data-tiling",))
    reasons = {runs_alone(p, g.root) for g in found.groups for p in g.pieces}
    encoded = [p for p in (*found.others, *(p for g in found.groups for p in g.pieces)) if p.obstacle]
    assert encoded
    assert all("encoding" in p.obstacle for p in encoded)
    assert reasons <= {"", encoded[0].obstacle}


def test_within_a_loop_numbers_are_those_of_its_first_round() -> None:
    with ir.Context() as context:
        module = ir.Module.parse(PROGRAM, context=context)
        function = module.body.operations[0].operation
        seen = [op for op in walk(function) if op.name == "util.optimization_barrier"]
        sizes = Sizes(function, [(8, 5)])
        assert [sizes.of(op.operands[0]) for op in seen] == [1 + 5, 8 - 1, None]
        unknown = Sizes(function, [None])
        assert [unknown.of(op.operands[0]) for op in seen] == [None] * 3


def test_a_number_that_is_computed_on_the_way_may_be_any_but_a_size_must_be_told() -> None:
    assert (Value("i8").obstacle, Value("i8").number_text) == ("", "1")
    assert (Value("f32").obstacle, Value("f32").number_text) == ("", "0.5")
    assert (Value("index", number=7).obstacle, Value("index", number=7).number_text) == ("", "7")
    assert Value("index").obstacle == "it takes a size or position that the inputs do not tell"
