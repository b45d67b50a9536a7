"""The budget of a run: what the search leaves, what fits, and which budget would do; by numbers alone."""

from __future__ import annotations

import ast
import math
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import autotuner
from autotuner.errors import OutOfTimeError
from autotuner.measure.blocks import BlockTimes
from autotuner.measure.clock import SHARES, Phase, longer, share_of
from autotuner.measure.judge import PAIRS
from autotuner.measure.judgement import Judgement
from autotuner.measure.schedule import LEADERS, BeginningError, Schedule, beginning, late
from autotuner.system.progress import LEAST_BUDGET
from tests.support.clocks import Simulated as At


def schedule(budget: float = 100.0, now: float = 0.0, *, part: bool = False, **how: float) -> Schedule:
    made = Schedule(At(budget, part=part, now=now), timing=0.3, fresh=0.6, lasting=0.02)
    return replace(made, **how)  # type: ignore[arg-type]


SECONDS = st.floats(0.001, 50.0)
ANY = st.builds(
    lambda timing, fresh, shipping, building, slow, fast: schedule(
        timing=timing,
        fresh=fresh,
        shipping=shipping,
        building=building,
        baseline_us=1e6 * max(slow, fast),
        best_us=1e6 * min(slow, fast),
    ),
    *[SECONDS] * 6,
)


@given(ANY, st.floats(0.0, 5000.0))
def test_the_search_leaves_what_a_verdict_needs_and_never_more_than_there_is(one: Schedule, left: float) -> None:
    kept = one.reserve(left)
    assert kept <= max(left, one.shipping) + 1e-6
    if one.least <= 0.5 * left:
        assert kept >= one.least - 1e-6


@given(ANY)
def test_more_certainty_takes_no_less_time(one: Schedule) -> None:
    assert one.least <= one.enough <= one.full


@given(ANY, st.floats(1.0, 1000.0), st.floats(0.0, 1000.0))
def test_more_time_never_means_fewer_entrants(one: Schedule, left: float, more: float) -> None:
    less, longer_one = (replace(one, clock=At(left + extra)) for extra in (0.0, more))
    assert 1 <= less.racing <= longer_one.racing <= 2 * one.entrants


def test_a_long_run_keeps_no_more_than_the_end_takes_and_a_short_one_most_of_it_for_the_verdict() -> None:
    one = schedule()
    assert one.reserve(1000.0) < 0.1 * 1000
    assert one.reserve(15.0) > 0.3 * 15
    # An H200: 0.23 s a timing of the race, 0.75 s a process; eight seconds until the default is timed.
    assert schedule(timing=0.23, fresh=0.75, shipping=6.0).reserve(92.0) <= 0.42 * 92


def test_rivals_of_a_slow_baseline_are_faster_to_time() -> None:
    slow = schedule(timing=17.0, fresh=17.5, baseline_us=17e6, best_us=0.5e6)
    assert slow.rival == pytest.approx(0.5)
    assert slow.pair == pytest.approx(17.5 + 1.0)


def test_a_call_that_is_a_measurement_by_itself_is_counted_once_and_a_short_one_four_times() -> None:
    one = schedule(timing=4.0, baseline_us=1e6, best_us=0.1e6)
    assert one.rival == pytest.approx(3.0 + 4 * 0.1)


def test_where_nothing_is_judged_the_end_is_one_short_comparison() -> None:
    one = schedule(judges=False)
    assert one.least == one.enough == one.full == one.comparing
    assert one.leading() == LEADERS
    assert schedule(5.0, 4.0, judges=False).leading() == 1


@pytest.mark.parametrize(("left", "late"), [(30.0, False), (1.0, False), (-9.0, True)])
def test_a_verdict_that_fits_a_little_late_is_still_reached(left: float, late: bool) -> None:
    one = schedule(100.0, 100.0 - left, fresh=0.4, timing=0.2)
    assert one.too_late() is late


SECOND = schedule(1000.0, timing=1.0, fresh=2.0, building=3.0, shipping=5.0)
"""A pair of timings takes four of them, a block of eight rivals nine."""


def test_what_the_end_takes_adds_up() -> None:
    assert (SECOND.least, SECOND.enough, SECOND.full) == (23.0, 43.0, 43.0 + 9 * 3.0 + 8 * 9.0)
    assert SECOND.reserve(1000.0) == pytest.approx(5.0 + 1.2 * 137.0)
    assert SECOND.reserve(100.0) == pytest.approx(5.0 + 1.2 * 38.0)


