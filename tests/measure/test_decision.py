"""What a race comes to, on times that are written down: no noise, so every bound is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import cycle, islice
from typing import Literal

import numpy as np
import pytest

from autotuner.measure.blocks import BlockTimes, Drop, Entrant, RaceResult, Rules
from autotuner.measure.decision import decide
from autotuner.measure.race import Timekeeper, TimingFailed, confirm, race
from tests.support.mock_timer import BASELINE

Speeds = Mapping[str, Sequence[float]]
STEADY = (1.0,)
SHAKY = (0.9, 1.1, 0.95, 1.05)
"""A baseline so noisy that the bounds of all over it overlap; side by side, the others are still told apart."""


class Scripted:
    """The n-th timing of a name is the n-th of its speeds, over and over."""

    def __init__(self, speeds: Speeds) -> None:
        self.left = {name: cycle(row) for name, row in speeds.items()}
        self.calls = 0

    def __call__(self, name: str) -> float:
        self.calls += 1
        speed = next(self.left[name])
        if speed <= 0:
            raise TimingFailed("crashed")
        return 1 / speed


def run(speeds: Speeds, *, complexity: Mapping[str, int] | None = None, keep: tuple[str, ...] = ()) -> RaceResult:
    entrants = [Entrant(name, (complexity or {}).get(name, 0)) for name in speeds]
    return race(entrants, Timekeeper(Scripted(speeds), np.random.default_rng(0)), baseline=BASELINE, keep=keep)


def stands(
    speeds: Speeds,
    *,
    blocks: int = 48,
    ended: Literal["settled", "last-look", "stopped", "running"] = "last-look",
    complexity: Mapping[str, int] | None = None,
) -> RaceResult:
    return RaceResult(
        times={name: tuple(1 / speed for speed in islice(cycle(row), blocks)) for name, row in speeds.items()},
        entrants=tuple(Entrant(name, (complexity or {}).get(name, 0)) for name in speeds),
        baseline=BASELINE,
        survivors=tuple(speeds),
        ended=ended,
    )


@pytest.mark.parametrize("looks", [(), (16, 12), (12, 12), (0, 12), (-1,)])
def test_looks_that_do_not_rise_from_one_are_refused(looks: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="looks must rise"):
        race(
            [Entrant(BASELINE)],
            Timekeeper(lambda _: 1.0, np.random.default_rng(0)),
            baseline=BASELINE,
            rules=Rules(looks=looks),
        )


def test_a_race_says_by_which_rules_it_was_run() -> None:
    entrants = [Entrant(BASELINE), Entrant("a", 3)]
    timer = Scripted({BASELINE: STEADY, "a": (2.0,)})
    rng = np.random.default_rng(0)
    result = race(
        entrants, Timekeeper(timer, rng), baseline=BASELINE, rules=Rules(alpha=0.4, smallest_gain=0.2, looks=(1, 5))
    )
    assert (result.rules.alpha, result.rules.smallest_gain, result.rules.looks) == (0.4, 0.2, (1, 5))
    assert (result.complexity(BASELINE), result.complexity("a")) == (0, 3)


@pytest.mark.parametrize("blocks", [12, 13])
@pytest.mark.parametrize("ended", ["stopped", "running"])
def test_a_winner_at_a_look_that_was_reached_stands(blocks: int, ended: Literal["stopped", "running"]) -> None:
    decision = decide(stands({BASELINE: STEADY, "a": (1.5,)}, blocks=blocks, ended=ended))
    assert (decision.verdict, decision.winner, decision.reason) == ("win", "a", "the fastest")


@pytest.mark.parametrize("ended", ["stopped", "running"])
def test_before_the_first_look_there_is_a_leader_but_no_winner(ended: Literal["stopped", "running"]) -> None:
    decision = decide(stands({BASELINE: STEADY, "a": (1.5,)}, blocks=11, ended=ended))
    assert (decision.verdict, decision.winner, decision.leader) == ("inconclusive", None, "a")
    assert decision.reason == "the race was stopped after 11 blocks, before it was settled"


def test_a_race_that_was_stopped_without_a_winner_says_so() -> None:
    decision = decide(stands({BASELINE: STEADY, "a": SHAKY}, blocks=20, ended="stopped"))
    assert decision.reason == "the race was stopped after 20 blocks, before it was settled"


@pytest.mark.parametrize(("simple", "winner"), [(1.10, "fast"), (1.196, "simple")])
def test_where_time_ends_a_race_a_simpler_one_wins_only_if_it_is_about_as_fast(simple: float, winner: str) -> None:
    times = {BASELINE: STEADY, "fast": (1.2,) * 10 + (1.05,) * 2, "simple": (simple,)}
    stopped = stands(times, blocks=12, ended="stopped", complexity={"fast": 5})
    assert decide(stopped).winner == winner
    assert decide(replace(stopped, ended="last-look")).winner == "simple", "12 blocks cannot tell them apart"


def test_where_time_ends_a_race_the_simplest_of_those_about_as_fast_wins() -> None:
    times = {BASELINE: STEADY, "fast": (1.2,) * 10 + (1.05,) * 2, "simplest": (1.10,), "simple": (1.196,)}
    complexity = {"fast": 5, "simple": 2, "simplest": 1}
    stopped = decide(stands(times, blocks=12, ended="stopped", complexity=complexity))
    assert (stopped.winner, stopped.leader) == ("simple", "fast")


def test_what_the_last_look_leaves_open_is_inconclusive() -> None:
    decision = decide(stands({BASELINE: STEADY, "a": SHAKY}))
    assert (decision.verdict, decision.winner) == ("inconclusive", None)
    assert decision.reason == "48 blocks cannot tell whether any is more than 1.0% faster"


def test_a_gain_that_may_be_none_is_no_win() -> None:
    assert decide(stands({BASELINE: STEADY, "a": (1.005, 1.04)})).winner is None


def test_when_none_can_gain_there_is_no_winner() -> None:
    reason = "the one that raced cannot be more than 1.0% faster than the default"
    kept = decide(stands({BASELINE: STEADY, "stock": STEADY}))
    assert (kept.verdict, kept.winner, kept.reason) == ("no-winner", None, reason)
    three = decide(stands({BASELINE: STEADY, "stock": STEADY, "a": STEADY, "b": STEADY}))
    assert three.reason == "none of the 3 that raced can be more than 1.0% faster than the default"


def test_the_simpler_loses_to_what_beats_it_side_by_side() -> None:
    speeds = {BASELINE: SHAKY, "fast": (1.20,), "simple": (1.17,)}
    result = stands(speeds, complexity={"fast": 5})
    fast, simple = result.over_baseline("fast"), result.over_baseline("simple")
    assert fast is not None
    assert simple is not None
    assert fast.low < simple.high, "their bounds over the baseline overlap"
    assert decide(result).winner == "fast"
    assert decide(result).tied == ("fast",)
    assert run(speeds, complexity={"fast": 5}).dropped == {"simple": Drop(12, "beaten", "fast")}


def test_of_those_that_cannot_be_told_apart_the_simplest_then_the_fastest_wins() -> None:
    speeds = {BASELINE: STEADY, "a": (1.19, 1.22), "b": (1.22, 1.18)}
    decision = decide(stands(speeds))
    assert (decision.winner, decision.leader, decision.reason) == ("a", "a", "the fastest")
    decision = decide(stands(speeds, complexity={"a": 1}))
    assert (decision.winner, decision.leader) == ("b", "a")
    assert decision.reason == "the simplest of 2 that cannot be told apart"


def test_of_two_with_the_very_same_times_the_simpler_wins() -> None:
    decision = decide(stands({BASELINE: STEADY, "a": (1.2,), "b": (1.2,)}, complexity={"a": 1}))
    assert (decision.winner, decision.tied) == ("b", ("a", "b"))


def test_no_gain_ends_an_entrant_at_the_look_and_the_kept_stay() -> None:
    result = run({BASELINE: STEADY, "stock": STEADY, "idle": STEADY, "a": (1.5,)}, keep=("stock",))
    assert result.dropped == {"idle": Drop(12, "no-gain")}
    assert (result.blocks, result.ended) == (12, "settled")


@pytest.mark.parametrize("stock", [1.0, 1.2])
def test_a_kept_entrant_that_cannot_win_does_not_prolong_the_race(stock: float) -> None:
    speeds = {BASELINE: STEADY, "stock": (stock,), "a": (1.5,)}
    result = run(speeds, keep=("stock",), complexity={"a": 1})
    assert (result.blocks, result.ended, result.survivors) == (12, "settled", (BASELINE, "stock", "a"))


def test_when_only_the_kept_are_left_and_none_can_gain_the_race_is_over() -> None:
    result = run({BASELINE: STEADY, "stock": STEADY}, keep=("stock",))
    assert (result.blocks, result.ended) == (12, "settled")


def test_twins_that_differ_by_less_than_the_smallest_gain_are_not_raced_on() -> None:
    result = run({BASELINE: STEADY, "a": (1.2,), "b": (1.199, 1.2012)})
    assert (result.blocks, result.ended) == (12, "settled")


def test_a_simpler_one_that_may_still_win_is_raced_on() -> None:
    result = run({BASELINE: STEADY, "a": (1.2,), "simple": (0.95, 1.45)}, complexity={"a": 1})
    assert (result.blocks, result.ended) == (48, "last-look")


def test_one_that_may_be_faster_by_more_than_the_smallest_gain_is_raced_on() -> None:
    result = run({BASELINE: STEADY, "a": (1.2,), "maybe": (1.1, 1.3)}, complexity={"maybe": 1})
    assert (result.blocks, result.ended) == (48, "last-look")


@pytest.mark.parametrize("time", [0.0, -1.0, float("inf"), float("nan")])
def test_what_is_no_time_takes_an_entrant_out(time: float) -> None:
    result = race(
        [Entrant(BASELINE), Entrant("a")],
        Timekeeper(lambda name: 1.0 if name == BASELINE else time, np.random.default_rng(0)),
        baseline=BASELINE,
    )
    assert result.dropped == {"a": Drop(1, "failed", f"{time} is no time")}
    assert result.ended == "settled"


def test_times_of_different_races_are_not_compared() -> None:
    with pytest.raises(ValueError, match="zip"):
        BlockTimes({"a": (1.0,) * 12, "b": (1.0,) * 13}).ratio("a", "b", alpha=0.05)


def test_a_confirmation_that_is_stopped_keeps_what_it_has() -> None:
    timer = Scripted({BASELINE: STEADY, "a": (1.5,)})
    proof = confirm(
        "a", Timekeeper(timer, np.random.default_rng(0), should_stop=lambda: timer.calls >= 22), baseline=BASELINE
    )
    assert (proof.verdict, proof.reason) == ("inconclusive", "the confirmation ended after 11 of its 24 blocks")
    assert proof.blocks == 11
    assert proof.speedup is not None


def test_a_confirmation_reports_blocks_from_one_to_its_last() -> None:
    seen: list[int] = []
    timer = Scripted({BASELINE: STEADY, "a": (1.5,)})

    def told(block: int, name: str, time: float) -> None:
        del name, time
        seen.append(block)

    proof = confirm("a", Timekeeper(timer, np.random.default_rng(0), on_timing=told), baseline=BASELINE)
    assert sorted(set(seen)) == list(range(1, 25))
    assert proof.reason == "fresh blocks give 1.500 (1.500 to 1.500), needed: more than 1.010"


def test_a_baseline_that_fails_ends_the_confirmation() -> None:
    timer = Scripted({BASELINE: (1.0, -1.0), "a": (1.5,)})
    with pytest.raises(TimingFailed):
        confirm("a", Timekeeper(timer, np.random.default_rng(0)), baseline=BASELINE)


def test_a_confirmation_that_may_go_either_way_is_inconclusive() -> None:
    timer = Scripted({BASELINE: STEADY, "a": (1.0, 1.05)})
    proof = confirm("a", Timekeeper(timer, np.random.default_rng(0)), baseline=BASELINE)
    assert proof.verdict == "inconclusive"
    few = confirm("a", Timekeeper(timer, np.random.default_rng(0)), baseline=BASELINE, blocks=3)
    assert (few.verdict, few.reason, few.blocks) == ("inconclusive", "3 blocks are too few for this level", 3)
