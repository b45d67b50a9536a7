"""The load between timings: it runs while nothing is measured, rests while something is, and ends when nobody asks."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from autotuner.devices import load
from autotuner.devices.load import Load
from tests.support.patience import wait_until


class Calls:
    """A call that says that it took ten milliseconds; one that is not granted took no time, and does not count."""

    def __init__(self) -> None:
        self.count = 0
        self.granted: int | None = None
        """None: as many as it makes."""
        self.running = False
        self.fails = False

    def __call__(self) -> float:
        if self.fails:
            raise RuntimeError("the device is gone")
        time.sleep(0.0002)
        if self.granted is not None and self.count >= self.granted:
            return 0.0
        self.running = True
        self.count += 1
        self.running = False
        return 0.01


@dataclass
class InStep:
    """The time of a load that makes one call for each look of whoever waits for it."""

    calls: Calls
    now: float = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        del seconds
        self.calls.granted = wanted = self.calls.count + 1
        while self.calls.count < wanted:
            time.sleep(0.0)


class Resumed:
    """The time where the machine stood still after the first look at it."""

    sleep = staticmethod(time.sleep)

    def __init__(self) -> None:
        self._moments = itertools.chain([0.0], itertools.repeat(10 * load.IDLE_SECONDS))

    def monotonic(self) -> float:
        return next(self._moments)


@pytest.fixture
def calls() -> Calls:
    return Calls()


@pytest.fixture
def in_step(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> InStep:
    calls.granted = 0
    steps = InStep(calls)
    monkeypatch.setattr(load, "time", steps)
    return steps


@pytest.fixture
def under_load(calls: Calls) -> Iterator[Load]:
    running = Load(calls, begin=lambda: None)
    yield running
    running.end()


def until(condition: Callable[[], bool]) -> None:
    assert wait_until(condition), "it never comes to that"


def test_it_runs_by_itself_and_rests_while_something_is_measured(calls: Calls, under_load: Load) -> None:
    until(lambda: calls.count > 3)
    with under_load.paused(settled=False):
        before = calls.count
        assert not calls.running
        time.sleep(0.02)
        assert calls.count == before
    until(lambda: calls.count > before)


@pytest.mark.usefixtures("in_step")
def test_a_timing_waits_for_the_lasting_state_at_first_and_for_less_between_two(calls: Calls, under_load: Load) -> None:
    with under_load.paused(settled=True):
        first = calls.count
    assert first >= load.SETTLE_SECONDS / 0.01
    with under_load.paused(settled=True):
        assert load.RESTORE_SECONDS / 0.01 <= calls.count - first < first


@pytest.mark.usefixtures("in_step")
def test_a_device_that_is_lent_is_settled_and_rests_until_it_is_asked_for_again(calls: Calls, under_load: Load) -> None:
    under_load.rest(settled=True)
    lent = calls.count
    assert lent >= load.SETTLE_SECONDS / 0.01
    assert not calls.running
    with under_load.paused(settled=True):  # the other process has kept it busy: it need not settle anew
        assert load.RESTORE_SECONDS / 0.01 <= calls.count - lent < lent


def test_a_failure_within_a_pause_does_not_end_the_load(calls: Calls, under_load: Load) -> None:
    with pytest.raises(KeyError), under_load.paused(settled=False):
        raise KeyError
    before = calls.count
    until(lambda: calls.count > before + 3)


def test_it_ends_when_nobody_asks_and_settles_anew(calls: Calls, in_step: InStep, under_load: Load) -> None:
    with under_load.paused(settled=True):
        settled = calls.count
    in_step.now += 2 * load.IDLE_SECONDS
    until(lambda: under_load._settled_s == 0.0)
    assert calls.count == settled
    with under_load.paused(settled=True):
        assert calls.count - settled >= load.SETTLE_SECONDS / 0.01


def test_settling_ends_though_the_process_was_stopped_meanwhile(
    calls: Calls, under_load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a machine has stood still: nobody has asked for longer than the load waits."""
    monkeypatch.setattr(load, "time", Resumed())
    under_load.rest(settled=False)
    before = calls.count
    with under_load.paused(settled=True):
        assert calls.count - before >= load.SETTLE_SECONDS / 0.01


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_load_that_fails_keeps_nobody_waiting(calls: Calls, under_load: Load) -> None:
    calls.fails = True
    until(lambda: threading.active_count() == 1 or not under_load._thread.is_alive())
    with under_load.paused(settled=True):
        assert not calls.running


def test_nothing_runs_after_its_end(calls: Calls) -> None:
    ended = Load(calls, begin=lambda: None)
    ended.end()
    count = calls.count
    time.sleep(0.02)
    assert calls.count == count
