"""The candidates of a run as a table, and the runs that are its parts."""

from __future__ import annotations

from collections.abc import Iterable

from rich.text import Text

from autotuner.iree.figures import NO_FIGURES
from autotuner.measure.reference import DEFAULT
from autotuner.report.history import brief_records, in_us, runs_table
from autotuner.store.rows import Tally
from autotuner.store.store import CandidateRow, Store
from autotuner.system.listing import Column, Listing
from autotuner.tuning.printer import knobs

MOST = 1000
"""Candidates of a run in a table: that many timed ones, and that many others."""
STATES = {"timed": "", "failed": "red", "duplicate": "dim"}


def wrong_default(candidates: Iterable[CandidateRow]) -> bool:
    """It was timed, and it is wrong."""
    return any(row.kind == "baseline" and row.state == "timed" and row.failure for row in candidates)


def run_tables(store: Store, run: str) -> list[Listing]:
    """A run's own candidates, where it has some, and the runs that are its parts."""
    parts = brief_records(store, store.parts(run))
    return [
        *([run_table(store, run)] if not parts or store.tally(run).asked else []),
        *([runs_table(parts)] if parts else []),
    ]


def run_table(store: Store, run: str) -> Listing:
    """A run's candidates, fastest first, and after them those that were not timed, with the reason."""
    owner, tally = store.run(run), store.tally(run)
    candidates = store.leading(run, MOST)
    isa = store.isa(run)

    rows = []
    for candidate in candidates:
        speedup = tally.baseline_us / candidate.us if tally.baseline_us and candidate.us else None
        rows.append(
            (
                str(candidate.ordinal),
                candidate.kind,
                candidate.route,
                knobs(candidate.config.as_dict()),
                *((isa.get(candidate.id, NO_FIGURES).summary,) if isa else ()),
                in_us(candidate.us),
                f"{speedup:.3f}x" if speedup else "",
                Text(
                    candidate.failure or candidate.state,
                    STATES.get("failed" if candidate.failure else candidate.state, ""),
                ),
            )
        )
    wrong = f": {DEFAULT} gives wrong results" if wrong_default(candidates) else ""
    cut = f"; {_cut(tally, run)}" if len(candidates) < tally.asked else ""
    heads = [Column("#", right=True, head=True), *(Column(title, head=True) for title in ("kind", "route"))]
    figures = [Column(title, right=True) for title in ("µs", "speedup")]
    return Listing.of(
        [*heads, "configuration", *(["isa"] if isa else []), *figures, "state"],
        rows,
        title=f"{owner.problem.get('name', '')} on {owner.target} ({run}){wrong}{cut}",
    )


def _cut(tally: Tally, run: str) -> str:
    """Of a long run: what is listed, and where the rest is."""
    groups = (("fastest", tally.timed, "timed"), ("first", tally.asked - tally.timed, "others"))
    told = [
        f"the {which} {MOST} of {size} {what}" if size > MOST else f"all {size} {what}"
        for which, size, what in groups
        if size
    ]
    return f"{' and '.join(told)}: `autotune report {run}` has all"
