"""A verdict names what it rests on; where nothing was tried it says so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import pytest

from autotuner.jobs.model.contestant import Contestant
from autotuner.jobs.model.parts import PartSearch
from autotuner.jobs.model.rows import DispatchRow
from autotuner.jobs.model.summary import NO_ROOT, Summary, nothing_faster, without_device
from autotuner.programs.flow import Group
from autotuner.programs.structure import Shares
from autotuner.targets import PLAIN, Route
from autotuner.tuning.result import Counts, FinalVerdict
from tests.support.bare_model import NOTHING, BareContext, tried
from tests.support.clocks import Simulated
from tests.tuning.test_result import RESULT

DYNAMIC = "its shape is dynamic, and the inputs do not tell its sizes (--input)"
LATE = "none ahead of the default as a whole, and the time was up: --budget 75s would do"
O3 = Route("O3", ("--iree-opt-level=O3",))
ROUTES = [tried(PLAIN, 2.0), tried(O3, 2.0)]
TWIN = [tried(PLAIN, 2.0), replace(tried(O3, 2.0), duplicate_of="baseline")]


def row(state: str, reason: str = "", *, late: bool = False, verdict: FinalVerdict | None = None) -> DispatchRow:
    """A dispatch; with a `verdict` 9 configurations of it were tried."""
    found = replace(RESULT, verdict=verdict, counts=Counts(rivals=9)) if verdict else None
    group = cast(Group, None)
    return DispatchRow(label="x", calls=1, group=group, state=state, reason=reason, out_of_time=late, result=found)


def summary(
    rows: Sequence[DispatchRow], routes: Sequence[Contestant] = (), tuned: Sequence[Contestant] = ()
) -> Summary:
    context = BareContext(clock=Simulated(30.0))
    parts = PartSearch(context, PLAIN, NOTHING, Shares({}, ""))
    parts.rows = {str(number): one for number, one in enumerate(rows)}
    parts.results = [one.result for one in rows if one.result is not None]
    return Summary(context, tried=list(routes), tuned=list(tuned), parts=[parts])


@pytest.mark.parametrize(
    ("rows", "routes", "more_routes", "verdict", "reason", "cause"),
    [
        ([], ROUTES, True, "no-winner", "1 route timed, none is faster than the default", None),
        (
            [row("no-gain", verdict="no-winner")] * 2,
            ROUTES,
            False,
            "no-winner",
            "1 route and 18 configurations of dispatches timed, none is faster than the default",
            None,
        ),
        (
            [row("left-out", late=True)],
            ROUTES,
            False,
            "inconclusive",
            f"1 route timed, {LATE}",
            None,
        ),
        (
            [row("ahead", verdict="win"), row("no-gain", verdict="no-winner")],
            (),
            False,
            "inconclusive",
            f"18 configurations of dispatches timed, {LATE}",
            None,
        ),
        (
            [row("left-out", late=True)],
            TWIN,
            False,
            "inconclusive",
            "nothing was tried, and the time was up: --budget 75s would do",
            None,
        ),
        ([], (), True, "inconclusive", "nothing was tried, and the time was up: --budget 75s would do", None),
        (
            [*[row("skipped", DYNAMIC)] * 2, row("skipped", "another")],
            (),
            False,
            "inconclusive",
            f"nothing was tried: no dispatch can be tuned ({DYNAMIC}, and 1 more)",
            "obstacles",
        ),
        ([], (), False, "no-winner", f"nothing to tune here, IREE's default is kept: {NO_ROOT}", "no-operations"),
        (
            [row("no-knobs", "no constraints")],
            (),
            False,
            "no-winner",
            "no knobs here, IREE's default is kept: no constraints",
            "no-knobs",
        ),
    ],
)
def test_a_model_without_a_race_says_what_was_tried(
    rows: Sequence[DispatchRow],
    routes: Sequence[Contestant],
    more_routes: bool,
    verdict: str,
    reason: str,
    cause: str | None,
) -> None:
    found = nothing_faster(summary(rows, routes), more_routes=more_routes)
    assert (found.verdict, found.reason, found.cause) == (verdict, reason, cause)


def test_without_a_device_it_is_told_whether_time_would_help() -> None:
    assert without_device(summary([row("skipped", DYNAMIC)] * 2))[2] == "obstacles"
    assert without_device(summary([row("no-knobs", "no constraints")]))[2] == "no-knobs"
    assert without_device(summary([row("left-out", "no time", late=True)]))[::2] == ("inconclusive", None)
    begun = row("left-out", "the time was up before a candidate was built", verdict="inconclusive")
    both = without_device(summary([begun, row("left-out", "no time", late=True)]))
    assert both == ("inconclusive", f"nothing was tried: {begun.reason}", None)


def test_without_a_device_the_only_dispatch_that_was_tried_says_what_came_of_it() -> None:
    alone = row("no-gain", "no device: none of 21 candidates builds", verdict="compile-only")
    assert without_device(summary([alone, row("no-knobs", "no constraints")]))[1] == alone.reason
    both = without_device(summary([alone, alone]))
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
    assert without_device(summary([], tuned=[made]))[1] == f"no device: {proven}, never timed"
