"""The sections that every run has: search, knobs, finalists, failures, environment, candidates."""

from __future__ import annotations

import re
from collections import Counter

from autotuner.report import charts
from autotuner.report.page import Section
from autotuner.report.reading import Candidate, Run, varied
from autotuner.report.tables import Field, Table, error, fixed, number, text, us
from autotuner.store.figures import problem_of
from autotuner.system.text import clean, count

MOST_CANDIDATES = 4000
"""Rows of a table of candidates: the fastest. An export has all."""
_LINES, _CHARACTERS = 12, 1200
"""Of a failure's stderr: its beginning."""
_MESSAGES = 5
"""Different messages of a class of failures."""
_PROOFS = (
    "Every build is searched for the spec's marker and its configuration. Every result is compared with the reference, "
    "a model's with those of IREE's default or with the user's own (--expected), before it is timed."
)
_PARTS = "Each part is a run of its own: see below."
_SCREENED = (
    "µs and speedup are of the search, where a candidate is timed briefly and at its own moment. "
    "What decides are the blocks side by side: see the finalists."
)
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?\+00:00")


def _without(run: Run, why: str) -> tuple[str, ...]:
    """Where a section has nothing to show."""
    return (_PARTS if run.parts else why,)


def search(run: Run) -> Section:
    chart = charts.progress(run)
    words = _screened(run) if chart else _without(run, "Fewer than two candidates were timed here.")
    return Section("search", "Search", words, wide=(chart,) if chart else ())


def _screened(run: Run) -> tuple[str, ...]:
    """Where there are other figures of the same: which these are."""
    return (_SCREENED,) if run.finalists else ()


def knobs(run: Run) -> Section:
    """Which of them matter."""
    known = varied(run)
    if not known:
        return Section("knobs", "Knobs", _without(run, "No knob was timed with more than one value."))
    chart = charts.importance(known)
    few = "" if chart else " There are too few of them to say which matter."
    words = f"{count(len(known), 'knob')} took several values among the timed configurations.{few}"
    return Section("knobs", "Knobs", (words,), wide=(chart,) if chart else ())


def finalists(run: Run) -> Section:
    """What was raced against the default; without a device, what the machine code promises."""
    chart = charts.finalists(run)
    if chart is not None:
        return Section("finalists", "Finalists", wide=(chart,))
    ranking = _ranking(run)
    words = _without(run, "Nothing was raced against the default.")
    return Section("finalists", "Finalists", words, tables=(ranking,) if ranking.rows else ())


def _ranking(run: Run) -> Table:
    ranked = [(text(row.get("candidate")), row.get("estimate") or {}) for row in run.document.get("ranking") or []]
    default = (run.document.get("baseline") or {}).get("estimate")
    entries = [*([("default", default)] if default else []), *ranked]
    factors = list(dict.fromkeys(name for _, estimate in entries for name in estimate))
    columns = [Field("entry"), *(Field(name, kind="number") for name in factors)]
    rows = [(name, *(fixed(number(estimate.get(factor)), 2) for factor in factors)) for name, estimate in entries]
    return Table("An estimate, never timed: the lower the score the better", columns, rows if ranked else [])


def failures(run: Run) -> Section:
    """By class, with the first lines of stderr of each different message."""
    failed = [candidate.row for candidate in run.candidates if candidate.failed]
    if not failed:
        return Section("failures", "Failures", _without(run, "No candidate failed."))
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
    text = "\n".join(lines[:_LINES])
    return text if len(text) <= _CHARACTERS else f"{text[:_CHARACTERS]}…"


def environment(run: Run) -> Section:
    """Where it was measured."""
    told = {name: value for name, value in run.environment.items() if value not in (None, "")}
    words = () if told else ("Nothing was written down of where this run was measured.",)
    facts = tuple((name.replace("_", " "), _readable(value)) for name, value in told.items())
    return Section("environment", "Environment", words, facts=facts)


def _readable(value: object) -> str:
    """A moment as people write it."""
    text = str(value)
    return f"{text[:10]} {text[11:19]} UTC" if _MOMENT.fullmatch(text) else text


def candidates(run: Run) -> Section:
    """All of them, the fastest first: what was proven of each, and what it changes of the default."""
    ranked = sorted(run.candidates, key=lambda c: (c.us is None, c.us or 0.0, c.row.ordinal))
    if not ranked:
        return Section("candidates", "Candidates", _without(run, "This run has no candidates."))
    words, shown = (_PROOFS, *_screened(run)), ranked[:MOST_CANDIDATES]
    if len(shown) < len(ranked):
        words += (f"The fastest {len(shown)} of {len(ranked)}. All: autotune export --csv {run.row.id}",)
    fields = (
        Field("#", lambda c: str(c.row.ordinal), "number"),
        Field("kind", lambda c: c.row.kind),
        Field("route", lambda c: c.row.route if c.row.kind != "default" else f"of {problem_of(run.row, c.row)}"),
        Field("µs in the search" if run.finalists else "µs", lambda c: us(c.us), "number"),
        Field("speedup", lambda c: fixed(run.speedup(c), 3), "number"),
        Field("state", lambda c: c.row.failure or c.row.state, "badge"),
        Field("found in the build", _applied),
        Field("error to the reference", lambda c: error(c.row.error), "number"),
        Field("change to the default", run.difference, "long"),
        Field("machine code", lambda c: c.isa.summary),
    )
    return Section("candidates", "Candidates", words, tables=(Table.of("Candidates", shown, fields),))


def _applied(candidate: Candidate) -> str:
    """How often its configuration is there."""
    if candidate.row.kind == "library":
        return "not built by IREE"
    if candidate.applied or candidate.row.state in ("failed", "asked"):
        return f"{candidate.applied}×" if candidate.applied else ""
    # What is checked was proven before; without a place in the build, flags are all that it has.
    return "flags only" if not candidate.tuned or candidate.row.error is not None else "no"
