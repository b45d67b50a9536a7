"""The order in which finished builds are measured: those that spill badly after those that do not."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from autotuner.build import Compiled, Isa
from autotuner.system.progress import Clock, Silent, Stop
from autotuner.targets.base import PLAIN
from autotuner.tuning.evaluate import Outcome, TimedEvaluator
from autotuner.tuning.loop import TimedLoop
from autotuner.tuning.plan import Candidate

GOOD, BAD = Isa(vgpr_spills=0), Isa(vgpr_spills=1000)
Queue = deque[tuple[Outcome, "Future[Compiled]"]]


@dataclass
class FakeEvaluator:
    """Remembers in which order candidates were measured."""

    compiles_on_device: bool = False
    order: list[str] = field(default_factory=list)
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    best_us: float = 1.0

    @property
    def plan(self) -> Any:
        return SimpleNamespace(target=SimpleNamespace(compiles_on_device=self.compiles_on_device))

    def settle_build(self, _outcome: Outcome, _build: Compiled) -> bool:
        return True

    def measure(self, outcome: Outcome, _build: Compiled) -> None:
        self.order.append(outcome.candidate.id)


@pytest.fixture
def evaluator() -> FakeEvaluator:
    return FakeEvaluator()


@pytest.fixture
def loop(evaluator: FakeEvaluator) -> TimedLoop:
    return TimedLoop(
        cast(TimedEvaluator, evaluator),
        ThreadPoolExecutor(1),
        Clock(60.0),
        Stop(),
        Silent(),
        seed=0,
        trials=10,
        jobs=2,
        seconds=dict.fromkeys(("build", "time", "search"), 0.0),
    )


def job(name: str, isa: Isa | None) -> tuple[Outcome, Future[Compiled]]:
    """A build with these figures; None is one that is not finished."""
    future: Future[Compiled] = Future()
    if isa is not None:
        future.set_result(Compiled(None, "", 1.0, (), Path(), binary=name, isa=isa, applied=1))
    return Outcome(Candidate(name, "codegen", PLAIN, 1), 0), future


def test_of_finished_builds_those_that_spill_badly_are_measured_last(loop: TimedLoop, evaluator: FakeEvaluator) -> None:
    queue: Queue = deque([job("a", BAD), job("b", GOOD), job("c", BAD), job("d", GOOD), job("e", Isa())])
    loop._drain(queue, search=None)
    assert evaluator.order == ["b", "d", "e", "a", "c"]
    assert not queue


def test_one_at_a_time_a_spiller_gives_way_once_and_is_not_starved(loop: TimedLoop, evaluator: FakeEvaluator) -> None:
    queue: Queue = deque([job("spills", BAD), job("0", GOOD), job("1", GOOD)])
    for i in range(2, 6):
        loop._drain(queue, search=None, limit=1)
        queue.append(job(str(i), GOOD))  # the search goes on asking
    assert evaluator.order == ["0", "1", "spills", "2"]


def test_a_spiller_does_not_wait_for_builds_that_are_not_finished(loop: TimedLoop, evaluator: FakeEvaluator) -> None:
    queue: Queue = deque([job("spills", BAD), job("late", None)])
    loop._drain(queue, search=None, limit=1)
    assert evaluator.order == ["spills"]
    queue.extendleft([job("again", BAD)])
    queue.append(job("early", GOOD))
    loop._drain(queue, search=None, limit=1)
    assert evaluator.order == ["spills", "early"]
    assert [outcome.candidate.id for outcome, _ in queue] == ["late", "again"]


def test_without_spills_the_order_is_that_of_the_queue(loop: TimedLoop, evaluator: FakeEvaluator) -> None:
    evaluator.compiles_on_device = True
    loop._drain(deque(job(name, Isa(code_bytes=9)) for name in "abcd"), search=None)
    assert evaluator.order == ["a", "b", "c", "d"]
