"""The sections that every run has: search, knobs, finalists, roofline, failures, proofs, machine code, candidates."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from functools import partial

from autotuner.report import charts
from autotuner.report.page import Section
from autotuner.report.reading import Candidate, Run, difference, varied
from autotuner.report.tables import Column, Field, Table, fixed, number, text, us
from autotuner.store.figures import problem_of
from autotuner.system.text import clean, count

_LINES, _CHARACTERS = 12, 1200
"""Of a failure's stderr: its beginning."""
_MESSAGES = 5
"""Different messages of a class of failures."""
_ENTRIES = 12
"""Of the tables of proofs and of machine code: the fastest."""
_PROOFS = (
    "Every build is searched for the spec's marker and its configuration; every distinct binary is checked on random "
    "and on whole numbers before it is timed."
)
_COMPARED = (
    "Every build of IREE is searched for the spec's marker and its configuration; every backend's result is compared "
    "with the reference before it is timed."
)
_WHOLE = (
    "Every route's outputs are compared with those of IREE's default, or with the user's own (--expected), before it "
    "is timed. What is proven of the entries of dispatches stands with their runs."
)
_ARMS = (
    "A spec or a microkernel is proven to apply. Of a problem each arm's result is compared with the reference, of a "
    "model those of both arms, before they are timed."
)
_PARTS = "Each part is a run of its own: see below."
_SCREENED = (
    "µs and speedup are of the search, where a candidate is timed briefly and at its own moment. "
    "What decides are the blocks side by side: see the finalists."
)
_OF_MEDIANS = "The speedup is of the medians. The comparison itself goes by pairs of blocks: see the libraries."
_NOTHING = (None, "")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?\+00:00")


def search(run: Run) -> Section:
    found = charts.progress(run)
    words = _screened(run) if found else (_none_timed(run),)
    return Section("search", "Search", words, charts=tuple(found))


def _screened(run: Run) -> tuple[str, ...]:
    """Where there are other figures of the same: which these are."""
    if run.row.kind == "bench":
        return (_OF_MEDIANS,)
    return (_SCREENED,) if run.finalists else ()


def _us(run: Run) -> Field:
    return Field("µs in the search" if run.finalists else "µs", lambda candidate: us(candidate.us), "number")


def _none_timed(run: Run) -> str:
    return _PARTS if run.parts else "Fewer than two candidates were timed here."


def knobs(run: Run) -> Section:
    known = varied(run)
    if not known:
        return Section("knobs", "Knobs", (_PARTS if run.parts else "No knob was timed with more than one value.",))
    whole = (charts.importance(known), charts.parallel(run, known))
    words = [f"{count(len(known), 'knob')} took several values among the timed configurations."]
    if all(knob.share is None for knob in known):
        words.append("There are too few of them to say which matter.")
    words.append("One by one: a point for each candidate, a plain bar for the median, a green one for the fastest.")
    if len(known) > charts.KNOBS:
        words.append(f"Shown one by one are the {charts.KNOBS} that matter most.")
    shown = tuple(chart for chart in whole if chart is not None)
    return Section("knobs", "Knobs", (" ".join(words),), wide=shown, charts=tuple(charts.single_knobs(run, known)))


def finalists(run: Run) -> Section:
    chart = charts.finalists(run)
    if chart is not None:
        return Section("finalists", "Finalists", wide=(chart,))
    words = _PARTS if run.parts else "Nothing was raced against the default."
    ranking = _ranking(run)
    return Section("finalists", "Finalists", (words,), tables=(ranking,) if ranking.rows else ())


def _ranking(run: Run) -> Table:
    """Without a device: by what the machine code promises."""
    ranked = [(text(row.get("candidate")), row.get("estimate") or {}) for row in run.document.get("ranking") or []]
    default = (run.document.get("baseline") or {}).get("estimate")
    entries = [*([("default", default)] if default else []), *ranked]
    factors = list(dict.fromkeys(name for _, estimate in entries for name in estimate))
    columns = [Column("entry"), *(Column(name, "number") for name in factors)]
    rows = [(name, *(fixed(number(estimate.get(factor)), 2) for factor in factors)) for name, estimate in entries]
    return Table("An estimate, never timed: the lower the score the better", columns, rows if ranked else [])


def failures(run: Run) -> Section:
    """By class, with the first lines of stderr of each different message."""
    failed = [candidate.row for candidate in run.candidates if candidate.failed]
    if not failed:
        return Section("failures", "Failures", (_PARTS if run.parts else "No candidate failed.",))
    classes = Counter(row.failure or "unknown" for row in failed)
    rows = [(name, str(n), f"{100 * n / len(run.candidates):.1f}") for name, n in classes.most_common()]
    columns = [Column("class", "badge"), Column("candidates", "number"), Column("% of all", "number")]
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


