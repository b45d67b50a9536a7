"""The judge on times that are written down, by a clock that only timings advance."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import cycle

import numpy as np
import pytest

from autotuner.devices.device import Timing
from autotuner.errors import DeviceError, OutOfTimeError
from autotuner.measure.blocks import Entrant, Rules
from autotuner.measure.contest import Takes, TimingFailed
from autotuner.measure.judge import LEAD_BLOCKS, MOST_PAIRS, NARROW, PAIRS, RACE_SHARE, Judge, JudgePhase
from autotuner.measure.judgement import SAME, Contest, Judgement
from autotuner.system.progress import Stop
from tests.support.mock_timer import run_protocol

BASE, STOCK = "base", "stock"
Speeds = Mapping[str, Sequence[float]]


@dataclass
class Scripted:
    """The n-th timing of a name is the n-th of its speeds, over and over; 0 is a crash. Each takes a second."""

    speeds: Speeds
    calls: list[str] = field(default_factory=list)
    rows: list[tuple[JudgePhase, str, int]] = field(default_factory=list)
    out_of_time_at: float = math.inf
    stop: Stop = field(default_factory=Stop)
    stop_at: float = math.inf

    def __post_init__(self) -> None:
        self._left = {name: cycle(row) for name, row in self.speeds.items()}

    def __call__(self, name: str) -> Timing:
        if len(self.calls) >= self.out_of_time_at:
            raise OutOfTimeError
        self.calls.append(name)
        if len(self.calls) >= self.stop_at:
            self.stop.request()
        speed = next(self._left[name])
        if speed <= 0:
            raise TimingFailed(f"{name} crashed")
        return Timing((100 / speed, 1.0, 1000.0))  # the median counts

    def record(self, phase: JudgePhase, name: str, block: int, timing: Timing) -> None:
        assert len(timing.us) == 3
        self.rows.append((phase, name, block))

    def blocks(self, phase: JudgePhase) -> int:
        return max((block for p, _, block in self.rows if p == phase), default=0)


def steady(speed: float) -> tuple[float, ...]:
    """0.3 % noise: what never changes would be certain at once."""
    return tuple(speed * float(one) for one in np.random.default_rng(round(1e4 * speed)).normal(1.0, 0.003, 211))


def contest(speeds: Speeds, *, complexity: Mapping[str, int] | None = None, **settings: object) -> Contest:
    entrants = tuple(Entrant(name, (complexity or {}).get(name, 0)) for name in speeds)
    made = Contest(entrants, BASE, STOCK if STOCK in speeds else BASE)
    return replace(made, **settings)  # type: ignore[arg-type]


def judge(case: Contest, timer: Scripted, budget: float = math.inf) -> Judge:
    left = lambda: budget - len(timer.calls)  # noqa: E731
    return Judge(case, Takes.alike(timer), left, timer.stop, block_seconds=2.0, record=timer.record)


def judged(speeds: Speeds, *, budget: float = math.inf, **settings: object) -> tuple[Judgement, Scripted]:
    timer = Scripted(speeds)
    return judge(contest(speeds, **settings), timer, budget).verdict(), timer  # type: ignore[arg-type]


def test_the_fastest_wins_with_the_interval_of_fresh_pairs() -> None:
    found, timer = judged({BASE: steady(1.0), "a": steady(1.5), "b": steady(1.2)})
    assert (found.verdict, found.winner, found.stock) == ("win", "a", BASE)
    assert found.speedup is not None
    assert found.speedup.low < 1.5 < found.speedup.high
    assert found.us["a"] == pytest.approx(100 / 1.5, rel=0.01)
    assert {name for phase, name, _ in timer.rows if phase == "confirm"} == {BASE, "a"}
    assert timer.blocks("confirm") == PAIRS, "what is certain is not timed on for long"
    alone = Scripted({BASE: steady(1.0), "a": steady(1.5)})
    assert replace(judge(contest(alone.speeds), alone), spent=lambda: 1e9).verdict().winner == "a"
    assert (alone.blocks("race"), alone.blocks("confirm")) == (0, PAIRS), (
        "nor is what is narrow; one rival needs no race"
    )


@pytest.mark.parametrize(("before", "most"), [(0.0, PAIRS), (400.0, 20), (1e9, MOST_PAIRS)])
def test_a_wide_interval_is_made_narrower_for_a_tenth_of_what_was_spent(before: float, most: int) -> None:
    timer = Scripted({BASE: steady(1.0), "a": (1.2, 2.0, 1.6, 2.4, 1.4)})
    asked = replace(judge(contest(timer.speeds), timer), spent=lambda: before + len(timer.calls))
    found = asked.verdict()
    assert found.speedup is not None
    assert found.verdict == "win"
    assert timer.blocks("confirm") <= most
    wide = found.speedup.high - found.speedup.low > NARROW * found.speedup.median
    assert wide == (timer.blocks("confirm") == most)


def test_who_is_surely_behind_is_timed_no_more() -> None:
    speeds = {BASE: steady(1.0), "a": steady(1.5), "b": (1.45, 1.54, 1.48, 1.52), "slow": steady(0.7)}
    _, timer = judged(speeds)
    raced = [name for phase, name, _ in timer.rows if phase == "race"]
    assert raced.count("slow") < raced.count("b")


def test_a_win_that_fresh_pairs_do_not_show_is_none() -> None:
    found, _ = judged({BASE: steady(1.0), "a": (*(1.5,) * 4, *steady(1.0) * 30), "b": steady(0.9)})
    assert (found.verdict, found.winner) == ("no-winner", None)
    assert found.confirmed_name == "a"
    assert found.speedup is not None
    assert found.speedup.high < 1.01


def test_nothing_faster_ends_without_a_confirmation_and_says_of_how_many() -> None:
    found, timer = judged({BASE: steady(1.0), "a": steady(0.9), "b": steady(0.8)})
    assert (found.verdict, found.winner, found.confirmed) == ("no-winner", None, None)
    assert "IREE's default (95 % confidence: " in found.reason
    assert timer.blocks("confirm") == 0


def test_all_is_by_the_rules_that_are_asked_for() -> None:
    found, _ = judged({BASE: steady(1.0), "a": steady(1.15)}, rules=Rules(smallest_gain=0.2))
    assert found.verdict == "no-winner"


@pytest.mark.parametrize(("simple", "winner"), [(1.498, "b"), (1.4, "a")])
def test_of_two_that_cannot_be_told_apart_the_simpler_wins(simple: float, winner: str) -> None:
    speeds = {BASE: steady(1.0), "a": steady(1.5), "b": steady(simple)}
    assert judged(speeds, complexity={"a": 5, "b": 1})[0].winner == winner


def test_what_does_not_surely_beat_simpler_flags_gives_way_to_them() -> None:
    speeds = {BASE: steady(1.0), STOCK: steady(1.2), "a": steady(1.2005)}
    found, _ = judged(speeds, complexity={STOCK: 1, "a": 100}, labels={STOCK: "route x"}, chosen="a")
    assert (found.verdict, found.winner, found.over_stock) == ("win", STOCK, SAME)
    assert found.speedup is not None
    assert found.speedup.median == pytest.approx(1.2, rel=0.01)
    assert found.reason.endswith(", by route x: tuning adds nothing certain to it")
    found, _ = judged(speeds, complexity={STOCK: 100, "a": 1}, chosen="a")
    assert found.winner == "a", "these flags are not simpler"


def test_what_beats_the_flags_wins_and_says_by_how_much() -> None:
    speeds = {BASE: steady(1.0), STOCK: steady(1.2), "a": steady(1.5)}
    found, _ = judged(speeds, complexity={STOCK: 1, "a": 100})
    assert found.winner == "a"
    assert found.over_stock is not None
    assert found.over_stock.low > 1.2


def test_a_race_that_is_not_settled_ends_at_its_share_and_the_rest_is_for_the_leader() -> None:
    speeds = {BASE: steady(1.0), "a": (2.0, 1.0, 1.6), "b": (1.5, 1.6, 1.1)}
    _, timer = judged(speeds, budget=60.0)
    raced = sum(phase == "race" for phase, _, _ in timer.rows)
    assert raced <= RACE_SHARE * 60
    assert len(timer.calls) > raced
    assert len(timer.calls) <= 60


def test_without_time_for_a_block_of_all_the_first_is_put_to_the_test_and_may_win() -> None:
    speeds = {BASE: steady(1.0), "a": steady(3.0), **{f"b{n}": steady(1.1) for n in range(30)}}
    found, timer = judged(speeds, budget=20.0, chosen="a")
    assert found.winner == "a"
    assert timer.blocks("race") == 0


def test_a_default_that_is_twenty_times_slower_is_told_in_three_pairs_where_there_is_time_for_no_more() -> None:
    found, timer = judged({BASE: steady(1.0), "a": steady(20.0)}, budget=7.0)
    assert found.winner == "a"
    assert timer.calls.count(BASE) == 3


def test_time_that_is_up_leaves_the_interval_as_it_stands() -> None:
    found, timer = judged({BASE: (1.0, 1.2, 0.9), "a": (1.1, 1.0, 1.3, 1.05)}, budget=10.0)
    assert (found.verdict, found.winner, found.out_of_time) == ("inconclusive", None, True)
    assert found.speedup is not None
    assert found.confirmed_name == "a"
    assert re.fullmatch(r"perhaps faster \(\S+x to \S+x\), not proven", found.reason)
    assert len(timer.calls) == 10
    found, _ = judged({BASE: steady(1.0), "a": steady(2.0)}, budget=4.0)
    assert (found.verdict, found.speedup, found.out_of_time) == ("inconclusive", None, True)
    assert found.reason == "ran out of time: 2 pairs of timings are too few"


def test_what_many_pairs_cannot_tell_apart_is_inconclusive_and_no_matter_of_time() -> None:
    found, timer = judged({BASE: (1.0, 1.3), "a": (1.313, 1.01, 1.0, 1.33)})
    assert (found.verdict, found.out_of_time, found.cause) == ("inconclusive", False, "noise")
    assert timer.blocks("confirm") == MOST_PAIRS


@pytest.mark.parametrize("late", [0, 3, 7])
def test_a_deadline_in_the_middle_keeps_the_blocks_that_are_whole(late: int) -> None:
    timer = Scripted({BASE: steady(1.0), "a": steady(2.0), "b": steady(1.9)}, out_of_time_at=late)
    found = judge(contest(timer.speeds), timer).verdict()
    assert found.winner is None
    assert found.verdict == "inconclusive"


@pytest.mark.parametrize("at", [1, 5, 11])
def test_a_user_who_stops_it_gets_no_verdict_and_no_advice(at: int) -> None:
    timer = Scripted({BASE: (1.0, 1.1), "a": (1.05, 1.1), "b": (1.04, 1.1)}, stop_at=at)
    found = judge(contest(timer.speeds), timer).verdict()
    assert (found.verdict, found.out_of_time) == ("inconclusive", False)


def test_a_failing_entrant_leaves_and_a_failing_baseline_is_the_devices_fault() -> None:
    found, _ = judged({BASE: steady(1.0), "a": (0.0,), "b": steady(1.5)})
    assert found.winner == "b"
    with pytest.raises(DeviceError, match="the baseline stopped working"):
        judged({BASE: (0.0,), "a": steady(1.5)})


def test_when_all_candidates_fail_there_is_no_winner_and_the_reason_says_so() -> None:
    found, _ = judged({BASE: steady(1.0), "a": (0.0,), "b": (0.0,)})
    assert found.verdict == "no-winner"
    assert found.reason == "none of the 2 fastest can be timed any more"


def test_a_winner_that_fails_while_it_is_confirmed_is_none() -> None:
    found, _ = judged({BASE: steady(1.0), "a": (1.5, 0.0)})
    assert (found.verdict, found.winner, found.out_of_time) == ("inconclusive", None, False)
    assert "a crashed" in found.reason


def test_who_is_chosen_elsewhere_is_only_confirmed() -> None:
    found, timer = judged({BASE: steady(1.0), "a": steady(1.5), "b": steady(2.0)}, chosen="a")
    assert found.winner == "a"
    assert "b" not in timer.calls


@pytest.mark.parametrize("role", ["baseline", "stock", "chosen"])
def test_a_contest_about_somebody_who_does_not_take_part_is_refused(role: str) -> None:
    with pytest.raises(ValueError, match="no entrants: nobody"):
        contest({BASE: (1.0,), "a": (1.0,)}, **{role: "nobody"})  # type: ignore[arg-type]


@pytest.mark.parametrize("names", [(BASE,), (BASE, "a", "a")])
def test_a_contest_needs_a_rival_and_distinct_names(names: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match=r"nobody races|distinct"):
        Contest(tuple(Entrant(name) for name in names), BASE, BASE)


def test_flags_that_were_timed_beside_a_winner_may_win_in_its_place_where_they_hold_alone() -> None:
    speeds = {BASE: steady(1.0), STOCK: steady(1.3), "a": steady(1.6)}
    won, _ = judged(speeds, complexity={STOCK: 1, "a": 100}, chosen="a")
    simple = won.of_stock(baseline=BASE, rules=Rules(), over="it")
    assert simple is not None
    assert (simple.verdict, simple.winner, simple.confirmed_name, simple.over_stock) == ("win", STOCK, STOCK, SAME)
    assert won.confirmed is not None
    assert simple.speedup == won.confirmed.ratio(STOCK, BASE)
    wider = won.of_stock(baseline=BASE, rules=Rules(alpha=0.001), over="it")
    assert wider is not None
    assert wider.speedup == won.confirmed.ratio(STOCK, BASE, alpha=0.001)
    assert won.of_stock(baseline=BASE, rules=Rules(smallest_gain=1.5), over="it") is None
    assert simple.of_stock(baseline=BASE, rules=Rules(), over="it") is None, "it is the winner"


def test_who_is_out_takes_its_part_and_its_figures_along() -> None:
    case = contest({BASE: (1.0,), STOCK: (1.2,), "a": (1.5,)}, chosen="a")
    rest, flags = case.without("a"), case.without(STOCK)
    assert rest is not None
    assert flags is not None
    assert (rest.rivals, rest.stock, rest.chosen) == ([STOCK], STOCK, None)
    assert (flags.rivals, flags.stock) == (["a"], BASE)
    assert rest.without(STOCK) is None
    won, _ = judged({BASE: steady(1.0), STOCK: steady(1.3), "a": steady(1.6)}, chosen="a")
    gone = won.without_speedup()
    assert (gone.winner, gone.speedup, gone.over_stock, gone.confirmed_name, gone.confirmed) == (None,) * 5


# --- who is ahead, without a verdict ----------------------------------------------------------------------------


def led(speeds: Speeds, **how: float) -> tuple[Judgement, Scripted]:
    timer = Scripted(speeds, out_of_time_at=how.get("late", math.inf))
    return judge(contest(speeds), timer, how.get("budget", math.inf)).lead(), timer


def test_a_lead_is_the_best_of_a_few_blocks_and_no_verdict() -> None:
    found, timer = led({BASE: steady(1.0), "a": steady(1.5), "b": steady(1.2)})
    assert (found.verdict, found.leader, found.winner) == ("inconclusive", "a", None)
    assert found.reason == "1.50x side by side with the default, not raced"
    assert timer.blocks("race") == LEAD_BLOCKS
    assert timer.calls.count("b") == LEAD_BLOCKS, "nobody is dropped"
    found, _ = led({BASE: steady(1.0), "a": steady(1.005)})
    assert (found.verdict, found.leader) == ("no-winner", None)


def test_a_lead_goes_without_those_that_crash_but_not_without_the_baseline() -> None:
    found, _ = led({BASE: steady(1.0), "a": (0.0,), "b": steady(1.2)})
    assert found.leader == "b"
    with pytest.raises(DeviceError):
        led({BASE: (0.0,), "a": steady(1.0)})


def test_a_lead_has_the_blocks_that_there_was_time_for_and_without_one_nothing_is_claimed() -> None:
    assert led({BASE: steady(1.0), "a": steady(1.5)}, late=5)[0].leader == "a"
    found, _ = led({BASE: steady(1.0), "a": steady(1.5)}, late=1)
    assert (found.verdict, found.leader, found.us, found.out_of_time) == ("inconclusive", None, {}, True)


# --- whole searches on a simulated device -----------------------------------------------------------------------


def test_identical_candidates_are_never_called_a_win() -> None:
    outcomes = [run_protocol({f"c{n}": 1.0 for n in range(20)}, seed=seed) for seed in range(10)]
    assert not any(outcome.winner for outcome in outcomes)


def test_one_candidate_three_percent_faster_is_found() -> None:
    speeds = {f"c{n}": 1.0 for n in range(20)} | {"c7": 1.03}
    found = [run_protocol(speeds, seed=seed).winner for seed in range(12)]
    assert found.count("c7") >= 10
    assert {*found} <= {"c7", None}
