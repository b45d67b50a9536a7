"""A verdict names what it rests on; where nothing was tried it says so."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from autotuner.jobs.model.result import Row
from autotuner.jobs.model.summary import NO_ROOT, Tried, without_device
from autotuner.programs.flow import Group
from autotuner.targets import PLAIN, Route
from autotuner.tuning.result import Result
from tests.support.bare_model import tried

AHEAD_ALONE = (
    "20 configurations of dispatches timed: 1 dispatch is ahead of the default alone, with no time to tell of the"
    " model: --budget 75s would do"
)
DYNAMIC = "its shape is dynamic, and the inputs do not tell its sizes (--input)"


@pytest.mark.parametrize(
    ("found_by", "verdict", "reason", "cause"),
    [
        (
            Tried(routes=1, configurations=0),
            "no-winner",
            "1 route timed, none is faster than the default",
            None,
        ),
        (
            Tried(routes=2, configurations=9),
            "no-winner",
            "2 routes and 9 configurations of dispatches timed, none is faster than the default",
            None,
        ),
        (
            Tried(routes=1, configurations=0, left_out=3),
            "inconclusive",
            "1 route timed, none ahead of the default, and no time to tell of 3 dispatches: --budget 75s would do",
            None,
        ),
        (
            Tried(routes=0, configurations=20, untold=1, ahead=1),
            "inconclusive",
            AHEAD_ALONE,
            None,
        ),
        (
            Tried(routes=0, configurations=0, left_out=3),
            "inconclusive",
            "nothing was tried, the time was up: --budget 75s would do",
            None,
        ),
        (
            Tried(routes=0, configurations=0, obstacles=(DYNAMIC, DYNAMIC, "another")),
            "inconclusive",
            f"nothing was tried: no dispatch can be tuned ({DYNAMIC}, and 1 more), and no route was timed",
            "obstacles",
        ),
        (
            Tried(routes=0, configurations=0),
            "no-winner",
            "nothing to tune here, IREE's default is kept: no dispatch has a product, a convolution or an attention",
            "no-operations",
        ),
        (
            Tried(routes=0, configurations=0, more_routes=True),
            "inconclusive",
            f"{NO_ROOT}, and the time was up for routes: --budget 75s would do",
            None,
        ),
        (
            Tried(routes=0, configurations=0, obstacles=("no constraints",), knobless=True),
            "no-winner",
            "no knobs here, IREE's default is kept: no constraints",
            "no-knobs",
        ),
    ],
)
def test_a_model_without_a_race_says_what_was_tried(
    found_by: Tried, verdict: str, reason: str, cause: str | None
) -> None:
    found = found_by.judged(wanted=60.0)
    assert (found.verdict, found.reason, found.cause) == (verdict, reason, cause)


def row(state: str, reason: str = "", *, out_of_time: bool = False) -> Row:
    return Row("x", cast(Group, None), 0.1, None, state, reason, out_of_time=out_of_time)


def test_what_the_budget_left_out_is_told_by_its_mark_and_not_by_words() -> None:
    rows = [row("left-out", "words", out_of_time=True), row("left-out", "a file named (--budget)"), row("no-gain")]
    assert Tried.of((), rows, ()).left_out == 1
    assert Tried.of((), [*rows, row("ahead")], ()).ahead == 1


def test_a_route_that_is_the_very_module_of_another_was_not_timed() -> None:
    other = tried(Route("O3", ("--iree-opt-level=O3",)), 2.0)
    routes = [tried(PLAIN, 2.0), replace(other, duplicate_of="baseline")]
    assert Tried.of(routes, [row("left-out", out_of_time=True)], ()).routes == 0
    assert Tried.of([*routes, other], [], ()).routes == 1


def test_without_a_device_it_is_told_whether_time_would_help() -> None:
    assert without_device((), [row("skipped", DYNAMIC)] * 2).cause == "obstacles"
    assert without_device((), [row("no-knobs", "no constraints")]).cause == "no-knobs"
    late = without_device((), [row("left-out", "no time", out_of_time=True)])
    assert (late.verdict, late.cause) == ("inconclusive", None)
    begun = row("left-out", "no device, and the time was up before a candidate was built")
    begun = replace(begun, result=cast(Result, SimpleNamespace(verdict="inconclusive")))
    both = without_device((), [begun, row("left-out", "no time", out_of_time=True)])
    assert (both.verdict, both.reason) == ("inconclusive", f"nothing was tried: {begun.reason}")


def test_without_a_device_the_only_dispatch_that_was_tried_says_what_came_of_it() -> None:
    none_builds = row("no-gain", "no device: none of 21 candidates builds")
    alone = replace(none_builds, result=cast(Result, SimpleNamespace(verdict="compile-only")))
    assert without_device((), [alone, row("no-knobs", "no constraints")]).reason == alone.reason
    both = without_device((), [alone, alone])
    assert both == ("compile-only", "no device: no candidate of any dispatch promises more than IREE's default", None)


@pytest.mark.parametrize(
    ("entries", "kernels", "proven"),
    [
        (1, 0, "1 entry is proven in the model, chosen by an estimate"),
        (0, 18, "18 microkernels are proven in the model"),
        (2, 1, "1 microkernel and 2 entries, chosen by an estimate, are proven in the model"),
    ],
)
def test_without_a_device_what_is_proven_is_counted_and_only_entries_rest_on_an_estimate(
    entries: int, kernels: int, proven: str
) -> None:
    made = replace(tried(PLAIN, None), entries=cast(Any, (None,) * entries), kernels=cast(Any, (None,) * kernels))
    assert without_device([made], []).reason == f"no device: {proven}, never timed"
