"""A verdict names what it rests on; where nothing was tried it says so."""

from __future__ import annotations

import pytest

from autotuner.jobs.model.nothing import Tried

DYNAMIC = "its shape is dynamic, and the inputs do not tell its sizes (--input)"


@pytest.mark.parametrize(
    ("tried", "verdict", "reason"),
    [
        (
            Tried(routes=1, configurations=0),
            "no-winner",
            "1 route timed, none is faster than the default",
        ),
        (
            Tried(routes=2, configurations=9),
            "no-winner",
            "2 routes and 9 configurations of dispatches timed, none is faster than the default",
        ),
        (
            Tried(routes=1, configurations=0, left_out=3),
            "inconclusive",
            "1 route timed, none ahead of the default, and no time to tell of 3 dispatches: --budget 75s would do",
        ),
        (
            Tried(routes=0, configurations=0, left_out=3),
            "inconclusive",
            "nothing was tried, the time was up: --budget 75s would do",
        ),
        (
            Tried(routes=0, configurations=0, obstacles=(DYNAMIC, DYNAMIC, "another")),
            "inconclusive",
            f"nothing was tried: no dispatch can be tuned ({DYNAMIC}, and 1 more), and no route was timed",
        ),
        (
            Tried(routes=0, configurations=0),
            "no-winner",
            "nothing to tune here, IREE's default is kept: no dispatch has a product, a convolution or an attention",
        ),
        (
            Tried(routes=0, configurations=0, obstacles=("no constraints",), knobless=True),
            "no-winner",
            "no knobs here, IREE's default is kept: no constraints",
        ),
    ],
)
def test_a_model_without_a_race_says_what_was_tried(tried: Tried, verdict: str, reason: str) -> None:
    assert tried.judged(budget=30.0) == (verdict, reason)
