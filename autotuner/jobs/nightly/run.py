"""One night: what is due is run, each part in a process of its own; its result is a line of JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Literal

from autotuner.errors import AutotuneError, NoCandidateError, StorageError
from autotuner.jobs.nightly.plan import Part, Plan
from autotuner.store.figures import TOLD, Failure, Figure, measurements
from autotuner.store.store import Store
from autotuner.system import process
from autotuner.system.files import write_whole
from autotuner.system.process import Finished
from autotuner.system.progress import Reporter
from autotuner.system.workspace import refuse_endless

Status = Literal["begun", "finished", "failed"]
_REMEDY = "Mend or move the file; docs/nightly.md says what a line holds."


@dataclass(frozen=True)
class Entry:
    """A line: a part began, or ended with what it measured."""

    night: str
    """The date, in UTC."""
    part: str
    status: Status
    time: str
    command: tuple[str, ...] = ()
    run: str | None = None
    exit_code: int = 0
    reason: str = ""
    seconds: float = 0.0
    figures: tuple[Figure, ...] = ()
    failures: tuple[Failure, ...] = ()
    environment: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_json(cls, table: Mapping[str, Any]) -> Entry:
        known = {one.name: table[one.name] for one in fields(cls) if one.name in table}
        known["command"] = tuple(known.get("command", ()))
        known["figures"] = tuple(Figure(**one) for one in known.get("figures", ()))
        known["failures"] = tuple(Failure(**one) for one in known.get("failures", ()))
        return cls(**known)


def read(path: Path) -> list[Entry]:
    """All lines; one that cannot be read is an error."""
    refuse_endless(path, "history of nights")
    try:
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    except (OSError, UnicodeDecodeError) as error:
        raise StorageError(f"{path} cannot be read ({error}).", remedy=_REMEDY) from None
    entries = []
    for number, line in enumerate(lines, 1):
        try:
            entries.append(Entry.from_json(json.loads(line)))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise StorageError(f"{path}:{number} is not a line of a nightly history.", remedy=_REMEDY) from None
    return entries


def append(path: Path, entry: Entry) -> None:
    """A line more, and never a part of one."""
    line = json.dumps(asdict(entry), ensure_ascii=False, allow_nan=False)
    write_whole(path, f"{path.read_text(encoding='utf-8') if path.exists() else ''}{line}\n")


def nights(entries: Sequence[Entry]) -> list[str]:
    """The nights in which something was measured, in the order of their last lines.

    Not of their dates: where a clock was wrong once, a date that is still to come would be the last night for good.
    """
    return [*dict.fromkeys(entry.night for entry in reversed(entries) if entry.status != "begun")][::-1]


# --- a night ----------------------------------------------------------------------------------------------------------


GRACE_SECONDS = 900.0
"""Seconds that a part may take beyond its budget; then it is ended."""
BUG_EXIT = 1

Runner = Callable[[Sequence[str], float], Finished]
"""Runs `autotune` with these words and this time limit in seconds."""


def run_autotune(words: Sequence[str], timeout: float, *, folder: Path) -> Finished:
    """Runs a part in a process of its own: a crash costs one part."""
    return process.run(process.own_module("autotuner", *words), timeout=timeout, cwd=folder)


def due(plan: Plan, entries: Sequence[Entry], night: str) -> list[Part]:
    """Which parts are run: those that were not finished tonight."""
    done = {entry.part for entry in entries if entry.night == night and entry.status == "finished"}
    return [part for part in plan.parts if part.name not in done]


def run_night(
    plan: Plan,
    *,
    reporter: Reporter,
    night: str | None = None,
    runner: Runner | None = None,
    after_part: Callable[[], object] = lambda: None,
) -> list[Entry]:
    """Runs what is due; gives tonight's ends. A part that fails is an entry, and the others are run all the same.

    Parts are run in the folder of the nightly file: relative paths in it are beside it.
    """
    runner = runner or partial(run_autotune, folder=plan.path.parent)
    night = night or tonight()
    entries = read(plan.history)
    ended: list[Entry] = []
    last = {entry.part: entry.status for entry in entries}
    known = {entry.run for entry in entries if entry.run}
    for part in due(plan, entries, night):
        resume = last.get(part.name) == "begun"
        reporter.stage(f"{part.name}{', going on' if resume else ''}")
        begun = Entry(night, part.name, "begun", _now(), part.command)
        append(plan.history, begun)
        entry = _ended(plan, part, begun, runner, known, resume=resume)
        append(plan.history, entry)
        if entry.status == "failed":
            reporter.note(f"{entry.part} failed: {entry.reason}")
        ended.append(entry)
        with suppress(AutotuneError):  # a page that cannot be written is told at the end
            after_part()
    return ended


def _ended(plan: Plan, part: Part, begun: Entry, runner: Runner, known: set[str], *, resume: bool) -> Entry:
    """The result of a part; every error becomes one."""
    plain = replace(begun, status="failed", time=_now())
    try:
        entry = _attempt(plan, part, plain, runner, resume=resume)
        if resume and entry.run in known:
            # There was nothing to go on with: the part was cut short before its run began.
            entry = _attempt(plan, part, plain, runner, resume=False)
        return entry
    except (StorageError, process.Closing):
        raise
    except AutotuneError as error:
        return replace(plain, exit_code=error.exit_code, reason=str(error))
    except Exception as error:  # unattended: whatever one part's trouble is, the others have their turn
        return replace(plain, exit_code=BUG_EXIT, reason=f"{type(error).__name__}: {error}")


def _attempt(plan: Plan, part: Part, plain: Entry, runner: Runner, *, resume: bool) -> Entry:
    words = [*part.command, f"--workspace={plan.workspace}", "--json", "--quiet", *(["--resume"] if resume else [])]
    finished = runner(words, part.budget + GRACE_SECONDS)
    plain = replace(plain, time=_now(), seconds=round(finished.seconds, 1))
    document = _document(finished.stdout)
    if not finished.ok or document is None:
        told = str((document or {}).get("reason") or "")
        why = told or process.last_line(finished.why()).removeprefix("autotune: ")
        return replace(plain, exit_code=finished.code if finished.code > 0 else BUG_EXIT, reason=why)
    run = str(document.get("run", ""))
    with Store.open(None, workspace=plan.workspace, create=False) as store:
        found = measurements(store, run)
    environment = document.get("environment") or {}
    where = {name: environment[name] for name in TOLD if name in environment}
    timed = bool(found.figures)
    return replace(
        plain,
        status="finished" if timed else "failed",
        exit_code=0 if timed else NoCandidateError.exit_code,
        reason=str(document.get("reason", "")) or ("" if timed else "it has no times"),
        run=run,
        figures=found.figures,
        failures=found.failures,
        environment=where,
    )


def _document(text: str) -> dict[str, Any] | None:
    with suppress(ValueError):
        found = json.loads(text)
        return found if isinstance(found, dict) else None
    return None


def tonight() -> str:
    """The date that a night is called by."""
    return f"{datetime.now(UTC):%Y-%m-%d}"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def command_line(plan: Plan, part: Part) -> list[str]:
    """The command line that repeats a part."""
    return ["autotune", *part.command, f"--workspace={plan.workspace.resolve()}"]
