"""Where nothing can race, the verdict says what it rests on: tried, failed, or how much time was left."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from autotuner.measure.finals import Finals
from autotuner.system.progress import Clock
from autotuner.tuning.plan import BASELINE


def finals(*, left: float = 0.0, part: bool = False, **outcomes: Any) -> Finals[Any]:
    clock = cast(Clock, SimpleNamespace(budget=30.0, left=left, part=part))
    default = SimpleNamespace(id=BASELINE, failure=None, duplicate_of=None, us=1.0)
    known = {BASELINE: default, **{name: SimpleNamespace(id=name, **one) for name, one in outcomes.items()}}
    unused = cast(Any, None)
    return Finals(known, (), unused, unused, clock, unused, unused, 0, unused, unused, unused, whole=False)


@pytest.mark.parametrize(
    ("left", "part", "reason"),
    [
        (11.4, False, "with 11 s left: a candidate and its comparison take longer: --budget 75s would do"),
        (-5.0, False, "the time was up: --budget 75s would do"),
        (-5.0, True, "the time was up: a longer --budget would do"),
    ],
)
def test_nothing_tried_is_inconclusive_with_what_was_left(left: float, part: bool, reason: str) -> None:
    found = finals(left=left, part=part).nothing_to_judge()
    assert (found.verdict, found.reason) == ("inconclusive", f"nothing was tried, {reason}")


def test_what_failed_is_counted_and_nothing_else_is_claimed() -> None:
    failed = {"failure": "compile-error", "duplicate_of": None, "us": None}
    found = finals(c1=failed, c2=failed).nothing_to_judge()
    assert found.verdict == "no-winner"
    assert found.reason == "nothing but the default works here: all 2 that were tried fail (compile-error 2)"