def test_the_search_ends_when_the_verdict_begins_and_a_race_only_if_nobody_is_awaited() -> None:
    clock, one = SECOND.clock, SECOND.opened()
    assert math.isinf(SECOND.search_ends(rival=True, awaited=False))
    assert clock.until(one.search_ends(rival=False, awaited=False)) == pytest.approx(1000.0)
    assert clock.until(one.search_ends(rival=True, awaited=False)) == pytest.approx(1000.0 - 169.4)
    assert clock.until(one.search_ends(rival=True, awaited=True)) == pytest.approx(1000.0 - 50.6)
    assert clock.until(one.tuning_ends(10.0)) == pytest.approx(1000.0 - 50.6 - 20.0)
    assert one.kept_of(50.0) == pytest.approx(0.6 * 50.0)


def test_a_candidate_that_hangs_has_a_quarter_of_the_search_and_never_less_than_two_timings() -> None:
    clock = SECOND.clock
    assert clock.until(SECOND.given_up(clock.at(100.0))) == pytest.approx(25.0)
    assert clock.until(SECOND.given_up(clock.at(4.0))) == pytest.approx(2.0)


def test_the_best_is_no_slower_than_the_default() -> None:
    one = schedule().ahead(baseline_us=2.0, best_us=3.0)
    assert (one.baseline_us, one.best_us) == (2.0, 2.0)
    assert schedule().ahead(baseline_us=2.0, best_us=1.0).best_us == 1.0


def test_a_rival_that_is_still_to_be_built_may_come_too_late() -> None:
    assert not replace(SECOND, clock=At(20.0)).too_late()
    assert not replace(SECOND, clock=At(25.0)).too_late(5.0)
    assert replace(SECOND, clock=At(25.0)).too_late(6.0)


def test_as_many_are_compared_as_the_time_allows() -> None:
    assert schedule(40.0, timing=2.0, judges=False).leading() == 3
    assert schedule(40.0, timing=0.0, judges=False).leading() == LEADERS


def test_a_budget_that_no_verdict_fits_into_says_what_it_takes_and_what_would_do() -> None:
    one = schedule(20.0, 19.0, fresh=4.0, shipping=5.0)
    words = one.too_short()
    assert words.startswith("ran out of time: a comparison needs 29 s. Try --budget ")
    wanted = int(words.rsplit("--budget ", 1)[1].removesuffix("s"))
    assert 19 + one.enough <= wanted <= 2 * (19 + one.enough)


def test_what_would_do_is_a_round_number_with_some_air_and_a_part_names_none() -> None:
    assert longer(61.0) == "Try --budget 75s"
    assert longer(61.0, part=True) == "Try a longer --budget"
    assert schedule(part=True).would_do(10.0) == "Try a longer --budget"
    assert schedule(math.inf, 10.0).would_do(10.0) == "Try --budget 25s"
    assert schedule(100.0, 10.0).would_do(10.0) == "Try --budget 120s"


def test_only_what_time_may_change_is_told_a_budget() -> None:
    one = schedule(30.0, 29.0)
    open_one = Judgement("inconclusive", "the time was up", "base", out_of_time=True)
    assert one.with_advice(open_one).reason.startswith("the time was up. Try --budget ")
    half_done = replace(open_one, confirmed=BlockTimes({"base": (1.0,) * 20}))
    assert one.with_advice(half_done).reason == f"the time was up. {longer(29.0 + 40 * one.pair)}"
    settled = replace(open_one, out_of_time=False)
    assert one.with_advice(settled) is settled


def test_a_verdict_can_be_counted_on_in_about_eight_pairs() -> None:
    one = schedule(shipping=3.0, building=1.0)
    assert one.enough == pytest.approx(PAIRS * one.pair + 3.0 + 2.0)
    assert schedule(100.0, 60.0, shipping=25.0).judging() == pytest.approx(16.5)
    for left, kept in ((15.0, 0.0), (600.0, 8.0)):  # for a cold cache, where the run is not short
        assert schedule(left, shipping=2.0).with_cold(8.0).shipping == 2.0 + kept


# --- phases and parts ----------------------------------------------------------------------------------------------


@given(st.sampled_from(sorted(SHARES)), st.floats(1.0, 1000.0), st.floats(0.0, 1200.0))
def test_a_phase_ends_after_its_share_of_what_is_left_and_within_the_budget(
    name: Phase, budget: float, now: float
) -> None:
    clock = At(budget, now=now)
    assert clock.until(clock.phase(name)) == pytest.approx(SHARES[name] * max(budget - now, 0.0), abs=1e-6)
    assert clock.phase(name) <= max(clock.end, clock.at(now)) + 1e-6
    assert math.isinf(At(math.inf).phase(name))


LEASTS = st.sampled_from([0.0, LEAST_BUDGET, 30.0])


