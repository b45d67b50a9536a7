"""A page of some runs or of all, from the results database.

The page is bounded: the first runs are shown in full, the others by their verdicts.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from autotuner.carriers.flagfile import use_line
from autotuner.report import kinds, sections
from autotuner.report.history import run_records, runs_table
from autotuner.report.page import View, render
from autotuner.report.reading import Run, read
from autotuner.report.tables import interval, number, text, tone
from autotuner.store.listing import owners_of
from autotuner.store.reader import Reader
from autotuner.store.rows import RunRow
from autotuner.system.text import count, microseconds
from autotuner.targets.catalog import peak_of

FULL = 20
"""Runs that are shown in full: a browser draws them without a pause."""
OVERVIEW = 1000
"""Runs that the overview lists."""
_SECTIONS = (
    sections.search,
    sections.finalists,
    sections.failures,
    sections.environment,
    sections.candidates,
)


def report(store: Reader, runs: Sequence[str] = ()) -> str:
    """The page of these runs with their parts, or of all top-level runs; the first are shown in full."""
    rows = {row.id: row for run in runs for row in owners_of(store, run)} or {
        r.id: r for r in store.runs(OVERVIEW, top=True)
    }
    shown = [*rows.values()][:FULL]
    views = [_view(read(store, row), rows) for row in shown]
    left = len(rows) - len(shown)
    left_out = [f"{count(left, 'run')} without details here: autotune report RUN shows one."] if left else []
    first = runs[0] if len(runs) == 1 else None
    listed = [row for row in rows.values() if row.id != first or len(rows) == 1]
    caption = "Its parts" if first else "Runs"
    overview = runs_table(run_records(store, listed), caption).filled() if len(rows) != 1 else None
    lead = overview is None or first is not None
    title = "" if lead else f"{count(len(rows), 'run')} of autotune"
    return render(views, title=title, overview=overview, left_out=left_out, lead=lead)


def _view(run: Run, others: Mapping[str, RunRow]) -> View:
    said = str(run.document.get("reason") or _standing(run))
    verdict = str(run.document.get("verdict") or run.row.status)
    made = (make(run) for make in _SECTIONS)
    return View(
        anchor=f"run-{run.row.id}",
        title=_title(run.row),
        verdict=verdict,
        tone=tone(verdict),
        headline=said or (kinds.headline(run.document) if run.row.kind == "bench" else ""),
        facts=tuple(_facts(run)),
        commands=tuple(_commands(run, others.get(run.row.parent or ""))),
        notes=tuple(map(str, run.document.get("notes") or ())),
        sections=(*kinds.own_sections(run), *(section for section in made if section is not None)),
    )


def _commands(run: Run, parent: RunRow | None) -> list[tuple[str, str]]:
    again, flagfile, program = _again(run.row, parent), run.document.get("flagfile"), run.document.get("program")
    found = [("Run it again", again)] if again else []
    if flagfile:
        use = use_line(Path(str(flagfile)), program=Path(str(program)) if program else None)
        found.append(("Use what it found", use))
    return found


def _again(row: RunRow, parent: RunRow | None) -> str:
    """The command that repeats a run; of a suite's problem, the one that tunes it alone."""
    for problem in ((parent.result or {}).get("problems") or []) if parent is not None else []:
        if problem.get("run") == row.id and row.kind == "single" and (words := text(problem.get("arguments"))):
            return f"autotune {words} --target {shlex.quote(row.target)}"
    return "" if row.parent is not None or not row.command else shlex.join(["autotune", *row.command[1:]])


_WORDS = {"bench": "beside other libraries", "ab": "an experiment", "retune": "retuned"}
"""Added to the title of a run that is no tuning."""


def _title(row: RunRow) -> str:
    words = _WORDS.get(row.kind)
    return f"{row.problem.get('name') or row.id} on {row.target}{f', {words}' if words else ''}"


def _standing(run: Run) -> str:
    """The state of an unfinished run: it goes on, or it was cut short."""
    timed = f"{count(_total(run, 'timed'), 'candidate')} timed"
    if run.row.status == "running":
        return f"This run goes on: {timed} so far."
    again = "" if "import" in run.row.command[1:3] else " The same command with --resume goes on."
    return f"This run was cut short: {timed}.{again}" if run.row.status == "interrupted" else ""


def _total(run: Run, what: str) -> int:
    """Its parts included."""
    return sum(one[what] for one in (run.record, *run.record["runs"]))


def _facts(run: Run) -> list[tuple[str, str]]:
    document, row, record = run.document, run.row, run.record
    stock, cold = document.get("stock") or {}, document.get("cold") or {}
    by_stock = bool(stock.get("flags"))
    beyond = (document.get("best") or {}).get("flags") != stock.get("flags") or document.get("spec")
    seconds = number((document.get("seconds") or {}).get("total"))
    asked, timed, failed = (_total(run, name) for name in ("asked", "timed", "failed"))
    found = [
        ("default", _time(record["baseline_us"], run)),
        ("best stock route", _time(stock.get("us"), run) if by_stock else ""),
        ("best", _time(record["best_us"], run)),
        ("speedup, 95 % interval", interval(document.get("speedup"))),
        ("over the best stock route", interval(document.get("speedup_over_stock")) if by_stock and beyond else ""),
        ("cold cache, default", _time(cold.get("baseline_us"), run)),
        ("cold cache, best", _time(cold.get("best_us"), run)),
        ("carried by", text(document.get("carrier"))),
        ("target, device", f"{row.target}, {row.device}"),
        ("device name", str(run.environment.get("device_name") or "")),
        ("IREE", str(run.environment.get("iree") or "")),
        ("configurations", str(row.space_size or "")),
        ("candidates", f"{asked} asked, {timed} timed, {failed} failed" if asked else ""),
        ("time", "" if seconds is None else f"{seconds:.0f} s"),
        ("started", f"{row.started.astimezone():%Y-%m-%d %H:%M:%S %Z}"),
        ("kind, status, seed", f"{row.kind}, {row.status}, {row.seed}"),
        ("run", row.id),
    ]
    return [(name, text) for name, text in found if text]


def _time(us: object, run: Run) -> str:
    """With the rate, and its share of the device's peak."""
    time, flops = number(us), number(run.row.problem.get("flops"))
    if time is None:
        return ""
    if not flops or not time or run.row.problem.get("op") in ("model", "suite"):
        return microseconds(time)
    rate, limit = flops / time / 1e3, roof(run)
    part = f", {100 * rate / limit:.0f} % of the data sheet's" if limit else ""
    return f"{microseconds(time)} ({rate:.4g} GFLOP/s{part})"


def roof(run: Run) -> float | None:
    """The highest rate that this problem can have on its device by the data sheet, in GFLOP/s: of its arithmetic, or
    with every operand read or written once."""
    peak = peak_of(run.row.target, device=str(run.environment.get("device_name") or ""))
    problem = run.row.problem
    flops, size = number(problem.get("flops")), number(problem.get("bytes"))
    kind = str(((problem.get("shape") or {}).get("types") or [""])[0])
    rate = peak.tflops.get("f8" if "f8" in kind else kind) if peak else None
    return min(rate * 1e3, peak.gbs * flops / size) if peak and rate and flops and size else None
