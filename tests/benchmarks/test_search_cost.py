"""What the search itself costs a candidate."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from autotuner.problems import Gemm, Problem
from autotuner.store.store import Store
from autotuner.tuning.plan import Plan
from benchmarks import search_cost


def test_with_twenty_runs_to_read_and_fit_a_candidate_costs_two_milliseconds_at_the_most(
    make_plan: Callable[[Problem, str], Plan], tmp_path: Path
) -> None:
    problem = Gemm.parse(shape="2048x2048x2048", dtype="f16")
    plan = make_plan(problem, "sm_80")
    with Store.open(None, workspace=tmp_path) as store:
        search_cost.fill(store, plan.space, problem, "sm_80")
        costs = [search_cost.measure(store, plan, problem, seed=seed) for seed in range(5)]
    assert min(cost.each for cost in costs) < 3.0, "two milliseconds on a machine of its own"
    # None of the parts was left out.
    assert all(min(cost.reading, cost.fitting, cost.searching) > 1.0 for cost in costs)