@given(st.lists(st.floats(0.0, 100.0), min_size=1, max_size=9), st.floats(1.0, 500.0), LEASTS)
def test_what_a_part_leaves_the_others_have(shares: list[float], end: float, least: float) -> None:
    """Whatever their shares, together they end in time; and the last has all that is left."""
    clock, shares = At(1e6), sorted(shares, reverse=True)
    for number in range(len(shares)):
        seconds = clock.turn(shares[number:], before=clock.at(end), least=least, first=number == 0)
        assert 0.0 <= seconds <= clock.until(clock.at(end)) + 1e-6
        if number == len(shares) - 1 and clock.until(clock.at(end)) > LEAST_BUDGET:
            assert seconds == pytest.approx(clock.until(clock.at(end)))
        clock.now += seconds


@pytest.mark.parametrize(
    ("seconds", "shares", "least", "own"),
    [
        (200.0, [98.0, 1.0, 1.0], 30.0, 140.0),
        (70.0, [50.0, 30.0, 20.0], 30.0, 40.0),
        (20.0, [60.0, 40.0], 20.0, 20.0),
        (20.0, [60.0, 40.0], 30.0, 0.0),
        (-1.0, [60.0, 40.0], 30.0, 0.0),
        (90.0, [1.0, 1.0, 1.0], 0.0, 30.0),
        (math.inf, [1.0, 1.0], 0.0, math.inf),
    ],
)
def test_small_shares_keep_the_least_and_the_large_one_has_the_rest(
    seconds: float, shares: list[float], least: float, own: float
) -> None:
    assert share_of(seconds, shares, least=least) == pytest.approx(own)


def test_in_less_than_the_least_budget_only_the_first_part_begins_and_without_one_each_has_no_end() -> None:
    clock = At(100.0, now=97.0)
    assert clock.turn([1.0, 1.0], before=clock.end, first=True) == pytest.approx(1.5)
    assert clock.turn([1.0], before=clock.end) == 0.0
    assert math.isinf(At(math.inf).turn([1.0, 1.0], before=math.inf))


def test_what_was_to_be_over_before_a_moment_is_given_up_a_little_later_and_never_after_the_end() -> None:
    clock = At(100.0)
    assert clock.until(clock.given_up(clock.at(20.0))) == pytest.approx(22.0)
    assert clock.given_up(clock.at(99.0)) == clock.end


# --- who computes with a budget ----------------------------------------------------------------------------------


COMPUTED = {
    "clock": ("budget", "started", "elapsed", "left", "end", "latest", "proven"),
    **dict.fromkeys(("options", "effort", "manifest", "here"), ("budget",)),
}
"""Whose seconds are a budget's: the schedule's own."""


def computes(tree: ast.AST) -> list[str]:
    """Where seconds of a budget are added, multiplied, divided or changed."""
    return [
        ast.unparse(node)
        for node in ast.walk(tree)
        if isinstance(node, (ast.BinOp, ast.AugAssign, ast.UnaryOp)) and any(map(_seconds, _operands(node)))
    ]


def _operands(node: ast.BinOp | ast.AugAssign | ast.UnaryOp) -> list[ast.AST]:
    """What it computes with, also as the least or the largest of some."""
    names = [getattr(node, name) for name in ("left", "right", "operand", "target", "value") if hasattr(node, name)]
    return [leaf for one in names for leaf in (one.args if isinstance(one, ast.Call) else _any_of(one))]


def _any_of(node: ast.AST) -> list[ast.AST]:
    return [*node.values] if isinstance(node, ast.BoolOp) else [node]


def _seconds(node: ast.AST) -> bool:
    if not isinstance(node, ast.Attribute):
        return False
    owner = node.value.attr if isinstance(node.value, ast.Attribute) else getattr(node.value, "id", "")
    return node.attr in COMPUTED.get(owner, ())


def test_nobody_but_the_schedule_computes_with_a_budget() -> None:
    package = Path(autotuner.__file__).parent
    own = [package / "measure" / f"{name}.py" for name in ("clock", "schedule")]
    found = {file: computes(ast.parse(file.read_text())) for file in package.rglob("*.py")}
    assert sum(len(found.pop(file)) for file in own) >= 5, "what is looked for is found where it is"
    assert {file.name: lines for file, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    "line",
    [
        "self.clock.left - kept",
        "share * run.clock.budget",
        "clock.started -= 1",
        "(options.budget or options.effort.budget) / 2",
        "max(self.clock.left, 0.0) / 3",
    ],
)
def test_whoever_computes_with_a_budget_is_found(line: str) -> None:
    assert computes(ast.parse(line)) == [line]


# --- before the default is timed --------------------------------------------------------------------------------


def test_what_was_under_way_first_is_what_is_said_with_a_budget_that_would_do() -> None:
    with (
        pytest.raises(BeginningError, match="the first had not ended after 0 s") as found,
        beginning("it"),
        beginning("the first"),
    ):
        raise OutOfTimeError
    clock = At(30.0, now=31.0)
    assert late(found.value, clock) == f"{found.value.message}. {longer(120.0)}"
    assert late(OutOfTimeError(), clock) == f"ran out of time. {longer(60.0)}"
