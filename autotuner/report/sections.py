"""The sections that every run may have: search, knobs, finalists, failures, environment, candidates. An
empty one is None."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from autotuner.report import charts
from autotuner.report.history import candidates_table
from autotuner.report.page import Section
from autotuner.report.reading import Run
from autotuner.report.tables import Field, Table, fixed, number, text
from autotuner.system.text import clean, count

_LINES = 12
"""Of a failure's stderr: its beginning."""
_MESSAGES = 5
"""Different messages of a class of failures."""
_PROOFS = (
    "Every build is searched for the spec's marker and its configuration. Every result is compared with the reference, "
    "a model's with those of IREE's default or with the user's own (--expected), before it is timed."
)
_SCREENED = "These times are of the search: brief, each at its own moment. What decides are the finalists' blocks."


def search(run: Run) -> Section | None:
    chart = charts.progress(run)
    return Section("search", "Search", _screened(run), charts=(chart,)) if chart else None


def _screened(run: Run) -> tuple[str, ...]:
    """Says which times these are where the race has others."""
    return (_SCREENED,) if run.finalists else ()


def finalists(run: Run) -> Section | None:
    """What was raced against the default; without a device, the static scores."""
    chart, ranking = charts.finalists(run), _ranking(run)
    if chart is None and not ranking.rows:
        return None
    return Section("finalists", "Finalists", charts=(chart,) if chart else (), tables=(ranking,))


def _ranking(run: Run) -> Table:
    ranked = [(text(row.get("candidate")), row.get("estimate") or {}) for row in run.document.get("ranking") or []]
    default = (run.document.get("baseline") or {}).get("estimate")
    entries = [*([("default", default)] if default else []), *ranked]
    factors = list(dict.fromkeys(name for _, estimate in entries for name in estimate))
    columns = [Field("entry"), *(Field(name, kind="number") for name in factors)]
    rows = [(name, *(fixed(number(estimate.get(factor)), 2) for factor in factors)) for name, estimate in entries]
    return Table("An estimate, never timed: the lower the score the better", columns, rows if ranked else [])


def failures(run: Run) -> Section | None:
    """By class, with the first lines of stderr of each different message."""
    failed = run.failed
    if not failed:
        return None
    classes = Counter(row.failure or "unknown" for row in failed)
    rows = [(name, str(n), f"{100 * n / len(run.candidates):.1f}") for name, n in classes.most_common()]
    columns = [Field("class", kind="badge"), *(Field(name, kind="number") for name in ("candidates", "% of all"))]
    blocks = []
    for name, _ in classes.most_common():
        said = Counter(beginning(row.stderr) for row in failed if (row.failure or "unknown") == name)
        blocks += [(f"{name}, {count(n, 'candidate')}", text) for text, n in said.most_common(_MESSAGES) if text]
    return Section("failures", "Failures", tables=(Table("Failures by class", columns, rows),), blocks=tuple(blocks))


def beginning(stderr: str) -> str:
    """The first lines, without what steers a terminal."""
    lines = [line for line in clean(stderr).splitlines() if line.strip()]
    return "\n".join(lines[:_LINES])


def environment(run: Run) -> Section | None:
    """Where it was measured."""
    told = {name: value for name, value in run.environment.items() if value not in (None, "")}
    facts = tuple((name.replace("_", " "), str(value)) for name, value in told.items())
    return Section("environment", "Environment", facts=facts) if facts else None


def candidates(run: Run) -> Section | None:
    """All candidates, the fastest first."""
    if not run.candidates:
        return None
    table = candidates_table(run.row, run.candidates, run.isa, ratios=not run.finalists)
    return Section(
        "candidates",
        "Candidates",
        (_PROOFS, *_screened(run)),
        tables=(replace(table.filled(), key=run.key),),
    )
