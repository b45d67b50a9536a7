"""A verdict names what it rests on; where nothing was tried it says so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import pytest

from autotuner.jobs.model.contestant import Contestant, Lineup
from autotuner.jobs.model.parts import PartSearch
from autotuner.jobs.model.rows import DispatchRow
from autotuner.jobs.model.summary import NO_ROOT, Summary, nothing_faster, without_device
from autotuner.measure.blocks import Interval
from autotuner.measure.judgement import Judgement
from autotuner.programs.flow import Group
from autotuner.programs.structure import Shares
from autotuner.registry.entry import RegistryEntry
from autotuner.registry.folder import Known
from autotuner.targets import PLAIN, Route
from autotuner.tuning.result import Counts, FinalVerdict
from tests.support.bare_model import NOTHING, BareContext, tried
from tests.support.clocks import Simulated
from tests.tuning.test_result import RESULT

DYNAMIC = "its shape is dynamic, and the inputs do not tell its sizes (--input)"
LATE = "none faster so far. Try --budget 75s"
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


LOST, AHEAD = row("no-gain", verdict="no-winner"), row("ahead", verdict="win")
MISSED, UNKNOWN = row("left-out", late=True), row("skipped", DYNAMIC)
NO_KNOBS, ANOTHER = row("no-knobs", "no constraints"), row("skipped", "another")
OUT_OF_TIME, MANY = "ran out of time: ", "18 configurations of dispatches timed"
UNTUNABLE = "nothing was tried: no dispatch can be tuned"


@pytest.mark.parametrize(
    ("rows", "routes", "verdict", "reason", "cause"),
    [
        ([], ROUTES, "no-winner", "1 route timed, none is faster than IREE's default", None),
        ([LOST] * 2, ROUTES, "no-winner", f"1 route and {MANY}, none is faster than IREE's default", None),
        ([MISSED], ROUTES, "inconclusive", f"{OUT_OF_TIME}1 route timed, {LATE}", None),
        ([AHEAD, LOST], (), "inconclusive", f"{OUT_OF_TIME}{MANY}, {LATE}", None),
        ([MISSED], TWIN, "inconclusive", f"{OUT_OF_TIME}nothing was tried. Try --budget 75s", None),
        ([UNKNOWN, UNKNOWN, ANOTHER], (), "inconclusive", f"{UNTUNABLE} ({DYNAMIC}, and 1 more)", "failed"),
        ([], (), "no-winner", f"nothing to tune: {NO_ROOT}", "nothing-to-tune"),
        ([NO_KNOBS], (), "no-winner", "nothing to choose: no constraints", "nothing-to-tune"),
    ],
)
def test_a_model_without_a_race_says_what_was_tried(
    rows: Sequence[DispatchRow], routes: Sequence[Contestant], verdict: str, reason: str, cause: str | None
) -> None:
    found = nothing_faster(summary(rows, routes))
    assert (found.verdict, found.reason, found.cause) == (verdict, reason, cause)


def test_a_run_that_was_too_short_names_what_the_registry_knows() -> None:
    found = summary([MISSED])
    context, entry = cast(BareContext, found.context), cast(RegistryEntry, None)
    context.known = Known(entry, exact=False)
    assert "apply" not in nothing_faster(found).reason, "what it knows is of a model alike"
    context.known = Known(entry, exact=True)
    told = f"{OUT_OF_TIME}nothing was tried; `autotune apply` writes what the registry knows of it. Try --budget 75s"
    assert nothing_faster(found).reason == told


def test_what_works_in_place_of_a_wrong_default_is_told_with_the_best_of_the_others() -> None:
    wrong = tried(PLAIN, 2.0, wrong=True)
    right = tried(O3, 3.0)
    lineup = Lineup.of([wrong, right], [])
    assert lineup.instead is right
    slower = Judgement("no-winner", "1.09x slower than route O3", "baseline", speedup=Interval(0.9, 0.8, 1.0))
    works = "wrong; route O3 works, and takes 1.50 of its time; "
    told = lineup.works_instead(right, "wrong", slower)
    assert told == f"{works}the best of the others is 1.09x slower than route O3"
    late = Judgement("inconclusive", "ran out of time", "baseline")
    assert lineup.works_instead(right, "wrong", late) == f"{works}ran out of time"


def test_without_a_device_it_is_told_whether_time_would_help() -> None:
    assert without_device(summary([UNKNOWN] * 2))[2] == "failed"
    assert without_device(summary([NO_KNOBS]))[2] == "nothing-to-tune"
    assert without_device(summary([row("left-out", "no time", late=True)]))[::2] == ("inconclusive", None)
    begun = row("left-out", "the time was up before a candidate was built", verdict="inconclusive")
    both = without_device(summary([begun, row("left-out", "no time", late=True)]))
    assert both == ("inconclusive", f"nothing was tried: {begun.reason}", None)


def test_without_a_device_nothing_that_promises_more_is_told_and_what_is_proven_is_counted() -> None:
    alone = row("no-gain", "no device: none of 21 candidates builds", verdict="compile-only")
    told = ("compile-only", "nothing was timed, and no candidate promises more than IREE's default", None)
    assert without_device(summary([alone, NO_KNOBS])) == told
    made = replace(tried(PLAIN, None), entries=cast(Any, (None,) * 2), kernels=cast(Any, (None,)))
    assert without_device(summary([], tuned=[made]))[1] == (
        "1 microkernel and 2 entries by an estimate proven in the model, never timed"
    )
