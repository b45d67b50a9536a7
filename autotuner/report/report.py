"""One page of some runs or of all: what is read from a results database becomes views, and these a page.

The page is bounded: of many runs the newest are told in full, of many parts the first, the others by their verdicts.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from autotuner.carriers.flagfile import use_line
from autotuner.iree.folder import PROBLEM
from autotuner.report import kinds, sections
from autotuner.report.history import overview_table, run_records
from autotuner.report.page import Section, View, render
from autotuner.report.reading import Run, read
from autotuner.report.roofline import NO_ROOFLINE, points, roofline, roofs
from autotuner.report.tables import interval, number, text, tone
from autotuner.store.reader import Reader
from autotuner.store.rows import Json, RunRow
from autotuner.store.store import Store
from autotuner.system.names import is_name
from autotuner.system.text import count, microseconds

FULL = 10
"""Runs that are told in full where none is named: a browser shows them without a pause."""
FULL_PARTS = 20
"""The same of the parts of a run that is named."""
OVERVIEW = 1000
"""Runs that the overview lists."""


def report(store: Store, runs: Sequence[str] = (), *, workspace: Path) -> str:
    """The page of these runs, or of all: then the newest in full."""
    rows = [store.run(run) for run in dict.fromkeys(runs)] if runs else store.runs(OVERVIEW, top=True)
    make = _Maker(store, workspace)
    views = [make.view(row, parts=FULL_PARTS if runs else 0) for row in (rows if runs else rows[:FULL])]
    left = len(rows) - len(views)
    left_out = [f"{count(left, 'older run')} without details here: autotune report RUN shows one."] if left else []
    overview = overview_table(run_records(store, rows)) if len(rows) != 1 else None
    title = f"{count(len(rows), 'run')} of autotune" if overview else views[0].title
    return render(views, title=title, overview=overview, left_out=left_out)


@dataclass(frozen=True)
class _Maker:
    """Makes views of runs."""

    store: Reader
    workspace: Path

    def view(self, row: RunRow, *, parts: int, above: Sequence[RunRow] = ()) -> View:
        """A run with its parts, of which so many are told in full."""
        run = read(self.store, row.id)
        own, path = self._own(run, above[-1] if above else None), (*above, row)
        known = {one.id for one in path}  # a stranger's database may have runs that are parts of themselves
        below = [part for part in run.parts if part.id not in known]
        told = [self.view(part, parts=parts, above=path) for part in below[:parts]]
        return replace(own, parts=(*told, *(_brief(part) for part in below[parts:])))

    def _own(self, run: Run, parent: RunRow | None) -> View:
        chart = roofline(points(run, self.store), roofs(run))
        words = () if chart else ("There is no time of one problem here to compare with the device.",)
        tuning = () if run.row.kind == "bench" else (sections.search, sections.knobs, sections.finalists)
        said = str(run.document.get("reason") or _standing(run))
        return View(
            anchor=f"run-{run.row.id}",
            title=_title(run.row),
            verdict=run.verdict,
            tone=tone(run.verdict),
            headline=_headline(run.row, run.document),
            words=(said,) if said else (),
            facts=tuple(_facts(run)),
            commands=tuple(self._commands(run, parent)),
            notes=_notes(run.document),
            sections=(
                *kinds.own_sections(run),
                *(make(run) for make in tuning),
                Section("roofline", "Roofline", words, wide=(chart,) if chart else ()),
                *(make(run) for make in _COMMON),
            ),
        )

    def _commands(self, run: Run, parent: RunRow | None) -> list[tuple[str, str]]:
        again, flagfile = _again(run.row, parent), run.document.get("flagfile")
        found = [("Run it again", again)] if again else []
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


_COMMON = (sections.failures, sections.environment, sections.candidates)


def _brief(row: RunRow) -> View:
    """A part for whose details the page has no room: what a reader looks for it by, and where it is told."""
    where = f"The page has no room for its details: autotune report {row.id} shows them."
    document = row.result or {}
    verdict = str(document.get("verdict") or row.status)
    return View(f"run-{row.id}", _title(row), verdict, tone(verdict), _headline(row, document), (where,))


def _again(row: RunRow, parent: RunRow | None) -> str:
    """The command that repeats a run; of a suite's problem, the one that tunes it, or compares it, alone."""
    for problem in ((parent.result or {}).get("problems") or []) if parent is not None else []:
        if problem.get("run") == row.id and (words := text(problem.get("arguments"))):
            on = f"--target {shlex.quote(row.target)}"
            if row.kind != "bench":
                return f"autotune {words} {on}"
            backends = ",".join(text(one.get("backend")) for one in problem.get("backends") or [])
            return f"autotune bench {words.partition(' ')[2]} {on} --backends {shlex.quote(backends)}"
    return "" if parent is not None or not row.command else shlex.join(["autotune", *row.command[1:]])


_WORDS = {"bench": "beside other libraries", "ab": "an experiment", "retune": "retuned"}
"""What tells a run from one that tuned the same."""


def _title(row: RunRow) -> str:
    words = _WORDS.get(row.kind)
    return f"{row.problem.get('name') or row.id} on {row.target}{f', {words}' if words else ''}"


def _headline(row: RunRow, document: Json) -> str:
    ratio, _, bounds = interval(document.get("speedup")).partition(" ")
    if not ratio:
        return kinds.headline(document) if row.kind == "bench" else ""
    over = "A" if row.kind == "ab" else "the default"
    who = "" if document.get("verdict") == "win" or row.kind == "ab" else "the best candidate is "
    return f"{who}{ratio} times as fast as {over} {bounds}".rstrip()


def _notes(document: Json) -> tuple[str, ...]:
    """A run's notes, less those that say once more who was left out."""
    said = tuple(f"{text(one.get('backend'))} is left out: " for one in kinds.left_out(document))
    return tuple(note for note in map(str, document.get("notes") or ()) if not note.startswith(said))


def _standing(run: Run) -> str:
    """Of a run without an end. One that was killed in this workspace is known to be; in a database of many workspaces
    another's is not."""
    timed = f"{count(run.counts[1], 'candidate')} timed"
    missing = ", ".join(map(str, run.document.get("not_reached") or ()))
    left = f" Not reached: {missing}." if missing else ""
    if run.row.status == "running":
        return f"This run goes on: {timed} so far.{left}"
    again = "" if "import" in run.row.command[1:3] else " The same command with --resume goes on."
    return f"This run was cut short: {timed}.{left}{again}" if run.row.status == "interrupted" else ""


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
        (
            "backends" if bench else "candidates",
            "{} asked, {} timed, {} failed".format(*run.counts) if run.counts[0] else "",
        ),
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
    single = run.row.problem.get("op") not in NO_ROOFLINE
    return "" if us is None else microseconds(us) + (f" ({flops / us / 1e3:.4g} GFLOP/s)" if flops and single else "")


def _pair(default: object, best: object) -> str:
    told = [microseconds(us) for us in (number(default), number(best)) if us is not None]
    return ", ".join(told)
