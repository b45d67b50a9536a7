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


def candidates(plan: Plan, *, every_route: bool) -> Iterator[Candidate]:
    """The default, one stock route or all, and by each carrier the first configuration that a search begins with."""
    yield plan.baseline
    yield from plan.stock if every_route else plan.stock[:1]
    carried = set[str]()
    for number, config in enumerate(plan.first):
        candidate = plan.candidate(config, id=f"first-{number}")
        if candidate.carrier.name not in carried:
            yield candidate
        carried.add(candidate.carrier.name)


@pytest.mark.parametrize(
    ("name", "every_route"),
    [*((name, False) for name in PROBLEMS), pytest.param("gemm f32", True, marks=pytest.mark.long)],
)
def test_routes_and_a_configuration_by_each_carrier_are_right_there(
    name: str, every_route: bool, target: Target, builder: Builder, executor: Executor, run: Run
) -> None:
    plan = Plan.make(target.prepare(PROBLEMS[name]), target, BuildExecutor.on(executor, builder), timeout=TIMEOUT)
    tried, wrong = set[str](), {}
    for candidate in candidates(plan, every_route=every_route):
        check = run(plan.job(candidate, timeout=TIMEOUT), plan.problem)
        tried.add(candidate.carrier.name)
        if not check.ok:
            wrong[f"{candidate.route.name} by {candidate.carrier.name}"] = f"{check.failure}: {check.detail[:300]}"
    assert wrong == {}
    carriers = {"conv": {"flags", "spec", "substitution"}, "attention": {"flags", "spec"}}
    assert tried == carriers.get(name, {"flags", "spec"})
