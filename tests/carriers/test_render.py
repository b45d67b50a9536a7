"""The MLIR that is made: it parses, it says what was asked, and nothing slips into it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from iree.compiler import ir

from autotuner.carriers.carrier import FileHeader
from autotuner.carriers.render import MARKER, spec_mlir
from autotuner.problems import Gemm
from autotuner.tuning.plan import Plan

MakePlan = Callable[[Gemm, str], Plan]
SMALL = Gemm.parse(shape="64x64x64", dtype="f32")


def test_a_spec_parses_carries_the_marker_and_its_header(make_plan: MakePlan) -> None:
    plan = make_plan(SMALL, "plain")
    for first in plan.first:
        candidate = plan.candidate(first, id="c0")
        text = candidate.carrier.carried(FileHeader(header=["problem: x", "", "module { not MLIR }"])).spec
        assert text is not None
        assert text.splitlines()[:3] == ["// problem: x", "// ", "// module { not MLIR }"]
        assert text.count(f'transform.annotate %op "{MARKER}"') == 1
        assert candidate.info is not None
        assert candidate.info.lowering_config in text
        assert f"@match_{plan.problem.name}" in text
        with ir.Context():
            assert ir.Module.parse(text).operation.verify()


def test_operands_of_the_same_dynamic_type_are_each_matched(make_plan: MakePlan) -> None:
    plan = make_plan(SMALL, "plain")
    candidate = plan.candidate(plan.first[0], id="c0")
    assert candidate.dispatch is not None
    assert candidate.info is not None
    types = ("tensor<?x64xf32>", "tensor<?x64xf32>", "tensor<?x?xf32>")
    dispatch = replace(candidate.dispatch, operand_types=types, dynamic=(0, 1))
    text = spec_mlir(name="x", dispatch=dispatch, info=candidate.info)
    with ir.Context():
        assert ir.Module.parse(text).operation.verify()
    for number, type_ in enumerate(types):
        assert f"%operand{number} = transform.get_operand %op[{number}]" in text
        assert f"match.cast_compatible_type %operand{number} = {type_} " in text


@pytest.mark.parametrize("name", ["", "a\nb", "a)"])
def test_a_name_that_is_no_symbol_is_refused(make_plan: MakePlan, name: str) -> None:
    plan = make_plan(SMALL, "plain")
    candidate = plan.candidate(plan.first[0], id="c0")
    assert candidate.dispatch is not None
    with pytest.raises(ValueError, match="cannot be a symbol in MLIR"):
        spec_mlir(name=name, dispatch=candidate.dispatch, info=candidate.info)
