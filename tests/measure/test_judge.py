"""The judge on times that are written down, by a clock that only timings advance."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import cycle

import pytest

from autotuner.devices.device import Timing
from autotuner.errors import DeviceError, OutOfTimeError
from autotuner.measure.blocks import Entrant, Rules
from autotuner.measure.deadlines import RACE_SHARE
from autotuner.measure.judge import JudgePhase, judge, lead
from autotuner.measure.judgement import SAME, Contest, Judgement
from autotuner.measure.race import TimingFailed
from autotuner.measure.shortlist import Screened
from autotuner.measure.takes import Takes
from autotuner.measure.timeplan import LEAD_BLOCKS, SURE_BLOCKS, Pace, TimePlan
from autotuner.system.progress import Clock, Stop

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


@dataclass
class TimerClock(Clock):
    """A second for each timing."""

    timer: Scripted = field(kw_only=True)

    @property
    def elapsed(self) -> float:
        return float(len(self.timer.calls))


class SlowClock(TimerClock):
    """Three seconds for each."""

    @property
    def elapsed(self) -> float:
        return 3.0 * len(self.timer.calls)


def contest(speeds: Speeds, *, complexity: Mapping[str, int] | None = None, **settings: object) -> Contest:
    entrants = tuple(Entrant(name, (complexity or {}).get(name, 0)) for name in speeds)
    made = Contest(entrants, BASE, STOCK if STOCK in speeds else BASE)
    return replace(made, **settings)  # type: ignore[arg-type]


SECONDS = TimePlan(Pace(1.0, 1.0), Pace(1.0, 1.0))
"""As `Scripted` takes them."""


def judged(case: Contest, timer: Scripted, *, budget: float = math.inf, plan: TimePlan = SECONDS) -> Judgement:
    clock = TimerClock(budget, timer=timer)
    return judge(case, Takes.alike(timer), clock=clock, stop=timer.stop, plan=plan, record=timer.record)


def test_the_fastest_wins_with_the_interval_of_fresh_blocks() -> None:
    timer = Scripted({BASE: (1.0,), "a": (1.5,), "b": (1.2,)})
    found = judged(contest(timer.speeds), timer)
    assert (found.verdict, found.winner, found.stock) == ("win", "a", BASE)
    assert found.speedup is not None
    assert found.speedup.median == pytest.approx(1.5)
    assert found.us == {BASE: pytest.approx(100), "a": pytest.approx(100 / 1.5), "b": pytest.approx(100 / 1.2)}
    assert (timer.blocks("race"), timer.blocks("confirm")) == (12, 24)
    assert {name for phase, name, _ in timer.rows if phase == "confirm"} == {BASE, "a"}


def test_a_win_that_fresh_blocks_do_not_show_is_none() -> None:
    timer = Scripted({BASE: (1.0,), "a": (*(1.5,) * 12, *(1.0,) * 24)})
    found = judged(contest(timer.speeds), timer)
    assert (found.verdict, found.winner) == ("no-winner", None)
    assert found.speedup is not None
    assert found.speedup.median == pytest.approx(1.0)


def test_nothing_faster_ends_without_a_confirmation() -> None:
    timer = Scripted({BASE: (1.0,), "a": (1.0,)})
    found = judged(contest(timer.speeds), timer)
    assert (found.verdict, found.winner, found.confirmed) == ("no-winner", None, None)
    assert timer.blocks("confirm") == 0


def test_all_is_by_the_rules_that_are_asked_for() -> None:
    timer = Scripted({BASE: (1.0,), "a": (1.15,)})
    found = judged(contest(timer.speeds, rules=Rules(smallest_gain=0.2)), timer)
    assert found.verdict == "no-winner"


def test_what_does_not_surely_beat_simpler_flags_gives_way_to_them() -> None:
    speeds = {BASE: (1.0,), STOCK: (1.2,), "a": (*(1.3,) * 12, *(1.25, 1.15) * 12)}
    case = contest(speeds, complexity={STOCK: 1, "a": 100}, labels={STOCK: "route x"})
    found = judged(case, Scripted(speeds))
    assert (found.verdict, found.winner, found.over_stock) == ("win", STOCK, SAME)
    assert found.speedup is not None
    gives = f"1.200 ({found.speedup.low:.3f} to {found.speedup.high:.3f})"
    assert found.reason == f"fresh blocks give {gives} for route x, and what was tuned gains nothing certain over it"
    assert found.speedup.median == pytest.approx(1.2), "the route's own"


def test_flags_that_are_not_simpler_do_not_take_the_win() -> None:
    speeds = {BASE: (1.0,), STOCK: (1.2,), "a": (*(1.3,) * 12, *(1.25, 1.15) * 12)}
    found = judged(contest(speeds, complexity={STOCK: 2, "a": 2}), Scripted(speeds))
    assert found.winner == "a"
    assert found.over_stock is not None


def test_what_beats_the_flags_wins_and_says_by_how_much() -> None:
    speeds = {BASE: (1.0,), STOCK: (1.2,), "a": (1.5,)}
    found = judged(contest(speeds, complexity={STOCK: 1, "a": 100}), Scripted(speeds))
    assert found.winner == "a"
    assert found.over_stock is not None
    assert found.over_stock.median == pytest.approx(1.25)


def test_with_a_screening_only_the_best_race_and_the_stock_route_among_them() -> None:
    speeds = {BASE: (1.0,), STOCK: (0.5,), **{f"c{i}": (1.1 + i / 100,) for i in range(8)}}
    timer = Scripted(speeds)
    screened = tuple(Screened(name, 100 / row[0]) for name, row in speeds.items())
    found = judged(contest(speeds, screened=screened, places=3), timer)
    assert found.winner == "c7"
    raced = {name for phase, name, _ in timer.rows if phase == "race"}
    assert raced == {BASE, STOCK, "c6", "c7"}
    again = [name for phase, name, _ in timer.rows if phase == "screen"]
    assert again.count(BASE) == 3
    assert set(again) == {BASE, *(f"c{i}" for i in range(2, 8))}


def test_without_a_screening_all_race() -> None:
    speeds = {BASE: (1.0,), **{f"c{i}": (1.1,) for i in range(12)}}
    timer = Scripted(speeds)
    judged(contest(speeds, places=2), timer)
    assert {name for _, name, block in timer.rows if block == 1} == set(speeds)


def test_a_race_that_is_not_settled_ends_at_its_share_and_the_rest_is_for_the_leader() -> None:
    speeds = {BASE: (1.0,), "a": (0.9, 1.1)}
    timer = Scripted(speeds)
    found = judged(contest(speeds), timer, budget=100.0)
    assert timer.blocks("race") == math.floor(RACE_SHARE * 100 / 2) + 1
    assert timer.blocks("confirm") == (100 - 2 * timer.blocks("race")) // 2
    assert (found.verdict, found.confirmed_name) == ("inconclusive", "a")
    assert found.speedup is not None, "the best interval that there was time for"
    assert found.reason == (
        "fresh blocks give 0.995 (0.900 to 1.100), needed: more than 1.010; "
        "there was time for 14 blocks, and --budget 145s has time for 24"
    )


def test_without_time_for_a_race_the_best_alone_is_put_to_the_test_and_may_win() -> None:
    timer = Scripted({BASE: (1.0,), "a": (1.5,), "b": (2.0,)})
    screened = tuple(Screened(name, 100 / row[0]) for name, row in timer.speeds.items())
    found = judged(contest(timer.speeds, screened=screened, places=2), timer, budget=30.0)
    assert (found.verdict, found.winner, found.raced) == ("win", "b", None)
    assert {phase for phase, _, _ in timer.rows} == {"confirm"}
    assert timer.blocks("confirm") == 15, "all of the time"
    assert found.us == {BASE: pytest.approx(100.0), "b": pytest.approx(50.0)}


def test_who_is_alone_put_to_the_test_may_be_named() -> None:
    timer = Scripted({BASE: (1.0,), STOCK: (1.4,), "a": (1.5,)})
    found = judged(contest(timer.speeds, favourite=STOCK), timer, budget=20.0)
    assert (found.verdict, found.winner, found.over_stock) == ("win", STOCK, SAME)


def test_a_stock_route_that_there_is_no_time_for_leaves_the_ratio_over_it_open() -> None:
    speeds = {BASE: (1.0,), STOCK: (1.2,), "a": (1.5,)}
    case = contest(speeds, complexity={STOCK: 1, "a": 100}, favourite="a")
    timer = Scripted(speeds)
    found = judged(case, timer, budget=2.0 * SURE_BLOCKS)
    assert (found.verdict, found.winner, found.stock, found.over_stock) == ("win", "a", STOCK, None)
    assert STOCK not in timer.calls
    timer = Scripted(speeds)
    assert judged(case, timer, budget=3.0 * SURE_BLOCKS).over_stock is not None


def test_a_budget_that_no_verdict_fits_into_says_what_it_takes_and_what_was_left() -> None:
    timer = Scripted({BASE: (1.0,), "a": (2.0,)})
    found = judged(contest(timer.speeds), timer, budget=13.0, plan=replace(SECONDS, shipping=5.0))
    # Six blocks of two seconds; a race takes 24, nine blocks to confirm it 18; and a fifth for luck.
    assert found.reason == (
        "no verdict fits: the shortest comparison takes about 12 s, compiling what ships 5 s more, with 13 s left: "
        "--budget 60s would do"
    )
    assert (found.verdict, found.winner, timer.calls) == ("inconclusive", None, [])


def test_who_is_far_ahead_is_confirmed_by_one_repetition_each_where_time_is_short() -> None:
    timer = Scripted({BASE: (1.0,), "a": (20.0,)})
    briefly: list[str] = []

    def brief(name: str) -> Timing:
        briefly.append(name)
        return timer(name)

    # Three repetitions take two seconds of each, one of them one second: six blocks are 24 seconds or 12.
    pace = Pace(2.0, 2.0, spared=(1.0, 1.0))
    plan = TimePlan(pace, pace, ahead=20.0)
    takes = Takes(timer, timer, brief)
    clock = TimerClock(15.0, timer=timer)
    found = judge(contest(timer.speeds), takes, clock=clock, stop=Stop(), plan=plan)
    assert (found.verdict, found.winner, len(briefly)) == ("win", "a", 14)
    near = judge(
        contest(timer.speeds), takes, clock=TimerClock(29.0, timer=timer), stop=Stop(), plan=replace(plan, ahead=2.9)
    )
    assert near.reason.startswith("no verdict fits: the shortest comparison takes about 24 s")


def test_a_slow_baseline_far_behind_is_timed_once_more_where_there_is_time_for_no_more() -> None:
    timer = Scripted({BASE: (1.0, 1.1), "a": (20.0, 21.0, 22.0)})
    few: list[str] = []

    def on_open_device(name: str) -> Timing:
        few.append(name)
        return timer(name)

    plan = TimePlan(Pace(1.0, 1.0), Pace(9.0, 2.0), ahead=20.0, shipping=2.0)
    takes = Takes(timer, timer, timer, on_open_device)
    case = contest(timer.speeds, known_us=101.0)
    found = judge(case, takes, clock=TimerClock(12.0, timer=timer), stop=Stop(), plan=plan, record=timer.record)
    assert (found.verdict, found.winner) == ("win", "a")
    assert (few.count(BASE), few.count("a")) == (1, 9), "it was timed once before: two are enough beside nine"
    assert found.speedup is not None
    assert found.speedup.low == pytest.approx(20 / 1.1 * 1.1)
    assert found.reason.startswith("9 fresh timings against 2 of the baseline give ")
    assert timer.blocks("confirm") == 9
    longer = judge(case, takes, clock=TimerClock(36.0, timer=timer), stop=Stop(), plan=plan, record=timer.record)
    assert (longer.verdict, few.count(BASE)) == ("win", 4), "where there is time it is timed three times"


def test_what_few_timings_do_not_show_to_be_far_ahead_is_no_win() -> None:
    """Ahead by what they took before; side by side it is half as fast again."""
    timer = Scripted({BASE: (1.0,), "a": (1.5,)})
    plan = TimePlan(Pace(1.0, 1.0), Pace(9.0, 2.0), ahead=20.0)
    found = judged(contest(timer.speeds, known_us=100.0), timer, budget=11.0, plan=plan)
    assert (found.verdict, found.winner) == ("inconclusive", None)
    assert "needed of so few: more than 2.000" in found.reason
    assert "--budget" in found.reason


@pytest.mark.parametrize(("speed", "verdict"), [(20.0, "win"), (1.5, "inconclusive")])
def test_of_a_confirmation_that_became_slow_the_blocks_that_there_are_may_tell_enough(
    speed: float, verdict: str
) -> None:
    """Six blocks of 2 s were planned, and each takes 6 s: there are four of them in 30 s, with 4 s for shipping."""
    timer = Scripted({BASE: (1.0,), "a": (speed,)})
    plan = TimePlan(Pace(9.0, 9.0), Pace(1.0, 1.0), ahead=20.0, shipping=4.0)
    clock = SlowClock(28.0, timer=timer)
    takes = Takes.alike(timer)
    case = contest(timer.speeds)
    found = judge(case, takes, clock=clock, stop=timer.stop, plan=plan, record=timer.record)
    assert (found.verdict, timer.blocks("confirm")) == (verdict, 4)
    assert clock.left >= 4.0
    assert "4 of the baseline give" in found.reason


@pytest.mark.parametrize(("ahead", "speed", "taken"), [(20.0, 20.0, 14), (20.0, 1.0, 14), (2.0, 2.0, 0)])
def test_an_old_winner_far_ahead_is_told_by_one_repetition_each_and_by_few_blocks(
    ahead: float, speed: float, taken: int
) -> None:
    """However much time there is. Where the default has become as fast, the same blocks find that."""
    timer = Scripted({BASE: (1.0,), "a": (speed,)})
    briefly: list[str] = []

    def brief(name: str) -> Timing:
        briefly.append(name)
        return timer(name)

    pace = Pace(2.0, 2.0, spared=(1.0, 1.0))
    clock = TimerClock(10_000.0, timer=timer)
    case = contest(timer.speeds, chosen="a", won_before=True)
    plan = TimePlan(pace, pace, ahead=ahead)
    found = judge(case, Takes(timer, timer, brief), clock=clock, stop=Stop(), plan=plan)
    assert (found.verdict, len(briefly)) == ("win" if speed > 1 else "no-winner", taken)


def test_what_ships_may_be_a_little_late_where_there_is_no_verdict_otherwise() -> None:
    timer = Scripted({BASE: (1.0,), "a": (2.0,)})
    found = judged(contest(timer.speeds), timer, budget=13.0, plan=replace(SECONDS, shipping=3.0))
    assert (found.verdict, timer.blocks("confirm")) == ("win", 6)


def test_a_confirmation_that_does_not_hold_says_whose_speedup_it_tells() -> None:
    timer = Scripted({BASE: (1.0,), "a": (1.1,) * 12 + (0.9,) * 24, "b": (1.02,) * 60})
    found = judged(contest(timer.speeds), timer)
    assert found.speedup is not None
    assert (found.winner, found.confirmed_name) in ((None, "a"), (None, "b"), ("b", "b"), ("a", "a"))
    assert found.us[BASE] / found.us[str(found.confirmed_name)] == pytest.approx(found.speedup.median)


def test_a_win_without_time_for_its_confirmation_is_none_and_keeps_the_times() -> None:
    timer = Scripted({BASE: (1.0,), "a": (2.0,)})
    # The plan takes timings for shorter than they are: the race's own are what counts after it.
    found = judged(contest(timer.speeds), timer, budget=30.0, plan=TimePlan(Pace(0.1, 0.1), Pace(0.1, 0.1)))
    assert found.verdict == "inconclusive"
    assert found.reason == "the time was up before the win could be confirmed: --budget 55s would do"
    assert found.us["a"] == pytest.approx(50.0)


def test_the_confirmation_has_as_many_blocks_as_there_is_time_for() -> None:
    timer = Scripted({BASE: (1.0,), "a": (2.0,)})
    assert judged(contest(timer.speeds), timer, budget=24 + 36.0).verdict == "win"
    assert timer.blocks("confirm") == 18


def test_a_confirmation_ends_so_early_that_what_wins_can_be_shipped() -> None:
    timer = Scripted({BASE: (1.0,), "a": (2.0,)})
    assert judged(contest(timer.speeds), timer, budget=70.0, plan=replace(SECONDS, shipping=10.0)).verdict == "win"
    assert len(timer.calls) == 60


def test_a_race_that_the_deadline_cuts_off_ends_it_without_a_verdict() -> None:
    timer = Scripted({BASE: (1.0,), "a": (2.0,)}, out_of_time_at=5)
    found = judged(contest(timer.speeds), timer)
    assert (found.verdict, found.winner) == ("inconclusive", None)


def test_a_confirmation_that_the_deadline_cuts_off_says_how_far_it_came_and_nothing_else() -> None:
    timer = Scripted({BASE: (1.0,), "a": (2.0,)}, out_of_time_at=11)
    found = judged(contest(timer.speeds, chosen="a"), timer, budget=13.0)
    assert (found.verdict, found.winner) == ("inconclusive", None)
    words = "the time was up: the confirmation ended after 5 of its 6 blocks; --budget "
    assert found.reason.startswith(words)
    assert found.reason.endswith("s would do")


@pytest.mark.parametrize(("speed", "verdict"), [(0.5, "no-winner"), (1.5, "inconclusive")])
def test_a_confirmation_that_the_deadline_cuts_off_still_tells_what_is_slower(speed: float, verdict: str) -> None:
    timer = Scripted({BASE: (1.0,), "a": (speed,)}, out_of_time_at=17)
    found = judged(contest(timer.speeds, chosen="a"), timer, budget=20.0)
    assert (found.verdict, found.winner) == (verdict, None)
    if verdict == "no-winner":
        assert found.reason == "8 fresh blocks give 0.500 (0.500 to 0.500) when the time was up: it is slower"


def test_a_user_who_stops_a_confirmation_gets_no_verdict_of_what_is_slower_either() -> None:
    timer = Scripted({BASE: (1.0,), "a": (0.5,)}, stop_at=17)
    assert judged(contest(timer.speeds, chosen="a"), timer, budget=20.0).verdict == "inconclusive"


def test_a_winner_that_fails_while_it_is_confirmed_is_not_told_to_lack_blocks() -> None:
    timer = Scripted({BASE: (1.0,), "a": (2.0, 2.0, 0.0)})
    found = judged(contest(timer.speeds, chosen="a"), timer, budget=20.0)
    assert found.reason == "the winner failed in block 3: a crashed"


def test_a_deadline_in_the_second_screening_is_told() -> None:
    speeds = {BASE: (1.0,), **{f"c{i}": (1.1,) for i in range(8)}}
    screened = tuple(Screened(name, 1.0) for name in speeds)
    found = judged(contest(speeds, screened=screened, places=2), Scripted(speeds, out_of_time_at=2))
    assert (found.verdict, found.reason) == ("inconclusive", "the time was up before anything could be told")


@pytest.mark.parametrize("at", [7, 24 + 7])
def test_a_user_who_stops_it_gets_no_verdict_and_no_advice(at: int) -> None:
    timer = Scripted({BASE: (1.0,), "a": (2.0,)}, stop_at=at)
    found = judged(contest(timer.speeds), timer)
    assert (found.verdict, found.winner) == ("inconclusive", None)
    assert "--budget" not in found.reason
    assert len(timer.calls) < at + 3


def test_a_failing_entrant_leaves_and_a_failing_baseline_is_the_devices_fault() -> None:
    speeds = {BASE: (1.0,), "a": (1.5,), "b": (2.0, 0.0)}
    assert judged(contest(speeds), Scripted(speeds)).winner == "a"
    with pytest.raises(DeviceError, match=r"the baseline stopped working.*base crashed"):
        judged(contest(speeds), Scripted({**speeds, BASE: (1.0, 1.0, 0.0)}))


def test_who_is_chosen_elsewhere_is_only_confirmed() -> None:
    timer = Scripted({BASE: (1.0,), "a": (1.5,)})
    found = judged(contest(timer.speeds, chosen="a", confirm_blocks=10), timer)
    assert (found.verdict, found.winner, found.raced) == ("win", "a", None)
    assert {phase for phase, _, _ in timer.rows} == {"confirm"}
    assert timer.blocks("confirm") == 10


def test_a_confirmation_alone_has_as_many_blocks_as_there_is_time_for() -> None:
    timer = Scripted({BASE: (1.0,), "a": (1.5,)})
    found = judged(contest(timer.speeds, chosen="a", confirm_blocks=10), timer, budget=17.0)
    assert (found.verdict, timer.blocks("confirm")) == ("win", 8)
    timer = Scripted({BASE: (1.0,), "a": (1.5,)})
    found = judged(contest(timer.speeds, chosen="a", confirm_blocks=10), timer, budget=7.0)
    assert (found.verdict, found.speedup, timer.calls) == ("inconclusive", None, [])
    assert found.reason.startswith("no verdict fits: the shortest comparison takes about 12 s, with 7 s left:")


def test_a_race_that_is_not_won_still_shows_the_ratio() -> None:
    timer = Scripted({BASE: (1.0,), "a": (0.5,)})
    found = judged(contest(timer.speeds), timer)
    assert (found.verdict, found.speedup) == ("no-winner", None)
    shown = found.shown("a", BASE)
    assert shown is not None
    assert shown.median == pytest.approx(0.5)


@pytest.mark.parametrize("role", ["baseline", "stock", "chosen", "favourite"])
def test_a_contest_about_somebody_who_does_not_take_part_is_refused(role: str) -> None:
    made = contest({BASE: (1.0,), "a": (1.0,)})
    with pytest.raises(ValueError, match="no entrants: x"):
        replace(made, **{role: "x"})  # type: ignore[arg-type]


# --- lead ----------------------------------------------------------------------------------------------------------


def led(timer: Scripted, *, budget: float = math.inf) -> Judgement:
    clock = TimerClock(budget, timer=timer)
    return lead(contest(timer.speeds), Takes.alike(timer), clock=clock, stop=timer.stop, record=timer.record)


def test_a_lead_is_the_best_of_a_few_blocks_and_no_verdict() -> None:
    timer = Scripted({BASE: (1.0,), "a": (1.2,), "b": (1.5, 1.5, 1.1)})
    found = led(timer)
    assert (found.verdict, found.winner, found.leader) == ("inconclusive", None, "b")
    assert found.reason == "1.50x side by side with the default, not raced"
    assert len(timer.calls) == 3 * LEAD_BLOCKS
    assert found.us[BASE] == pytest.approx(100.0)


def test_a_lead_is_taken_within_blocks_so_drift_cancels() -> None:
    # The device gets slower by half while it goes on; side by side, `a` is always 10 % faster.
    drift = (1.0, 0.9, 0.8, 0.7, 0.6)
    found = led(Scripted({BASE: drift, "a": tuple(1.1 * speed for speed in drift)}))
    assert found.reason.startswith("1.10x")


def test_none_ahead_is_no_winner() -> None:
    found = led(Scripted({BASE: (1.0,), "a": (1.005,), "b": (0.5,)}))
    assert (found.verdict, found.leader) == ("no-winner", None)


def test_a_lead_goes_without_those_that_crash_but_not_without_the_baseline() -> None:
    assert led(Scripted({BASE: (1.0,), "a": (1.2,), "b": (2.0, 0.0)})).leader == "a"
    with pytest.raises(DeviceError):
        led(Scripted({BASE: (0.0,), "a": (1.2,)}))


def test_a_lead_keeps_the_blocks_that_there_was_time_for() -> None:
    timer = Scripted({BASE: (1.0,), "a": (1.2,)})
    assert led(timer, budget=3.0).leader == "a"
    assert timer.blocks("race") == 2
    assert led(Scripted({BASE: (1.0,), "a": (1.2,)}, out_of_time_at=5)).leader == "a"


def test_without_a_single_block_nobody_leads_and_nothing_is_claimed() -> None:
    found = led(Scripted({BASE: (1.0,), "a": (1.2,)}, out_of_time_at=1))
    assert (found.verdict, found.leader) == ("inconclusive", None)
    assert "time was up" in found.reason


def test_flags_that_were_timed_beside_a_winner_may_win_in_its_place_where_they_hold_alone() -> None:
    timer = Scripted({BASE: (1.0,), STOCK: (2.0,), "a": (3.0,)})
    won = judged(contest(timer.speeds), timer)
    assert won.winner == "a"
    simple = won.of_stock(baseline=BASE, rules=Rules(), label="route x")
    assert simple is not None
    assert (simple.verdict, simple.winner, simple.over_stock) == ("win", STOCK, SAME)
    assert simple.speedup is not None
    assert simple.speedup.median == pytest.approx(2.0)
    assert simple.reason == "fresh blocks give 2.000 (2.000 to 2.000) for route x"
    assert won.of_stock(baseline=BASE, rules=Rules(smallest_gain=1.5), label="") is None
    assert simple.of_stock(baseline=BASE, rules=Rules(), label="") is None, "it is the winner"
