"""Night after night: what a night came to beside the golden set and beside the nights before it; trends."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from autotuner.errors import EXIT_REGRESSION, AutotuneError
from autotuner.jobs.nightly.plan import Plan
from autotuner.jobs.nightly.run import Entry, nights
from autotuner.report.compare import Comparison, ResultSet, Row, compare, find_rule
from autotuner.report.compared import document as comparison_document
from autotuner.report.sets import open_set
from autotuner.store.figures import Figure, Measurements
from autotuner.system.text import count

SCHEMA = 1
RECENT, LEAST_RECENT = 7, 3
"""The last times that a kernel was measured, which a night is compared with; with fewer it is not."""


@dataclass(frozen=True)
class Point:
    """A kernel's time in one night."""

    night: str
    iree: str
    figure: Figure


@dataclass(frozen=True)
class Trend:
    """One kernel over the nights, in the state that it has most nights of."""

    problem: str
    target: str
    kernel: str
    device: str
    points: tuple[Point, ...]

    @property
    def name(self) -> str:
        return f"{self.problem} {self.kernel} on {self.target}"

    @property
    def change(self) -> float:
        """The last night's time over the first one's."""
        return self.points[-1].figure.us / self.points[0].figure.us


def trends(entries: Sequence[Entry]) -> tuple[Trend, ...]:
    """Of the default and the best with a warm cache."""
    found: dict[tuple[str, ...], list[Point]] = {}
    for entry in entries:
        for figure in entry.figures:
            if figure.cache == "warm" and figure.us > 0:
                point = Point(entry.night, str(entry.environment.get("iree", "")), figure)
                found.setdefault((*figure.key, figure.device), []).append(point)
    return tuple(_trend(key, points) for key, points in sorted(found.items()))


def _trend(key: tuple[str, ...], points: Sequence[Point]) -> Trend:
    """In one state; of several figures of a night the last counts."""
    states = Counter(point.figure.state for point in points)
    (state, _), *_ = states.most_common(1)
    problem, target, kernel, device = key
    own = {point.night: point for point in points if point.figure.state == state}
    return Trend(problem, target, kernel, device, tuple(own.values()))


# --- a night ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Night:
    """The last night of a history, and what led to it."""

    plan: Plan
    nights: Sequence[str]
    parts: tuple[Entry, ...]
    trends: tuple[Trend, ...]
    golden: Comparison
    """With the golden set; nothing is in it where that cannot be used."""
    recent: Comparison
    """With the nights before."""
    no_golden: AutotuneError | None = None
    """Why the golden set that the file names cannot be used."""

    @property
    def night(self) -> str:
        return self.nights[-1] if self.nights else ""

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
    def alarms(self) -> list[tuple[Comparison, Row]]:
        """What is slower than in the nights before; with `fail` also what is slower than the golden set."""
        sides = (self.recent, *([self.golden] if self.plan.limits.fail else []))
        return [(side, row) for side in sides for row in side.rows if row.verdict == "regression"]

    @property
    def exit_code(self) -> int:
        """6 for an alarm, otherwise that of the first part that failed, or of a golden set that cannot be used."""
        if self.alarms or (self.plan.limits.fail and self.golden.regressed):
            return EXIT_REGRESSION
        return next((part.exit_code for part in self.failed), self.no_golden.exit_code if self.no_golden else 0)

    @property
    def verdict(self) -> str:
        told = [
            count(len(self.alarms), "alarm") if self.alarms else "no alarm",
            *([f"{count(len(self.failed), 'part')} failed"] if self.failed else []),
            *([f"against the golden set: {self.golden.verdict}"] if self.golden.compared else []),
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
            "alarms": [_alarm(*alarm) for alarm in self.alarms],
            "compare": comparison_document(self.golden) if self.golden.compared else None,
            "page": str(self.plan.page),
            "notes": self.notes,
        }


