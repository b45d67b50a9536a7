"""What a night came to: its parts, its alarms, and how it compares with the golden set."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from autotuner.errors import EXIT_REGRESSION, AutotuneError
from autotuner.jobs.nightly.history import Entry, nights
from autotuner.jobs.nightly.plan import Plan
from autotuner.report.compare.join import Comparison, ResultSet, compare
from autotuner.report.compare.render import document as comparison_document
from autotuner.report.compare.rules import find_rule
from autotuner.report.compare.sets import open_set
from autotuner.report.nightly.trends import Found, Trend, Trends, trends
from autotuner.store.figures import Figure, Measurements
from autotuner.system.text import count

SCHEMA = 1


@dataclass(frozen=True)
class Night:
    """The last night of a history, and what led to it."""

    plan: Plan
    night: str
    parts: tuple[Entry, ...]
    trends: Trends
    comparison: Comparison | None
    no_golden: AutotuneError | None = None
    """Why the golden set that the file names cannot be used."""

    @property
    def notes(self) -> list[str]:
        if self.no_golden is None:
            return []
        export = f"autotune export --json --workspace {shlex.quote(str(self.plan.workspace))} > golden.json"
        make = f"`{export}` makes one of what is measured; without `golden` the first night of each kernel counts"
        return [f"the golden set cannot be used: {self.no_golden} {make}"]

    @property
    def failed(self) -> list[Entry]:
        """Of the file as it is now: what was taken out of it fails no more."""
        planned = {part.name for part in self.plan.parts}
        return [part for part in self.parts if part.status == "failed" and part.part in planned]

    @property
    def alarms(self) -> list[tuple[Trend, Found]]:
        return self.trends.alarms()

    @property
    def regressed(self) -> bool:
        return self.comparison is not None and self.comparison.regressed

    @property
    def exit_code(self) -> int:
        """6 for an alarm, otherwise that of the first part that failed, or of a golden set that cannot be used."""
        if self.alarms or (self.plan.limits.fail and self.regressed):
            return EXIT_REGRESSION
        return next((part.exit_code for part in self.failed), self.no_golden.exit_code if self.no_golden else 0)

    @property
    def verdict(self) -> str:
        told = [
            count(len(self.alarms), "alarm") if self.alarms else "no alarm",
            *([f"{count(len(self.failed), 'part')} failed"] if self.failed else []),
            *([f"against the golden set: {self.comparison.verdict}"] if self.comparison else []),
        ]
        return "; ".join(told)

    def to_json(self) -> dict[str, Any]:
        """What --json prints."""
        return {
            "schema": SCHEMA,
            "name": self.plan.name,
            "night": self.night,
            "verdict": self.verdict,
            "exit_code": self.exit_code,
            "parts": [_part(entry) for entry in self.parts],
            "alarms": [_change(*alarm) for alarm in self.alarms],
            "changes": [_change(one, change) for one in self.trends.all for change in one.changes],
            "compare": comparison_document(self.comparison) if self.comparison else None,
            "page": str(self.plan.page),
            "notes": self.notes,
        }


def _part(entry: Entry) -> dict[str, Any]:
    plain = ("part", "status", "run", "exit_code", "reason", "seconds")
    return {**{name: getattr(entry, name) for name in plain}, "command": shlex.join(["autotune", *entry.command])}


def _change(one: Trend, change: Found) -> dict[str, Any]:
    return {
        "series": one.name,
        "device": one.device,
        **{name: getattr(change, name) for name in ("at", "found", "size", "iree_before", "iree")},
    }


def look_at(plan: Plan, entries: Sequence[Entry]) -> Night:
    """Judges a history. A golden set that cannot be read is a note: the night's own figures are told all the same."""
    when = nights(entries)
    night = when[-1] if when else ""
    ends = {entry.part: entry for entry in entries if entry.night == night and entry.status != "begun"}
    begun = [entry for entry in entries if entry.night == night and entry.part not in ends]
    parts = (*ends.values(), *({entry.part: entry for entry in begun}.values()))
    new, limits = _set(night, ends.values()), plan.limits
    comparison, trouble = None, None
    if new.found.figures or new.found.failures:
        try:
            golden = _golden(plan, [entry for entry in entries if entry.night != night])
            if golden.found.figures:
                comparison = compare(golden, new, find_rule(limits.rule, percent=limits.threshold))
        except AutotuneError as error:
            trouble = error
    return Night(plan, night, parts, trends(entries, limits), comparison, trouble)


def _golden(plan: Plan, entries: Sequence[Entry]) -> ResultSet:
    """What the file names, or the first figure of each kernel in the history."""
    if plan.golden is not None:
        return open_set(plan.golden, workspace=plan.workspace)
    first: dict[tuple[object, ...], Figure] = {}
    environments = []
    for entry in entries:
        new = [figure for figure in entry.figures if (figure.key, figure.conditions) not in first]
        first |= {(figure.key, figure.conditions): figure for figure in reversed(new)}
        environments += [entry.environment] if new else []
    return ResultSet("the first night of each kernel", Measurements(tuple(first.values()), (), tuple(environments)))


def _set(night: str, entries: Iterable[Entry]) -> ResultSet:
    own = [*entries]
    figures = tuple(figure for entry in own for figure in entry.figures)
    failures = tuple(failure for entry in own for failure in entry.failures)
    environments = tuple(entry.environment for entry in own if entry.environment)
    return ResultSet(f"the night of {night}", Measurements(figures, failures, environments))
