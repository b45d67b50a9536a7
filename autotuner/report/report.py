"""One page of some runs or of all: what is read from a results database becomes views, and these a page.

The page is bounded. Where runs are many or long, the newest are told in full, the others by their summaries.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

from autotuner.carriers.flagfile import use_line
from autotuner.iree.folder import PROBLEM
from autotuner.report import beside, sections
from autotuner.report.history import brief_records, overview_table
from autotuner.report.kinds import own_sections
from autotuner.report.page import Section, View, render
from autotuner.report.reading import Run, read
from autotuner.report.tables import interval, number, text, tone
from autotuner.store.reader import Reader
from autotuner.store.rows import LEFT_OUT, Json
from autotuner.store.store import Store
from autotuner.system.names import is_name
from autotuner.system.text import count, microseconds

DATA = 2_700_000
"""Characters of tables and figures on a page: with plotly's script it stays below 8 MB."""
CANDIDATES = 12_000
"""Rows of one table of candidates."""
FULL = 10
"""Runs that are told in full where none is named: a browser shows them without a pause."""
_FRAME, _CELL, _FIGURE = 8_000, 40, 900
"""About how many characters the markup takes: of a view, of a cell that stands in the page itself, of a chart."""
_BRIEF = 900
"""The same of a part that is told in one line."""
_SUMMARY = 20_000
"""Characters below which no section is begun."""
OVERVIEW = 1000
"""Runs that the overview lists."""


def _weight(view: View) -> int:
    """About how many characters its tables and figures take."""
    if not view.facts:
        return _BRIEF
    return _FRAME + sum(map(_weight_of, view.sections)) + sum(map(_weight, view.parts))


def _weight_of(section: Section) -> int:
    rows = sum(len(cell) + 4 for table in section.tables for row in table.rows for cell in row)
    markup = _CELL * sum(len(row) for table in section.tables for row in table.first)
    blocks = sum(len(text) for _, text in section.blocks)
    return rows + markup + blocks + sum(_FIGURE + len(json.dumps(chart.figure)) for chart in section.figures)


def report(
    store: Store,
    runs: Sequence[str] = (),
    *,
    workspace: Path,
) -> str:
    """The page of these runs, or of all: then the newest in full, so far as a page holds them."""
    rows = [store.run(run) for run in dict.fromkeys(runs)] if runs else store.runs(OVERVIEW, top=True)
    views = _Maker(store, workspace).views([row.id for row in rows], all_told=bool(runs))
    left = len(rows) - len(views)
    left_out = [f"{count(left, 'older run')} without details here: autotune report RUN shows one."] if left else []
    overview = overview_table(brief_records(store, rows)) if len(rows) != 1 else None
    title = f"{count(len(rows), 'run')} of autotune" if overview else views[0].title
    return render(views, title=title, overview=overview, left_out=left_out)


