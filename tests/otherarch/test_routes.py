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


EVERY_CONFIGURATION = ("gemm f32", "conv")
"""Where each route has its configuration carried there; elsewhere one shows that it is."""


def candidates(plan: Plan, name: str) -> Iterator[Candidate]:
    """The default, every stock route, and of each route that has knobs the configuration that a search begins with."""
    yield plan.baseline
    yield from plan.stock
    for number, config in enumerate(plan.first if name in EVERY_CONFIGURATION else plan.first[:1]):
        yield plan.candidate(config, id=f"first-{number}")


@pytest.mark.parametrize("name", PROBLEMS)
def test_every_route_and_a_configuration_of_each_is_right_there(
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
