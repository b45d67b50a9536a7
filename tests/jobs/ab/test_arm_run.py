"""How often an arm is repeated to be timed: by what it took before, where that still holds."""

from __future__ import annotations

import pytest

from autotuner.jobs.ab.arm_run import ArmRun, B
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