@dataclass(frozen=True)
class _Maker:
    """Makes views, and knows how much of the page they have taken."""

    store: Reader
    workspace: Path

    def run(self, run: str) -> Run:
        return read(self.store, run)

    def views(self, runs: Sequence[str], *, all_told: bool) -> list[View]:
        """Of all of these, or of so many as a page holds; at least of the first."""
        found: list[View] = []
        left = DATA
        for run in runs if all_told else runs[:FULL]:
            optional = bool(found) and not all_told
            view = self.view(self.run(run), left=DATA if optional else left)
            if optional and _weight(view) > left:
                break
            left -= _weight(view)
            found.append(view)
        return found

    def view(self, run: Run, *, parent: Run | None = None, left: int) -> View:
        own = self._own(run, parent)
        if _weight(own) > left:
            own = _lightened(own, run, left=left)
        left -= _weight(own)
        parts = []
        for place, part in enumerate(run.parts):
            room = left - _BRIEF * (len(run.parts) - place)
            view = _brief(part) if part.brief or room < _FRAME else self.view(part, parent=run, left=room)
            left -= _weight(view)
            parts.append(view)
        return replace(own, parts=tuple(parts))

    def _own(self, run: Run, parent: Run | None) -> View:
        chart = beside.roofline(run, beside=beside.beside(self.store, run))
        words = () if chart else ("There is no time of one problem here to compare with the device.",)
        roof = Section("roofline", "Roofline", words, wide=(chart,) if chart else ())
        own = [beside.libraries(run)] if run.row.kind == "bench" else own_sections(run)
        return View(
            anchor=f"run-{run.row.id}",
            title=_title(run),
            verdict=run.verdict,
            tone=tone(run.verdict),
            headline=_headline(run),
            words=(said,) if (said := str(run.document.get("reason") or _standing(run))) else (),
            facts=tuple(_facts(run)),
            commands=tuple(self._commands(run, parent)),
            notes=beside.other_notes(run),
            sections=(
                *own,
                *([] if run.row.kind == "bench" else [make(run) for make in _TUNING]),
                roof,
                sections.failures(run),
                sections.proofs(run),
                sections.machine_code(run),
                sections.environment(run),
                sections.candidates(run, most=CANDIDATES),
            ),
        )

    def _commands(self, run: Run, parent: Run | None) -> list[tuple[str, str]]:
        found = []
        if again := _again(run, parent):
            found.append(("Run it again", again))
        flagfile = run.document.get("flagfile")
        if flagfile:
            found.append(("Use what it found", use_line(Path(str(flagfile)), program=self._program(run))))
        return found

    def _program(self, run: Run) -> Path | None:
        """The model, or the problem as MLIR where the winner's folder was kept."""
        if program := run.document.get("program"):
            return Path(str(program))
        best = (run.document.get("best") or {}).get("candidate")
        if not best or not is_name(run.row.id) or not is_name(str(best)):
            return None
        file = self.workspace.absolute() / "candidates" / run.row.id / str(best) / PROBLEM
        return file if file.is_file() else None


def _brief(run: Run) -> View:
    """A part for whose details the page has no room: what a reader looks for it by, and where it is told."""
    where = f"The page has no room for its details: autotune report {run.row.id} shows them."
    return View(f"run-{run.row.id}", _title(run), run.verdict, tone(run.verdict), _headline(run), (where,))


