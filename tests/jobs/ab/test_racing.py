"""How far both arms of an experiment came."""

from __future__ import annotations

import pytest

from autotuner.jobs.ab.arms import DEFAULT
from autotuner.jobs.ab.racing import A, ArmRun, B, counts_of


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
