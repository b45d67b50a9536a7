"""The one loop that times in turns, and how a timing is taken."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, field

import pytest

from autotuner.devices.device import Timing
from autotuner.errors import OutOfTimeError
from autotuner.measure.contest import Pacer, TimingFailed, Turns, take_turns

NAMES = ("base", "one", "two")


@dataclass
class Timer:
    """Each call's time by name; where `fails` or `late` says so it is none."""

    fails: Collection[str] = ()
    late: float = math.inf
    calls: list[str] = field(default_factory=list)
    rows: list[tuple[str, int]] = field(default_factory=list)

    def __call__(self, name: str) -> Timing:
        if len(self.calls) >= self.late:
            raise OutOfTimeError
        self.calls.append(name)
        if name in self.fails:
            raise TimingFailed(f"{name} crashed")
        return Timing((float(len(self.calls)),))

    def record(self, name: str, block: int, timing: Timing) -> None:
        assert timing.ok
        self.rows.append((name, block))


def blocks(count: int) -> object:
    return lambda turns: NAMES if turns.blocks < count else ()


def run(timer: Timer, count: int = 4, **how: object) -> Turns:
    return take_turns(NAMES, timer, blocks(count), record=timer.record, **how)  # type: ignore[arg-type]


def test_each_block_times_all_once_in_changing_order_and_is_written_down_as_it_happens() -> None:
    timer = Timer()
    turns = run(timer, 6, seed=3)
    orders = [timer.calls[3 * n : 3 * n + 3] for n in range(6)]
    assert all(sorted(order) == sorted(NAMES) for order in orders)
    assert len({tuple(order) for order in orders}) > 1
    assert timer.rows == [(name, 1 + at // 3) for at, name in enumerate(timer.calls)]
    assert turns.blocks == 6
    assert all(len(row) == 6 for row in turns.times.values())
    again = Timer()
    run(again, 6, seed=3)
    assert again.calls == timer.calls, "the same seed gives the same order"


def test_who_fails_leaves_and_the_others_go_on() -> None:
    timer = Timer(fails={"one"})
    turns = run(timer, needed="base")
    assert turns.failed == {"one": "one crashed"}
    assert timer.calls.count("one") == 1
    assert timer.calls.count("two") == 4
    assert turns.times["one"] == (None,) * 4
    assert "one" not in turns.medians


def test_the_one_that_is_needed_ends_it() -> None:
    with pytest.raises(TimingFailed, match="base crashed"):
        run(Timer(fails={"base"}), needed="base")


@pytest.mark.parametrize("us", [0.0, -1.0, math.inf, math.nan])
def test_what_is_no_time_counts_as_a_failure(us: float) -> None:
    turns = take_turns(["one"], lambda _: Timing((us,)), lambda so_far: ["one"] if not so_far.blocks else [])
    assert "one" in turns.failed


def test_a_block_that_the_time_cuts_off_does_not_count() -> None:
    turns = run(Timer(late=7))
    assert turns.blocks == 2


def test_who_is_no_longer_asked_for_is_not_timed() -> None:
    timer = Timer()
    turns = take_turns(NAMES, timer, lambda now: NAMES if not now.blocks else ("base",) if now.blocks < 3 else ())
    assert [timer.calls.count(name) for name in NAMES] == [3, 1, 1]
    assert turns.logs("one", "base") == pytest.approx(
        [math.log((turns.times["base"][0] or 0) / (turns.times["one"][0] or 1))]
    )


def test_ratios_are_taken_within_blocks_so_that_drift_cancels() -> None:
    drift = [1.0, 2.0, 4.0, 8.0, 16.0]
    turns = Turns({"base": tuple(30 * d for d in drift), "one": tuple(10 * d for d in drift)})
    found = turns.ratio("one", "base")
    assert found is not None
    assert (found.low, found.median, found.high) == pytest.approx((3.0, 3.0, 3.0))
    assert turns.lead("one", "base") == pytest.approx(3.0)
    assert turns.beats("one", "base", by=2.9)
    assert not turns.beats("one", "base", by=3.1)
    assert turns.falls_short("one", "base", of=3.1)
    assert not turns.falls_short("one", "base", of=2.9)


@pytest.mark.parametrize(("kept", "blocks"), [(0.0, 3), (5.0, 2), (20.0, 0)])
def test_a_block_begins_only_where_one_as_long_as_the_longest_fits(kept: float, blocks: int) -> None:
    left = [20.0, 14.0, 7.0, 0.5]  # blocks of 6, 7 and 6.5 seconds
    pacer = Pacer(lambda: left[done], kept=kept, first=5.0)
    done = 0
    while pacer.fits():
        done += 1
    assert done == blocks
    endless = Pacer(lambda: math.inf, kept=math.inf)
    assert all(endless.fits() for _ in range(3))