def proofs(run: Run) -> Section:
    """That the configuration arrived, that results are right, and how it was compared."""
    raced = {finalist.name: finalist for finalist in run.finalists}

    def compared(candidate: Candidate) -> str:
        finalist = raced.get(candidate.name)
        return f"{finalist.phase}, {count(finalist.blocks, 'block')}" if finalist else ""

    def error(candidate: Candidate) -> str:
        return "" if candidate.row.error is None else f"{candidate.row.error:.2e}"

    fields = (
        Field("entry", lambda candidate: candidate.name),
        Field("kind", lambda candidate: candidate.row.kind),
        Field("configuration found in the build", _applied),
        Field("error to the reference", error, "number"),
        Field("binary", lambda candidate: candidate.binary[:12], "code"),
        Field("compared", compared),
        _us(run),
    )
    table = Table.of("What was proven of each entry", chosen(run), fields)
    if not table.rows:
        return Section("proofs", "Proofs", (_PARTS if run.parts else "Nothing was built here.",))
    words = {"bench": _COMPARED, "model": _WHOLE, "ab": _ARMS}.get(run.row.kind, _PROOFS)
    return Section("proofs", "Proofs", (words,), tables=(table,))


def _applied(candidate: Candidate) -> str:
    if candidate.row.kind == "library":
        return "not built by IREE"
    if candidate.row.state == "failed":
        return candidate.row.failure or "failed"
    if candidate.applied:
        return f"{candidate.applied}×"
    # What is checked was proven before; without a place in the build, flags are all that it has.
    return "flags only" if not candidate.tuned or candidate.row.error is not None else "no"


def chosen(run: Run) -> list[Candidate]:
    """The default, the finalists, the best and the fastest: what a reader wants to look at closely."""
    raced = {finalist.name for finalist in charts.shown_finalists(run)}
    fastest = sorted(run.timed, key=lambda candidate: candidate.us or 0.0) or _built(run)
    wanted = [run.baseline, run.best, *(c for c in run.candidates if c.name in raced), *fastest[:_ENTRIES]]
    return list({candidate.row.id: candidate for candidate in wanted if candidate is not None}.values())


def _built(run: Run) -> list[Candidate]:
    """Where nothing was timed: what was proven, the most promising first."""
    ranks = {row.get("candidate"): place for place, row in enumerate(run.document.get("ranking") or [])}
    found = [c for c in run.candidates if c.binary and not c.failed and c.row.state != "duplicate"]
    return sorted(found, key=lambda candidate: ranks.get(candidate.name, len(ranks)))


def machine_code(run: Run) -> Section:
    """Registers, spills, memory, size of the same entries."""
    entries = chosen(run)
    names = list(dict.fromkeys(name for candidate in entries for name in candidate.isa.to_json()))
    if not names:
        return Section("isa", "Machine code", (_PARTS if run.parts else "No figures of machine code are known here.",))
    figures = [Field(name.replace("_", " "), partial(_isa, name), "number") for name in names]
    fields = [Field("entry", lambda candidate: candidate.name), *figures, _us(run)]
    return Section("isa", "Machine code", tables=(Table.of("Figures of the machine code", entries, fields),))


def _isa(name: str, candidate: Candidate) -> str:
    return str(candidate.isa.to_json().get(name, ""))


def candidates(run: Run, *, most: int | None = None) -> Section:
    """All of them with what each changes of the default; with `most` the fastest of them."""
    ranked = sorted(run.candidates, key=lambda c: (c.us is None, c.us or 0.0, c.row.ordinal))
    words = _screened(run)
    if most is not None and len(ranked) > most:
        ranked = ranked[:most]
        words += (f"The fastest {most} of {len(run.candidates)}. All: autotune export --csv {run.row.id}",)
    fields = [
        Field("#", lambda c: str(c.row.ordinal), "number"),
        Field("kind", lambda c: c.row.kind),
        Field("route", lambda c: c.row.route if c.row.kind != "default" else f"of {problem_of(run.row, c.row)}"),
        Field("µs", lambda c: us(c.us), "number"),
        Field("speedup", lambda c: fixed(run.speedup(c), 3), "number"),
        Field("state", lambda c: c.row.failure or c.row.state, "badge"),
        Field("change to the default", lambda c: difference(c, run), "long"),
    ]
    if any(candidate.isa.summary for candidate in ranked):
        fields.append(Field("machine code", lambda c: c.isa.summary))
    if not ranked:
        return Section("candidates", "Candidates", (_PARTS if run.parts else "This run has no candidates.",))
    return Section("candidates", "Candidates", words, tables=(Table.of("All candidates", ranked, fields),))


def environment(run: Run) -> Section:
    known = [
        (name.replace("_", " "), _readable(value)) for name, value in run.environment.items() if value not in _NOTHING
    ]
    words = () if known else ("Nothing was written down of where this run was measured.",)
    return Section("environment", "Environment", words, facts=tuple(known))


def _readable(value: object) -> str:
    """A moment as people write it."""
    text = str(value)
    return f"{text[:10]} {text[11:19]} UTC" if _MOMENT.fullmatch(text) else text


def without_charts(section: Section, why: str) -> Section:
    """The same where a page would grow too large."""
    return replace(section, words=(*section.words, why), wide=(), charts=()) if section.figures else section
