"""An arm on its way: how often it is repeated to be timed, and how far both came."""

from __future__ import annotations

import pytest

from autotuner.jobs.ab.arm_run import A, ArmRun, B, counts_of
from autotuner.jobs.ab.arms import DEFAULT


@pytest.mark.parametrize(
    ("single", "before", "likely"),
    [
        (None, 50.0, None),
        (90.0, None, 90.0),
        (90.0, 50.0, 50.0),
        (590.0, 50.0, 50.0),
        (40.0, 50.0, 40.0),
        (601.0, 50.0, 601.0),
    ],
)
def test_a_single_call_is_mostly_overhead_so_the_time_of_before_counts_unless_it_no_longer_fits(
    single: float | None, before: float | None, likely: float | None
) -> None:
    assert ArmRun(B, DEFAULT, expected_us=before, us=single).likely_us == likely


@pytest.mark.parametrize(
    ("us", "same_code", "timed", "duplicate"),
    [
        ((None, None), False, 0, 0),
        ((None, None), True, 0, 1),  # it was stopped before the first timing
        ((5.0, 4.0), False, 2, 0),
        ((5.0, 5.0), True, 1, 1),
    ],
)
def test_equal_code_is_counted_as_timed_once(
    us: tuple[float | None, float | None], same_code: bool, timed: int, duplicate: int
) -> None:
    sides = [ArmRun(A, DEFAULT, us=us[0]), ArmRun(B, DEFAULT, us=us[1], failure="wrong-result")]
    found = counts_of(sides, same_code=same_code)
    assert (found.asked, found.timed, found.duplicate, found.built, found.checked) == (2, timed, duplicate, 0, 0)
    assert (found.failed["wrong-result"], sum(found.failed.values())) == (1, 1)
