"""A problem in plain words and numbers, as the script of another library reads it."""

from __future__ import annotations

from typing import Any

from autotuner.problems import Attention, Conv, Gemm, Problem

Task = dict[str, Any]
_CONV = ("n", "h", "w", "c", "kh", "kw", "f", "groups", "depthwise", "channels_last")
_PAIRS = ("stride", "dilation", "pad")
_ATTENTION = ("batch", "heads", "queries", "keys", "width", "causal")


def task_of(problem: Problem) -> Task:
    """What is computed, of which types, with which result."""
    return {
        "op": problem.op,
        "dtype": problem.operands[0].element.mlir,
        "acc": problem.types[1],
        "result": problem.output.element.mlir,
        "allow": problem.allow,
        **_own(problem),
    }


def _own(problem: Problem) -> Task:
    match problem:
        case Gemm():
            sizes = {"m": problem.m, "n": problem.n, "k": problem.k, "batch": problem.batch}
            return {**sizes, "layout": problem.layout, **_epilogue(problem)}
        case Conv():
            pairs = {name: list(getattr(problem, name)) for name in _PAIRS}
            return {**{name: getattr(problem, name) for name in _CONV}, **pairs, **_epilogue(problem)}
        case Attention():
            return {name: getattr(problem, name) for name in _ATTENTION}
        case _:
            return {}


def _epilogue(problem: Gemm | Conv) -> Task:
    own = problem.epilogue
    done = {"low": own.low, "high": own.high, "activation": own.activation, "norm": own.norm}
    return {"added": list(own.operands), **done}
