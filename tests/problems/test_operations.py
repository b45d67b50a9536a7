"""What an operation says of itself is all that the command line, workload files and manifests know of it."""

from __future__ import annotations

import inspect

import pytest

from autotuner.cli import operations as commands
from autotuner.errors import UsageError
from autotuner.problems import OPERATIONS, Attention, Conv, Gemm, Operation


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=lambda operation: operation.op)
def test_its_command_takes_each_of_its_options(operation: type[Operation]) -> None:
    words = inspect.signature(getattr(commands, operation.op)).parameters
    assert {"shape", *operation.options()} <= {*words}


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=lambda operation: operation.op)
def test_its_operands_have_a_letter_for_each_dimension(operation: type[Operation]) -> None:
    problem = operation.smallest()
    assert {*problem.operand_names} <= {*operation.letters}
    for name, operand in zip(problem.operand_names, problem.operands, strict=True):
        assert len(problem.dimensions(name)) == len(operand.shape)
        assert {*problem.dimensions(name)} <= {*operation.letters[name]}
        assert problem.permutation(name, problem.dimensions(name)) == tuple(range(len(operand.shape)))


def test_text_becomes_values_of_the_options_types() -> None:
    assert Gemm.from_words({"shape": "2x3x4", "batch": "5", "layout": "NT"}) == Gemm(2, 3, 4, batch=5, layout="nt")
    assert Attention.from_words({"shape": "1x2x3x4x5", "causal": "yes"}) == Attention(1, 2, 3, 4, 5, causal=True)
    with pytest.raises(UsageError, match="conv needs a filter"):
        Conv.from_words({"shape": "1x8x8x4"})
    with pytest.raises(UsageError, match="groups 'many' is not a positive whole number"):
        Conv.from_words({"shape": "1x8x8x4", "filter": "3x3x4", "groups": "many"})
