"""When a race and its confirmation end, by a clock that the test advances."""

from __future__ import annotations

import math

import pytest

from autotuner.measure.blocks import LOOKS
from autotuner.measure.deadlines import ConfirmDeadline, RaceDeadline
from autotuner.measure.timeplan import FAR_AHEAD, LEAST_BLOCKS, TELL, Pace, TimePlan
from autotuner.system.progress import Stop
from tests.support.clocks import Simulated


def test_a_race_leaves_what_its_confirmation_needs_before_its_first_look_and_more_after_it() -> None:
    plan = TimePlan(Pace(1.0, 1.0), Pace(1.0, 1.0), rivals=1, shipping=5.0)
    clock = Simulated(60.0)
    over = RaceDeadline(clock, Stop(), plan, left=60.0, block=2.0)
    clock.now = 60 - 5 - 1.1 * 2 * LEAST_BLOCKS - 2.1
    assert [over() for _ in range(LOOKS[0] + 1)] == [False] * LOOKS[0] + [True]
    late = RaceDeadline(Simulated(60.0, now=45.0), Stop(), plan, left=60.0, block=2.0)
    assert late()


def test_an_endless_budget_ends_no_race() -> None:
    plan = TimePlan(Pace(1.0, 1.0), Pace(1.0, 1.0))
    over = RaceDeadline(Simulated(math.inf), Stop(), plan, left=math.inf, block=2.0)
    assert not any(over() for _ in range(LOOKS[-1]))


@pytest.mark.parametrize(("ahead", "ends"), [(FAR_AHEAD, True), (FAR_AHEAD - 0.1, False)])
def test_a_confirmation_of_what_is_far_ahead_ends_when_there_is_no_time_for_one_more(ahead: float, ends: bool) -> None:
    clock = Simulated(60.0, now=20.0)
    over = ConfirmDeadline(
        clock, Stop(), TimePlan(Pace(1.0, 1.0), Pace(1.0, 1.0), shipping=5.0, ahead=ahead), began=20.0
    )
    assert not any(over() for _ in range(TELL)), "so many tell nothing yet"
    clock.now = 20.0 + 12.0 * TELL
    assert over() == ends, "a block took 12 s, and 16 s are left with shipping"


def test_a_stopped_confirmation_ends() -> None:
    stop = Stop()
    over = ConfirmDeadline(Simulated(60.0), stop, TimePlan(Pace(1.0, 1.0), Pace(1.0, 1.0)), began=0.0)
    assert not over()
    stop.request()
    assert over()
