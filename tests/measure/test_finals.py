"""Who is put before the judge; and where nothing can race, what the verdict rests on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import pytest

from autotuner.iree.compile import FailureClass
from autotuner.measure.finals import Finals
from autotuner.measure.schedule import Schedule
from autotuner.measure.standing import BASELINE, Kind
from tests.support.clocks import Simulated


@dataclass(frozen=True)
class Tried:
    """A candidate that was tried, as far as a verdict without a race looks at it."""

    id: str
    failure: FailureClass | None = None
    us: float | None = None
    kind: Kind = "codegen"
    route_name: str = ""
    label: str = ""
    complexity: int = 1
    foreign: bool = False
    duplicate_of: str | None = None
    error: float | None = None

    @property
    def contends(self) -> bool:
        return self.us is not None


def finals(*tried: Tried, left: float = 0.0, part: bool = False) -> Finals[Tried]:
    known = {one.id: one for one in (Tried(BASELINE, us=1.0, kind="baseline"), *tried)}
    schedule = Schedule(Simulated(30.0, part=part, now=30.0 - left), 0.1, 0.1)
    unused = cast(Any, None)
    return Finals(known, unused, unused, schedule, unused, 0, unused, unused, unused, whole=False)


@pytest.mark.parametrize(
    ("left", "part", "reason"),
    [
        (11.4, False, "Try --budget 75s"),
        (-5.0, False, "Try --budget 75s"),
        (-5.0, True, "Try a longer --budget"),
    ],
)
def test_nothing_tried_is_inconclusive_with_what_was_left(left: float, part: bool, reason: str) -> None:
    found = finals(left=left, part=part).nothing_to_judge()
    assert (found.verdict, found.reason) == ("inconclusive", f"ran out of time before a candidate was timed. {reason}")


def test_what_failed_is_counted_and_nothing_else_is_claimed() -> None:
    found = finals(Tried("c1", "compile-error"), Tried("c2", "compile-error")).nothing_to_judge()
    assert found.verdict == "no-winner"
    assert found.reason == "all 2 candidates failed (compile-error 2)"


def test_what_ran_out_of_its_own_time_is_slow_and_no_failure() -> None:
    found = finals(Tried("c1", "run-timeout")).nothing_to_judge()
    assert (found.verdict, found.cause) == ("no-winner", None)
    assert found.reason == "the only candidate ran far longer than IREE's default"
