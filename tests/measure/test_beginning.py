"""What is said where the time is up before IREE's default is timed."""

from __future__ import annotations

import re
import time

import pytest

from autotuner.errors import OutOfTimeError
from autotuner.measure.beginning import Beginning, BeginningError, late, timing_default
from autotuner.system.progress import Clock
from autotuner.tuning.effort import parse_effort


@pytest.fixture(autouse=True)
def seconds(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What the clock says, from the first look on; its last look is the last of them."""
    looks = [0.0, 10.0]
    monkeypatch.setattr(time, "monotonic", lambda: looks.pop(0) if len(looks) > 1 else looks[0])
    return looks


def cut_off(beginning: Beginning, *, done: float) -> BeginningError:
    with pytest.raises(BeginningError) as caught, beginning.answering():
        raise OutOfTimeError(done=done)
    return caught.value


def test_how_long_the_right_answers_take_is_told_by_what_is_done_of_them(seconds: list[float]) -> None:
    beginning = Beginning(parse_effort("quick"), on_cores=False)
    half = cut_off(beginning, done=0.5)
    assert half.message.endswith(": the computation of the right answers had not ended after 10 s")
    seconds[:] = [0.0, 10.0]
    tenth = cut_off(beginning, done=0.1)
    assert tenth.left - half.left == pytest.approx(80.0)
    seconds[:] = [0.0, 10.0]
    assert cut_off(beginning, done=0.01).left < 200, "nobody can tell by a hundredth"


def test_on_a_processor_the_default_takes_about_as_long_as_the_answers(seconds: list[float]) -> None:
    there = cut_off(Beginning(parse_effort("quick"), on_cores=False), done=0.5)
    seconds[:] = [0.0, 10.0]
    here = cut_off(Beginning(parse_effort("quick"), on_cores=True), done=0.5)
    assert here.left > 2 * there.left


def test_the_budget_that_would_do_is_what_was_used_and_what_is_left() -> None:
    with pytest.raises(BeginningError) as caught, timing_default(90.0):
        raise OutOfTimeError
    clock = Clock(8.0, started=0.0)
    words = late(caught.value, clock)
    assert words == (
        "the time was up before IREE's default was timed: timing it had not ended after 10 s: --budget 120s would do"
    )
    assert late(caught.value, Clock(8.0, started=0.0, part=True)).endswith(": a longer --budget would do")
    assert re.fullmatch(r"the time was up: --budget \d+s would do", late(OutOfTimeError(), clock))


def test_what_was_under_way_first_is_what_is_said() -> None:
    first = Beginning(parse_effort("quick"), on_cores=True).calling()
    with pytest.raises(BeginningError, match="the first run of IREE's default"), timing_default(1.0), first:
        raise OutOfTimeError
