"""A warm-up lasts as long as is wanted, or until two windows are alike, but not for ever."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from autotuner.devices.child_base import needs_warming, warm_up

STEADY = {"window": 0.04, "within": 0.01, "most": 1.0}


def taken(seconds: Iterable[float], *, least: float, steady: dict[str, float] | None) -> int:
    """How many calls of these seconds, each of two executions, a warm-up makes."""
    calls: Iterator[float] = iter(seconds)
    made = 0

    def call() -> tuple[float, int]:
        nonlocal made
        made += 1
        return next(calls), 2

    warm_up(call, least=least, steady=steady)
    return made


def test_it_lasts_so_long_and_no_longer() -> None:
    assert taken([0.25] * 9, least=1.0, steady=None) == 4
    assert taken([0.25] * 9, least=0.0, steady=None) == 0
    assert taken([0.25] * 9, least=-0.5, steady=None) == 0


def test_it_ends_when_two_windows_are_alike() -> None:
    """The device slows down, and comes to a lasting state with the fourth call."""
    assert taken([0.040, 0.044, 0.047, 0.048, 0.048, 0.048], least=0.0, steady=STEADY) == 5


def test_a_device_that_never_comes_to_rest_is_not_waited_for() -> None:
    assert taken([0.1 * 1.1**n for n in range(50)], least=0.0, steady=STEADY) == 8
    assert taken([2.0] * 9, least=0.0, steady=STEADY) == 1


def test_a_call_ten_times_as_long_as_its_warm_up_needs_none() -> None:
    assert needs_warming(0.0, 0.05), "of which nothing is known"
    assert needs_warming(0.49, 0.05)
    assert not needs_warming(0.5, 0.05)
