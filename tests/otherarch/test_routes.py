"""IREE's routes, tuned configurations and a substituted executable on the other architecture."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor
from dataclasses import replace

import pytest

from autotuner.build import Builder
from autotuner.build.executor import BuildExecutor
from autotuner.problems import Gemm, Problem
from autotuner.problems.attention import Attention
from autotuner.problems.conv import Conv
from autotuner.targets import Target
from autotuner.tuning.plan import Candidate, Plan
from tests.otherarch.conftest import Run

PROBLEMS: dict[str, Problem] = {
    "gemm f32": Gemm.parse(shape="33x48x40", dtype="f32"),
    "gemm i8": Gemm.parse(shape="32x32x64", dtype="i8", acc="i32", layout="nt"),
    "conv": Conv.parse(shape="1x10x10x8", filter="3x3x16", pad="1x1", dtype="f32"),
    "attention": Attention.parse(shape="1x2x32x32x16", dtype="f32"),
}
PLAIN_ALONE = ("gemm i8", "attention")
"""What the other routes would add to these is seen by the others."""
TIMEOUT = 120.0


def candidates(plan: Plan, *, stock: int | None) -> Iterator[Candidate]:
    """The default, so many stock routes or all, and by each carrier the first configuration of a search."""
    yield plan.baseline
    yield from plan.stock[:stock]
    carried = set[str]()
    for number, config in enumerate(plan.first):
        candidate = plan.candidate(config, id=f"first-{number}")
        if candidate.carrier.name not in carried:
            yield candidate
        carried.add(candidate.carrier.name)


@pytest.mark.parametrize(
    ("name", "stock"),
    [
        *((name, 2 if name == "gemm f32" else 0) for name in PROBLEMS),
        pytest.param("gemm f32", None, marks=pytest.mark.long),  # stock routes are the same for other problems
    ],
)
def test_routes_and_a_configuration_by_each_carrier_are_right_there(
    name: str, stock: int | None, target: Target, builder: Builder, executor: Executor, run: Run
) -> None:
    if name in PLAIN_ALONE:
        target = replace(target, knobs=())
    plan = Plan.make(target.prepare(PROBLEMS[name]), target, BuildExecutor.on(executor, builder), timeout=TIMEOUT)
    tried, wrong = set[str](), {}
    for candidate in candidates(plan, stock=stock):
        check = run(plan.job(candidate, timeout=TIMEOUT), plan.problem)
        tried.add(candidate.carrier.name)
        if not check.ok:
            wrong[f"{candidate.route.name} by {candidate.carrier.name}"] = f"{check.failure}: {check.detail[:300]}"
    assert wrong == {}
    carriers = {"conv": {"flags", "spec", "substitution"}, "attention": {"flags", "spec"}}
    assert tried == carriers.get(name, {"flags", "spec"})
