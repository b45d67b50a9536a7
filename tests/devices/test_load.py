"""The load between timings: it runs while nothing is measured, rests while something is, and ends when nobody asks."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from autotuner.devices import load
from autotuner.devices.load import Load
from tests.support.patience import one_of_three, wait_until


class Calls:
    """A call that takes a millisecond, and says ten."""

    def __init__(self) -> None:
        self.count = 0
        self.running = False
        self.fails = False

    def __call__(self) -> float:
        if self.fails:
            raise RuntimeError("the device is gone")
        self.running = True
        time.sleep(0.001)
        self.count += 1
        self.running = False
        return 0.01


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


@one_of_three
def test_a_timing_waits_for_the_lasting_state_at_first_and_for_less_between_two(calls: Calls, under_load: Load) -> None:
    under_load.rest(settled=False)
    before = calls.count
    with under_load.paused(settled=True):
        first = calls.count - before
    assert first >= load.SETTLE_SECONDS / 0.01
    with under_load.paused(settled=True):
        assert load.RESTORE_SECONDS / 0.01 <= calls.count - before - first < first


@one_of_three
def test_a_device_that_is_lent_is_settled_and_rests_until_it_is_asked_for_again(calls: Calls, under_load: Load) -> None:
    under_load.rest(settled=False)
    before = calls.count
    under_load.rest(settled=True)
    lent = calls.count - before
    assert lent >= load.SETTLE_SECONDS / 0.01
    time.sleep(0.02)
    assert (calls.count - before, calls.running) == (lent, False)
    with under_load.paused(settled=True):  # the other process has kept it busy: it need not settle anew
        assert load.RESTORE_SECONDS / 0.01 <= calls.count - before - lent < lent


def test_a_failure_within_a_pause_does_not_end_the_load(calls: Calls, under_load: Load) -> None:
    with pytest.raises(KeyError), under_load.paused(settled=False):
        raise KeyError
    before = calls.count
    until(lambda: calls.count > before + 3)


@one_of_three
def test_it_ends_when_nobody_asks_and_settles_anew(
    calls: Calls, under_load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    with under_load.paused(settled=True):
        monkeypatch.setattr(load, "IDLE_SECONDS", 0.02)
    time.sleep(0.1)
    idle = calls.count
    time.sleep(0.05)
    assert calls.count == idle
    monkeypatch.setattr(load, "IDLE_SECONDS", 60.0)
    with under_load.paused(settled=True):
        assert calls.count - idle >= load.SETTLE_SECONDS / 0.01


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
