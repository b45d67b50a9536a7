"""A workload: distinct problems, each with how often it is called."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from autotuner.errors import UsageError
from autotuner.problems import Problem
from autotuner.problems.accuracy import known_precision
from autotuner.targets import Target


@dataclass(frozen=True)
class Entry:
    """A problem, and how often the workload calls it."""

    problem: Problem
    calls: int = 1

    def to_json(self) -> dict[str, Any]:
        arguments = " ".join(self.problem.arguments())
        return {**self.problem.describe(), "arguments": arguments, "calls": self.calls}


@dataclass(frozen=True)
class Skipped:
    """Something in the input that cannot be tuned, with the reason; `line` is where a file has it first."""

    what: str
    reason: str
    line: int | None = None
    lines: int = 1
    """How many lines of the file are alike."""
    entry: Entry | None = None
    """The problem, where it is one that only this target refuses."""

    def __str__(self) -> str:
        more = f" (and {self.lines - 1} more of the same)" if self.lines > 1 else ""
        where = f"line {self.line}: " if self.line is not None else ""
        return f"{where}{self.what}: {self.reason}{more}"

    def to_json(self) -> dict[str, Any]:
        return {"line": self.line, "lines": self.lines, "what": self.what, "reason": self.reason}


@dataclass(frozen=True)
class Workload:
    """The problems of a named suite or of a file."""

    name: str
    source: str
    """The suite's own description, or the file's path."""
    sha256: str
    """Of the file, or of the named suite's problems: a resumed run must have the same."""
    entries: tuple[Entry, ...]
    skipped: tuple[Skipped, ...] = ()

    def describe(self) -> dict[str, Any]:
        """The `problem` object of the JSON document."""
        return {
            "op": "suite",
            "name": self.name,
            "flops": sum(entry.calls * entry.problem.flops for entry in self.entries),
            "bytes": sum(entry.calls * entry.problem.bytes for entry in self.entries),
            "source": self.source,
            "sha256": self.sha256,
        }

    def for_target(self, target: Target) -> Workload:
        """Without the problems that this target cannot tune; those are listed as skipped, with its reason."""
        kept, refused = [], []
        for entry in self.entries:
            try:
                target.prepare(entry.problem)
            except UsageError as error:
                refused.append(Skipped(entry.problem.name, str(error), entry=entry))
            else:
                kept.append(entry)
        return replace(self, entries=tuple(kept), skipped=(*self.skipped, *refused))

    def allowing(self, precision: str | None) -> Workload:
        """Accepts lower precision of the results, in the problems that have a higher one."""
        wanted = known_precision(precision)
        if not wanted:
            return self
        entries = tuple(replace(e, problem=e.problem.accepting(wanted)) for e in self.entries)
        if entries == self.entries:
            raise UsageError(
                f"--allow-precision {wanted} is below the types of no problem of {self.name}.",
                remedy="Leave the option out.",
            )
        return replace(self, entries=entries)

    def sample(self, count: int | None, *, seed: int) -> Workload:
        """A seeded part of it, in its own order."""
        if count is None or count >= len(self.entries):
            return self
        chosen = sorted(random.Random(seed).sample(range(len(self.entries)), count))
        return replace(self, entries=tuple(self.entries[i] for i in chosen))

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "source": self.source,
            "sha256": self.sha256,
            "problems": [entry.to_json() for entry in self.entries],
            "skipped": [one.to_json() for one in self.skipped],
        }


def distinct(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """Each problem once, in the order of its first appearance; repeated ones add their calls."""
    calls: dict[Problem, int] = {}
    for entry in entries:
        calls[entry.problem] = calls.get(entry.problem, 0) + entry.calls
    return tuple(Entry(problem, count) for problem, count in calls.items())
