"""From the word that the user gives, a suite's name or a file, to its problems."""

from __future__ import annotations

import difflib
import hashlib
import json
from pathlib import Path

from autotuner.errors import UsageError
from autotuner.jobs.suite.csvfile import read_csv
from autotuner.jobs.suite.hipblaslt import read_log
from autotuner.jobs.suite.miopen import read_commands
from autotuner.jobs.suite.suites import SUITES, canonical
from autotuner.jobs.suite.workload import Entry, Workload
from autotuner.system.workspace import refuse_endless

CSV = ".csv"
LOGS = (".yaml", ".yml", ".log")
COMMANDS = ".txt"
_MAX_CSV = 1 << 26


def load(text: str, *, dtype: str = "") -> Workload:
    """The named suite, the CSV, the hipBLASLt log or the list of MIOpen's commands of this name.

    `dtype` is that of what a list of shapes gives none; by default the operation's own.
    """
    if (name := canonical(text)) in SUITES:
        return named(name)
    path = Path(text)
    if path.suffix.lower() not in (CSV, *LOGS, COMMANDS):
        close = difflib.get_close_matches(name, SUITES, n=1)
        hint = f"Did you mean {close[0]}? " if close else ""
        raise UsageError(
            f"there is no suite {text!r}.",
            remedy=f"{hint}`autotune suite --list` names the suites; a file ends in .csv, .yaml, .yml, .log or .txt.",
        )
    try:
        refuse_endless(path)
        workload = _READERS[path.suffix.lower()](path) if path.suffix.lower() != CSV else _read_csv(path, dtype)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.", remedy="Is the path right?") from error
    if not workload.entries:
        reasons = f" (first: {workload.skipped[0]})" if workload.skipped else ""
        what = _FORMATS.get(path.suffix.lower(), "hipBLASLt log")
        raise UsageError(
            f"{path} holds nothing that can be tuned as a {what}{reasons}.",
            remedy="docs/suites.md has an example of each; shapes of your own go into a .csv.",
        )
    return workload


def named(name: str) -> Workload:
    suite = SUITES[name]
    entries = tuple(Entry(problem) for problem in suite.problems())
    words = [[*entry.problem.arguments(), entry.calls] for entry in entries]
    return Workload(suite.name, suite.about, hashlib.sha256(json.dumps(words).encode()).hexdigest(), entries)


def _read_csv(path: Path, dtype: str) -> Workload:
    with path.open("rb") as file:
        data = file.read(_MAX_CSV + 1)
    if len(data) > _MAX_CSV:
        raise UsageError(f"{path} is larger than {_MAX_CSV >> 20} MiB.", remedy="Divide it.")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise UsageError(f"{path}, line {line}: not UTF-8 text.", remedy="Save it as UTF-8.") from error
    entries, notes = read_csv(text, path=str(path), dtype=dtype)
    return Workload(_name(path), str(path), hashlib.sha256(data).hexdigest(), entries, notes=notes)


def _read_log(path: Path) -> Workload:
    with path.open("rb") as file:
        entries, skipped, sha256 = read_log(file)
    return Workload(_name(path), str(path), sha256, entries, skipped)


def _read_commands(path: Path) -> Workload:
    with path.open("rb") as file:
        entries, skipped, notes, sha256 = read_commands(file)
    return Workload(_name(path), str(path), sha256, entries, skipped, notes)


_READERS = {COMMANDS: _read_commands, **dict.fromkeys(LOGS, _read_log)}
_FORMATS = {CSV: "CSV of shapes", COMMANDS: "list of MIOpenDriver's commands"}
"""What others are is a log of hipBLASLt."""


def _name(path: Path) -> str:
    """What the file's results are called: it becomes a folder."""
    clean = "".join(c if c.isascii() and (c.isalnum() or c in "-_.") else "_" for c in path.stem).strip(".")
    return clean[:100] or "suite"