def _lightened(view: View, run: Run, *, left: int) -> View:
    """Without charts, and with so many candidates as there is room for; at the end only its summary."""
    if left < _SUMMARY:
        return replace(view, sections=())
    row = max(1, _weight_of(view.sections[-1]) // max(1, len(run.candidates)))
    few = max(0, min(len(run.candidates), left // (2 * row)))
    why = "No charts here: the page would grow too large. A page of this run alone has them."
    kept = (
        [sections.without_charts(section, why) for section in view.sections[:-1]] if left < DATA else view.sections[:-1]
    )
    return replace(view, sections=(*kept, sections.candidates(run, most=few)))


_TUNING = (sections.search, sections.knobs, sections.finalists)
"""What only a run that tunes can have."""


def _again(run: Run, parent: Run | None) -> str:
    """The command that repeats a run; of a suite's problem, the one that tunes it, or compares it, alone."""
    rows = (parent.document.get("problems") or []) if parent is not None else []
    for row in rows:
        if row.get("run") == run.row.id and row.get("arguments"):
            if run.row.kind == "bench":
                return beside.alone(row, run.row.target)
            return f"autotune {row['arguments']} --target {shlex.quote(run.row.target)}"
    if parent is not None or not run.row.command:
        return ""
    return shlex.join(["autotune", *run.row.command[1:]])


_WORDS = {"bench": "beside other libraries", "ab": "an experiment", "retune": "retuned"}
"""What tells a run from one that tuned the same."""


def _title(run: Run) -> str:
    words = _WORDS.get(run.row.kind)
    return f"{run.name} on {run.row.target}{f', {words}' if words else ''}"


def _headline(run: Run) -> str:
    told = interval(run.document.get("speedup"))
    ratio, _, bounds = told.partition(" ")
    if not ratio:
        return beside.headline(run) if run.row.kind == "bench" else ""
    over = "A" if run.row.kind == "ab" else "the default"
    who = "" if run.verdict == "win" or run.row.kind == "ab" else "the best candidate is "
    return f"{who}{ratio} times as fast as {over} {bounds}".rstrip()


def _standing(run: Run) -> str:
    """Of a run without an end. One that was killed in this workspace is known to be; in a database of many workspaces
    another's is not."""
    timed = list(_timed(run))
    known = [at for at in timed if at is not None]
    last = f", the last at {max(known):%H:%M:%S} UTC" if known else ""
    missing = ", ".join(map(str, run.document.get("not_reached") or ()))
    left = f" Not reached: {missing}." if missing else ""
    if run.row.status == "running":
        return f"This run goes on: {count(len(timed), 'candidate')} timed so far{last}.{left}"
    again = "" if run.imported else " The same command with --resume goes on."
    cut = f"This run was cut short: {count(len(timed), 'candidate')} timed{last}.{left}{again}"
    return cut if run.row.status == "interrupted" else ""


def _timed(run: Run) -> Iterator[datetime | None]:
    """When each candidate of a run and of its parts was timed first."""
    for candidate in run.candidates:
        if candidate.us is not None:
            seconds = candidate.seconds
            yield None if seconds is None else run.row.started + timedelta(seconds=seconds)
    for part in run.parts:
        yield from _timed(part)


def _facts(run: Run) -> list[tuple[str, str]]:
    document, row = run.document, run.row
    stock, best = document.get("stock") or {}, document.get("best") or {}
    default_us = number((document.get("baseline") or {}).get("us")) or (run.baseline.us if run.baseline else None)
    fastest = run.best if row.kind != "bench" else None  # the best of a comparison is what was tuned, if anything
    best_us = number(best.get("us")) or (fastest.us if fastest else None)
    cold = document.get("cold") or {}
    counts = document.get("counts") or {}
    seconds = number((document.get("seconds") or {}).get("total"))
    bench = row.kind == "bench"
    found = [
        ("iree" if bench else "default", _time(default_us, run)),
        ("best stock route", _time(number(stock.get("us")), run) if stock.get("flags") else ""),
        ("tuned" if bench else "best", _time(best_us, run)),
        ("speedup, 95 % interval", interval(document.get("speedup"))),
        ("over the best stock route", _over_stock(document) if stock.get("flags") else ""),
        ("cold cache: default, best", _pair(cold.get("baseline_us"), cold.get("best_us"))),
        ("carried by", text(document.get("carrier"))),
        ("target, device", f"{row.target}, {row.device}"),
        ("device name", str(run.environment.get("device_name") or "")),
        ("IREE", str(run.environment.get("iree") or "")),
        ("configurations", str(row.space_size or counts.get("space") or "")),
        ("backends" if bench else "candidates", _counts(run)),
        ("time", "" if seconds is None else f"{seconds:.0f} s"),
        ("started", f"{row.started.astimezone():%Y-%m-%d %H:%M:%S %Z}"),
        ("kind, status, seed", f"{row.kind}, {row.status}, {row.seed}"),
        ("run", row.id),
    ]
    return [(name, text) for name, text in found if text]


def _over_stock(document: Json) -> str:
    """Nothing where the best is that route itself."""
    ratio = document.get("speedup_over_stock") or {}
    return "" if ratio.get("low") == ratio.get("high") else interval(ratio)


def _time(us: float | None, run: Run) -> str:
    flops = number(run.row.problem.get("flops"))
    single = run.row.problem.get("op") not in beside.NO_ROOFLINE
    return "" if us is None else microseconds(us) + (f" ({flops / us / 1e3:.4g} GFLOP/s)" if flops and single else "")


def _pair(default: object, best: object) -> str:
    told = [microseconds(us) for us in (number(default), number(best)) if us is not None]
    return ", ".join(told)


def _counts(run: Run) -> str:
    """With those of its parts. A suite's own rows are the times of its problems' defaults."""
    counted = [candidate for one in _whole(run) for candidate in one.candidates if candidate.row.kind != "default"]
    if not counted:
        return ""
    duplicates = sum(candidate.row.state == "duplicate" for candidate in counted)
    timed, failed = sum(c.us is not None for c in counted), sum(c.failed for c in counted)
    left = sum(candidate.row.failure in LEFT_OUT for candidate in counted)
    told = f"{len(counted)} asked, {timed} timed, {duplicates} duplicate, {failed} failed"
    return f"{told}, {left} left out" if left else told


def _whole(run: Run) -> Iterator[Run]:
    yield run
    for part in run.parts:
        yield from _whole(part)
