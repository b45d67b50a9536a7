"""IREE's routes, tuned configurations and a substituted executable on the other architecture."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor

import pytest

from autotuner.build import Builder
from autotuner.build.executor import BuildExecutor
from autotuner.problems import Attention, Conv, Gemm, Problem
from autotuner.targets import Target
from autotuner.tuning.plan import Candidate, Plan
from tests.otherarch.conftest import Run

PROBLEMS: dict[str, Problem] = {
    "gemm f32": Gemm.parse(shape="33x48x40", dtype="f32"),
    "gemm i8": Gemm.parse(shape="32x32x64", dtype="i8", acc="i32", layout="nt"),
    "conv": Conv.parse(shape="1x10x10x8", filter="3x3x16", pad="1x1", dtype="f32"),
    "attention": Attention.parse(shape="1x2x32x32x16", dtype="f32"),
}
TIMEOUT = 120.0


EVERY_ROUTE = "gemm f32"
"""Whose stock routes all run there: they are the same for other problems."""


def candidates(plan: Plan, name: str) -> Iterator[Candidate]:
    """The default, stock routes, and by each carrier the first configuration that a search begins with."""
    yield plan.baseline
    if name == EVERY_ROUTE:
        yield from plan.stock
    carried = set[str]()
    for number, config in enumerate(plan.first):
        candidate = plan.candidate(config, id=f"first-{number}")
        if candidate.carrier.name not in carried:
            yield candidate
        carried.add(candidate.carrier.name)


@pytest.mark.parametrize("name", PROBLEMS)
def test_routes_and_a_configuration_by_each_carrier_are_right_there(
    name: str, target: Target, builder: Builder, executor: Executor, run: Run
) -> None:
    plan = Plan.make(target.prepare(PROBLEMS[name]), target, BuildExecutor.on(executor, builder), timeout=TIMEOUT)
    tried, wrong = set[str](), {}
    for candidate in candidates(plan, name):
        check = run(plan.job(candidate, timeout=TIMEOUT), plan.problem)
        tried.add(candidate.carrier.name)
        if not check.ok:
            wrong[f"{candidate.route.name} by {candidate.carrier.name}"] = f"{check.failure}: {check.detail[:300]}"
    assert wrong == {}
    carriers = {"conv": {"flags", "spec", "substitution"}, "attention": {"flags", "spec"}}
    assert tried == carriers.get(name, {"flags", "spec"})