def alarm_words(side: Comparison, row: Row) -> str:
    """A kernel that became slower: by how much, than what, and whether IREE is another one since."""
    slower = f"{(row.ratio or 1.0) - 1:.1%} slower than {side.golden}"
    before, after = _versions(side)
    version = f" (IREE {before} → {after})" if before != after else ""
    return f"{row.problem} {row.kernel} on {row.target}: {slower}{version}"


def _versions(side: Comparison) -> tuple[str, str]:
    """The IREE of both sides of a comparison."""
    known = {fact.name: fact for fact in side.environment}
    return (", ".join(known["iree"].golden), ", ".join(known["iree"].new)) if "iree" in known else ("", "")


def _alarm(side: Comparison, row: Row) -> dict[str, Any]:
    before, after = _versions(side)
    series = f"{row.problem} {row.kernel} on {row.target}"
    size = (row.ratio or 1.0) - 1
    return {"series": series, "size": size, "than": side.golden, "iree_before": before, "iree": after}


def _part(entry: Entry) -> dict[str, Any]:
    plain = ("part", "status", "run", "exit_code", "reason", "seconds")
    return {**{name: getattr(entry, name) for name in plain}, "command": shlex.join(["autotune", *entry.command])}


def look_at(plan: Plan, entries: Sequence[Entry]) -> Night:
    """Judges a history. A golden set that cannot be read is a note: the night's own figures are told all the same."""
    when = nights(entries)
    night = when[-1] if when else ""
    tonight = [entry for entry in entries if entry.night == night]
    ends = {entry.part: entry for entry in tonight if entry.status != "begun"}
    parts = {**ends, **{entry.part: entry for entry in tonight if entry.part not in ends}}
    before = [entry for entry in entries if entry.night != night]
    new = _set(f"the night of {night}", ends.values())
    rule = find_rule(plan.limits.rule, percent=plan.limits.threshold)
    golden, trouble = ResultSet("the first night of each kernel", Measurements()), None
    try:
        golden = open_set(plan.golden, workspace=plan.workspace) if plan.golden is not None else _first(before)
    except AutotuneError as error:
        trouble = error
    recent = compare(_recent(before), new, rule)
    return Night(plan, when, (*parts.values(),), trends(entries), compare(golden, new, rule), recent, trouble)


def _set(name: str, entries: Iterable[Entry]) -> ResultSet:
    own = [*entries]
    figures = tuple(figure for entry in own for figure in entry.figures)
    failures = tuple(failure for entry in own for failure in entry.failures)
    environments = tuple(entry.environment for entry in own if entry.environment)
    return ResultSet(name, Measurements(figures, failures, environments))


def _first(entries: Sequence[Entry]) -> ResultSet:
    """The first figure of each kernel in the history."""
    first: dict[tuple[object, ...], Figure] = {}
    environments = []
    for entry in entries:
        new = [figure for figure in entry.figures if (figure.key, figure.conditions) not in first]
        first |= {(figure.key, figure.conditions): figure for figure in reversed(new)}
        environments += [entry.environment] if new else []
    return ResultSet("the first night of each kernel", Measurements(tuple(first.values()), (), tuple(environments)))


def _recent(entries: Sequence[Entry]) -> ResultSet:
    """The median of each kernel's last figures; its interval reaches over all of theirs."""
    found: dict[tuple[object, ...], list[Figure]] = {}
    for figure in (figure for entry in entries for figure in entry.figures):
        found.setdefault((figure.key, figure.conditions), []).append(figure)
    last = [own[-RECENT:] for own in found.values() if len(own) >= LEAST_RECENT]
    figures = tuple(
        replace(
            own[-1],
            us=median(one.us for one in own),
            low=min(one.us if one.low is None else one.low for one in own),
            high=max(one.us if one.high is None else one.high for one in own),
            run="",
        )
        for own in last
    )
    environments = tuple(entry.environment for entry in entries[-1:] if entry.environment)
    return ResultSet("the last nights", Measurements(figures, (), environments))
