"""The time of a comparison: what fits, what is said of the rest; clocks are set by hand."""

from __future__ import annotations

import math
from pathlib import Path
from unittest.mock import MagicMock

import pytest

from autotuner import Options, Target
from autotuner.errors import OutOfTimeError
from autotuner.iree.tools import Tools
from autotuner.jobs.bench.backends import Chosen, Terms
from autotuner.jobs.bench.problem import Part, ProblemBench
from autotuner.jobs.bench.result import BackendRow
from autotuner.jobs.bench.run import bench_model, share_of, short_of, unreached
from autotuner.jobs.bench.sides import Manner
from autotuner.programs.model import Model
from autotuner.system.progress import Clock
from tests.support.bare_device import BareDevice
from tests.support.fake_tools import HANGING
from tests.support.models import EXAMPLES
from tests.support.other_compiler import instead_of_compiler


class Set(Clock):
    """A clock that stands still."""

    now = 0.0

    @property
    def elapsed(self) -> float:
        return self.now


def test_who_had_no_turn_says_so() -> None:
    store, first, second = MagicMock(), MagicMock(), MagicMock()
    first.time.return_value = MagicMock(ok=True, median=5.0)
    second.time.side_effect = OutOfTimeError("the time is up")
    options = MagicMock(seed=0)
    run = MagicMock(clock=Set(9.0), stopped=False, session=MagicMock(store=store), options=options)
    parts = {"iree": Part(BackendRow("iree"), 1, first), "numpy": Part(BackendRow("numpy"), 2, second)}
    manner = Manner(BareDevice(), 0.02, 60.0, on_host=True)
    bench = ProblemBench(run, 1, {}, MagicMock(), manner, 6, cold=False, parts=parts)
    bench._time_blocks()
    assert bench._too_short == "0 of 6 blocks fit into --budget"
    assert parts["numpy"].row.failure == "not-timed"
    assert "a longer --budget would do" in parts["numpy"].row.reason


def test_time_that_a_problem_leaves_goes_to_the_others() -> None:
    clock = Set(90.0)
    assert share_of(clock, 3) == 30.0
    clock.now = 10.0
    assert share_of(clock, 2) == 50.0
    assert share_of(Set(math.inf), 2) == math.inf


@pytest.mark.parametrize(("seconds", "said"), [(math.inf, False), (600.0, False), (10.0, True)])
def test_a_short_budget_is_said_at_the_start_with_the_least(seconds: float, said: bool) -> None:
    words = short_of(Set(seconds), 5, 3, lasting=0.02)
    assert bool(words) is said
    if said:
        assert "5 problems on 3 backends take about 45 s at the least" in words


def test_what_is_not_reached_is_counted_with_a_budget_that_would_do() -> None:
    clock = Set(60.0)
    clock.now = 60.0
    assert unreached(clock, 5, 5) == ""
    assert (
        unreached(clock, 2, 6)
        == "the time was up: 4 of 6 problems were not reached: --budget 220s would do, or --resume goes on with them"
    )
    clock = Set(20.0)
    clock.now = 21.0
    assert unreached(clock, 0, 1) == "the time was up before anything was timed: --budget 55s would do"


@pytest.mark.long
def test_a_model_whose_compile_outlasts_the_budget_is_told_as_not_reached(tools: Tools, tmp_path: Path) -> None:
    slow = instead_of_compiler(
        tools, tmp_path, f'case "$*" in *--compile-to=*) exec REAL "$@" ;; esac\nexec sleep {HANGING}'
    )
    found = bench_model(
        Model(EXAMPLES / "three.mlir"),
        Terms(Chosen(("iree",))),
        Target.parse("cpu"),
        options=Options(workspace=tmp_path / "workspace", budget=15.0),
        tools=slow,
    )
    assert (found.problems, found.not_reached) == ((), ("three",))
    assert any("the time was up before anything was timed: --budget" in note for note in found.to_json()["notes"])


def test_a_model_that_is_not_read_in_time_is_told_with_a_budget_that_would_do(tools: Tools, tmp_path: Path) -> None:
    """As of `ab --model`, which reads it the same way."""
    hangs = instead_of_compiler(tools, tmp_path, f'case "$*" in *.mlir*) exec sleep {HANGING} ;; esac\nexec REAL "$@"')
    with pytest.raises(OutOfTimeError, match=r"the time was up before three\.mlir was read\.") as caught:
        bench_model(
            Model(EXAMPLES / "three.mlir"),
            Terms(Chosen(("iree",))),
            Target.parse("cpu"),
            options=Options(workspace=tmp_path / "workspace", budget=5.0),
            tools=hangs,
        )
    assert caught.value.remedy == "--budget 30s would do."
