"""The plan for a run's time, by a clock that only what is planned advances."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotuner.devices.device import Timing
from autotuner.measure.blocks import Entrant
from autotuner.measure.judge import judge
from autotuner.measure.judgement import Contest, Judgement
from autotuner.measure.shortlist import Screened
from autotuner.measure.takes import Takes
from autotuner.measure.timeplan import (
    END_SHARE,
    LEAD_BLOCKS,
    LEADERS,
    LEAST_BLOCKS,
    SURE_BLOCKS,
    Pace,
    TimePlan,
    longer,
    usual_seconds,
)
from autotuner.system.progress import LATE_SECONDS, Stop
from tests.support.clocks import Simulated

BASE, STOCK = "base", "stock"
PLAN = TimePlan(Pace(0.2, 0.2), Pace(0.3, 0.3), screens=True, stock=True, building=0.2, shipping=2.0)
"""About what a small product takes on two cores."""

paces = st.builds(Pace, st.floats(0.05, 3.0), st.floats(0.05, 3.0))
plans = st.builds(
    TimePlan,
    paces,
    paces,
    rivals=st.integers(1, 12),
    screens=st.booleans(),
    blocks=st.integers(12, 48),
    stock=st.booleans(),
    building=st.floats(0.0, 1.0),
    shipping=st.floats(0.0, 30.0),
)


@given(plans, st.floats(0.0, 7200.0))
def test_the_search_leaves_what_a_verdict_needs_and_never_more_than_there_is(plan: TimePlan, left: float) -> None:
    reserve = plan.reserve(left)
    assert reserve <= max(left, plan.shipping) + 1e-6
    assert reserve >= min(plan.least, left) - 1e-6
    if plan.ending(left) is not None and left - reserve > LATE_SECONDS:
        assert plan.ending(reserve) is not None, "after the search there is still a way to a verdict"


@given(plans, st.floats(0.0, 1000.0), st.floats(0.0, 1000.0))
def test_more_time_never_means_a_less_thorough_end(plan: TimePlan, left: float, more: float) -> None:
    less, longer_one = plan.ending(left), plan.ending(left + more)
    if less is not None:
        assert longer_one is not None
        assert (longer_one.rivals, longer_one.beside, longer_one.blocks) >= (less.rivals, less.beside, less.blocks)
    assert plan.reserve(left + more) >= plan.reserve(left) - 1e-9


@given(plans, st.floats(0.0, 1000.0))
def test_what_is_planned_fits(plan: TimePlan, left: float) -> None:
    ending = plan.ending(left)
    if ending is not None:
        assert ending.seconds <= left - plan.shipping + LATE_SECONDS
        assert ending.blocks >= LEAST_BLOCKS
    else:
        assert plan.least > left


def test_a_short_run_leaves_out_the_race_first_then_the_stock_route_then_blocks() -> None:
    found = [PLAN.ending(left) for left in (1000.0, 60.0, 30.0, 12.0, 9.0, 7.0, 2.0)]
    assert [(one.rivals, one.beside, one.blocks) if one else None for one in found] == [
        (8, True, SURE_BLOCKS),
        (8, True, SURE_BLOCKS),
        (5, True, SURE_BLOCKS),
        (0, True, SURE_BLOCKS),
        (0, False, SURE_BLOCKS),
        (0, False, LEAST_BLOCKS),
        None,
    ]


def test_a_long_run_keeps_no_more_than_the_end_takes_and_a_short_one_most_of_it_for_the_verdict() -> None:
    assert PLAN.reserve(600.0) < 100.0
    assert PLAN.reserve(100.0) == pytest.approx(2.0 + END_SHARE * 98.0)
    assert PLAN.reserve(12.0) == pytest.approx(2.0 + 0.6 * 10.0)


def test_on_a_gpu_most_of_a_hundred_seconds_is_the_searchs() -> None:
    """An H200: 0.23 s a timing of the race, 0.75 s a process; eight seconds until the default is timed."""
    gpu = TimePlan(Pace(0.23, 0.23), Pace(0.75, 0.75), screens=True, building=0.1, shipping=9.0)
    left = 92.0
    assert left - gpu.reserve(left) > 0.16 * 300, "300 candidates of 0.16 s"
    ending = gpu.ending(gpu.reserve(left))
    assert ending is not None
    assert ending.rivals >= 2
    short = gpu.ending(gpu.reserve(30.0))
    assert short is not None, "and 40 s are enough for a verdict"


def test_where_nothing_is_judged_the_end_is_one_short_comparison() -> None:
    lead = replace(PLAN, judges=False)
    assert lead.full == lead.sound == lead.least
    assert lead.full >= LEAD_BLOCKS * (LEADERS + 1) * 0.2
    assert [lead.lead_rivals(left) for left in (0.0, 2.0, 4.0)] == [1, 1, 3]


def test_rivals_of_a_slow_baseline_are_faster_to_time() -> None:
    slow = Pace.of(1.0, baseline_us=200_000.0, best_us=10_000.0, lasting=0.02)
    assert slow.baseline == 1.0
    assert slow.rival == pytest.approx(0.28)
    quick = Pace.of(0.3, baseline_us=500.0, best_us=100.0, lasting=0.02)
    assert quick.rival == quick.baseline


def test_what_would_do_is_a_round_number_with_some_air() -> None:
    assert longer(40.0) == "--budget 50s would do"


@pytest.mark.parametrize(("best", "most"), [(16.0, 2590), (8.0, 905), (4.0, 245), (0.7, 170)])
@pytest.mark.parametrize("slower", [1.0, 1.15])
def test_the_budget_that_would_do_for_a_slow_model_suffices_and_is_not_many_times_that(
    best: float, most: int, slower: float
) -> None:
    """A default of 17 s a call, and what was found takes `best` seconds: at 72 s of 90."""
    pace = Pace.on_open_device(baseline_us=17e6, best_us=best * 1e6, lasting=0.1)
    plan = TimePlan(pace, pace, rivals=1, shipping=4.0, ahead=17.0 / best)
    words = plan.too_short(Simulated(90.0, now=72.0)).rpartition("--budget ")[2]
    named = int(words.removesuffix("s would do"))
    clock = Simulated(float(named), now=72.0)

    def take(pace: Pace, name: str) -> Timing:
        clock.now += slower * (pace.baseline if name == BASE else pace.rival)
        return Timing((17e6 if name == BASE else best * 1e6,))

    whole, brief = (lambda name: take(pace, name)), (lambda name: take(pace.brief, name))
    contest = Contest((Entrant(BASE), Entrant("a")), BASE, BASE, confirm_blocks=plan.blocks, favourite="a")
    found = judge(contest, Takes(whole, whole, brief, brief), clock=clock, stop=Stop(), plan=plan)
    assert found.verdict == "win", found.reason
    assert named <= most
    assert plan.would_do(clock, undecided=True) == longer(max(clock.elapsed + plan.sound, named))


def test_a_part_of_a_longer_run_names_no_budget_that_nobody_gave() -> None:
    plan = TimePlan(Pace(1.0, 1.0), Pace(1.0, 1.0))
    words = plan.too_short(Simulated(5.0, part=True))
    assert words.endswith("with 5 s left: a longer --budget would do")
    assert "a longer" not in plan.too_short(Simulated(5.0))
    assert plan.fewer(9, Simulated(5.0, part=True), beside=False).endswith("a longer --budget has time for 24")


def run(plan: TimePlan, clock: Simulated, *, speed: float, slower: float) -> Judgement:
    """A search that goes on as long as it may, and the judge after it; timings take `slower` times what was planned."""
    clock.now = max(clock.now, clock.budget - plan.reserve(clock.left))
    clock.now += 3 * plan.building
    names = [BASE, STOCK, *(f"c{n}" for n in range(6))]
    speeds = {name: speed if name == "c5" else 1.0 for name in names}

    def take(pace: Pace, name: str) -> Timing:
        clock.now += slower * (pace.baseline if name == BASE else pace.rival)
        return Timing((100 / speeds[name],) * 3)

    takes = Takes(lambda name: take(plan.race, name), lambda name: take(plan.confirm, name))
    contest = Contest(
        tuple(Entrant(name) for name in names),
        BASE,
        STOCK,
        confirm_blocks=plan.blocks,
        screened=tuple(Screened(name, 100 / speeds[name]) for name in names),
        places=plan.rivals,
    )
    found = judge(contest, takes, clock=clock, stop=Stop(), plan=plan)
    if found.winner is not None:
        clock.now += plan.shipping
    return found


@settings(deadline=None)
@given(
    plans.filter(lambda plan: plan.shipping < 10),
    st.floats(0.0, 600.0),
    st.sampled_from([0.9, 1.0, 1.2]),
    st.floats(0.9, 1.1),
)
def test_a_run_ends_in_a_verdict_where_one_fits_and_keeps_its_budget(
    plan: TimePlan, left: float, speed: float, slower: float
) -> None:
    plan = replace(plan, screens=True, stock=True)
    clock = Simulated(10.0 + left, now=10.0)
    possible = left >= 1.3 * plan.least + 3 * plan.building
    found = run(plan, clock, speed=speed, slower=slower)
    if possible:
        assert found.verdict == ("win" if speed > 1 else "no-winner"), found.reason
    if found.verdict == "inconclusive":
        assert "--budget" in found.reason
    assert clock.now <= clock.budget + 10.0


def test_a_slow_default_far_behind_is_timed_by_fewer_calls_where_time_is_short() -> None:
    first = TimePlan(Pace(1.2, 1.2), Pace(1.2, 1.2), shipping=2.0)
    slow = first.paced(baseline_us=240_000.0, best_us=240_000.0, lasting=0.04)
    fast = first.paced(baseline_us=240_000.0, best_us=13_000.0, lasting=0.04)
    assert slow.least == pytest.approx(2.0 + 6 * 2.4)
    # Starting 0.24 s each; two calls of 0.24 s, and two of 0.04 s.
    brief = 2 * 0.24 + 2 * 0.24 + 2 * 0.04
    assert fast.least == pytest.approx(2.0 + 2 * (0.24 + 2 * 0.24) + 9 * (0.24 + 2 * 0.04))
    assert replace(fast, known=1).least == pytest.approx(fast.least - (0.24 + 2 * 0.24))
    few = fast.ending(7.0)
    assert few is not None
    assert few.few
    assert slow.ending(10.0) is None
    ending = fast.ending(2.0 + 6 * brief)
    assert ending is not None
    assert (ending.rivals, ending.blocks, ending.brief, ending.few) == (0, LEAST_BLOCKS, True, False)
    long = fast.ending(60.0)
    assert long is not None
    assert not long.brief


def test_a_long_default_is_not_counted_as_dear_as_it_was_listened_to() -> None:
    """Five repetitions and a warm-up of 0.12 s, where a timing of the end has three; 0.1 s to start."""
    assert usual_seconds(0.1 + 6 * 0.12, calls=6, before=0.12, then=0.12) == pytest.approx(0.1 + 4 * 0.12)
    assert usual_seconds(0.1 + 6 * 0.02, calls=6, before=0.02, then=0.04) == pytest.approx(0.1 + 4 * 0.04)


def test_what_one_repetition_spares_is_known_of_measured_timings_too() -> None:
    """So two arms of which one is far ahead have a verdict where there is no time for blocks."""
    pace = Pace.timed(1.6, 0.25, baseline_us=520_000.0, best_us=28_000.0, lasting=0.05)
    assert (pace.brief.baseline, pace.brief.rival) == pytest.approx((1.6 - 2 * 0.52, 0.15))
    plan = TimePlan(pace, pace, rivals=1, ahead=18.0)
    assert plan.ending(2.6) is not None
    short = Pace.timed(0.03, 0.02, baseline_us=10.0, best_us=10.0, lasting=0.05)
    assert 0 < short.brief.rival < short.rival


def test_what_a_timing_takes_on_an_open_device_follows_from_single_calls() -> None:
    """Of 0.6 s and 0.012 s where a repetition lasts 0.05 s: the long one needs no warm-up."""
    pace = Pace.on_open_device(baseline_us=600_000.0, best_us=12_000.0, lasting=0.05)
    assert pace.block(1) == pytest.approx(3 * 0.6 + 4 * 0.05)
    assert pace.brief.block(1) == pytest.approx(0.6 + 2 * 0.05)
