"""One night: what is due is run, each part in a process of its own, and what it came to is written down."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from typing import Any

from autotuner.errors import AutotuneError, NoCandidateError, StorageError
from autotuner.jobs.nightly.history import Entry, append, latest, read
from autotuner.jobs.nightly.plan import Part, Plan
from autotuner.store.figures import TOLD, measurements
from autotuner.store.store import Store
from autotuner.system import process
from autotuner.system.process import Finished
from autotuner.system.progress import Reporter

GRACE_SECONDS = 900.0
"""What a part may take beyond its budget, importing and shipping included; then it is ended."""
BUG_EXIT = 1

Runner = Callable[[Sequence[str], float], Finished]
"""Runs `autotune` with these words, for at most so many seconds."""


def run_autotune(words: Sequence[str], timeout: float, *, folder: Path) -> Finished:
    """In a process of its own: a crash, or what a driver leaves behind, costs one part."""
    return process.run(process.own_module("autotuner", *words), timeout=timeout, cwd=folder)


@dataclass(frozen=True)
class Due:
    """A part, and whether it is run tonight."""

    part: Part
    due: bool
    last: str | None
    """The night in which it was finished before."""
    resume: bool = False
    """It was cut short, and goes on."""


def due(plan: Plan, entries: Sequence[Entry], night: str, *, everything: bool = False) -> list[Due]:
    """Which parts are run: those that were not finished since as many nights as they say."""
    found = []
    last_lines = latest(entries)
    for part in plan.parts:
        done = [entry.night for entry in entries if entry.part == part.name and entry.status == "finished"]
        # A night that is still to come was written by a clock that went wrong: it must not hold up those until then.
        last = max((one for one in done if one <= night), default=None)
        age = None if last is None else (date.fromisoformat(night) - date.fromisoformat(last)).days
        line = last_lines.get(part.name)
        wanted = everything or age is None or age >= part.every
        found.append(Due(part, wanted, last, resume=line is not None and line.status == "begun"))
    return found


def run_night(
    plan: Plan,
    *,
    reporter: Reporter,
    night: str | None = None,
    everything: bool = False,
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
    for one in due(plan, entries, night, everything=everything):
        if not one.due:
            continue
        reporter.stage(f"{one.part.name}{', going on' if one.resume else ''}")
        known = {entry.run for entry in entries if entry.run}
        append(plan.history, Entry(night, one.part.name, "begun", _now(), one.part.command))
        entry = _ended(plan, one, night, runner, known)
        append(plan.history, entry)
        if entry.status == "failed":
            reporter.note(f"{entry.part} failed: {entry.reason}")
        ended.append(entry)
        with suppress(AutotuneError):  # a page that cannot be written is told at the end
            after_part()
    return ended


def _ended(plan: Plan, one: Due, night: str, runner: Runner, known: set[str]) -> Entry:
    """What a part came to. Nothing that it does wrong is let through."""
    plain = Entry(night, one.part.name, "failed", _now(), one.part.command)
    try:
        entry = _attempt(plan, one.part, plain, runner, resume=one.resume)
        if one.resume and entry.run in known:
            # There was nothing to go on with: the part was cut short before its run began.
            entry = _attempt(plan, one.part, plain, runner, resume=False)
        return entry
    except (StorageError, process.Closing):
        raise
    except AutotuneError as error:
        return replace(plain, exit_code=error.exit_code, reason=str(error))
    except (
        Exception
    ) as error:  # unattended: one part's trouble, whatever it is, does not keep the others from their turn
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
    """What a person types to repeat a part."""
    return ["autotune", *part.command, f"--workspace={_shown(plan.workspace)}"]


def _shown(path: Path) -> str:
    return str(path.resolve()) if path.exists() else str(path)
