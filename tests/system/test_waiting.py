"""Time in which this process stood still counts for nobody. The clock is the tests' own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from autotuner.system import waiting
from autotuner.system.waiting import AwakeClock, turns


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    now = [100.0]
    with monkeypatch.context() as patch:
        patch.setattr(waiting, "monotonic", lambda: now[0])
        yield now


def waited(clock: list[float], turns: Iterator[float], *, also: float = 0.0) -> list[float]:
    """Each wait takes as long as it should, and the first so much longer."""
    found = []
    for turn in turns:
        found.append(turn)
        clock[0] += turn + also
        also = 0.0
    return found


def test_waits_add_up_to_the_time_out(clock: list[float]) -> None:
    assert sum(waited(clock, turns(3.5))) == pytest.approx(3.5)
    assert list(turns(0.0)) == []


def test_a_wait_that_ends_early_counts_as_long_as_it_took(clock: list[float]) -> None:
    found = turns(1.0)
    assert next(found) <= 1.0
    clock[0] += 0.1
    assert sum(waited(clock, found)) == pytest.approx(0.9)


def test_standing_still_uses_up_no_time_out(clock: list[float]) -> None:
    assert sum(waited(clock, turns(3.5), also=1000.0)) == pytest.approx(3.5)


def test_a_moment_comes_all_the_same(clock: list[float]) -> None:
    assert sum(waited(clock, turns(60.0, until=clock[0] + 2.5))) == pytest.approx(2.5)
    assert len(waited(clock, turns(60.0, until=clock[0] + 30.0), also=1000.0)) == 1
    assert list(turns(60.0, until=clock[0])) == []


def test_nobody_is_silent_while_nobody_looks(clock: list[float]) -> None:
    awake = AwakeClock(5.0)
    for seconds, now in ((1.0, 1.0), (1000.0, 6.0), (4.0, 10.0)):
        clock[0] += seconds
        assert awake.now() == pytest.approx(now)
