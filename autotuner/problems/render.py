"""Problems as MLIR, each a module of one function."""

from __future__ import annotations

from autotuner.problems.base import FUNCTION, Problem
from autotuner.system.templates import render

Rows = tuple[int | None, int | None]
"""The least and the greatest M; None: unbounded."""


def problem_mlir(problem: Problem) -> str:
    """The problem as a program."""
    return render(problem.template, function=FUNCTION, **problem.template_values())


def dynamic_gemm_mlir(problem: Problem, *, rows: Rows) -> str:
    """The product with a dynamic M in this range."""
    low, high = rows
    values = dict(problem.template_values())
    return render("gemm_dynamic.mlir.j2", function=FUNCTION, problem=problem, low=low, high=high, **values)
