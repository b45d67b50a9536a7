"""Night after night: trends, change points and alarms, and what a night came to beside the golden set."""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from autotuner.errors import EXIT_REGRESSION, AutotuneError
from autotuner.jobs.nightly.plan import Limits, Plan
from autotuner.jobs.nightly.run import Entry, nights
from autotuner.measure.changes import Change, changes, shared
from autotuner.report.compare import STATES, Comparison, ResultSet, compare, find_rule
from autotuner.report.compared import document as comparison_document
from autotuner.report.sets import open_set
from autotuner.store.figures import Figure, Measurements
from autotuner.system.text import count

SCHEMA = 1
TOGETHER = "all kernels"

Key = tuple[str, str, str, str]
"""Problem, target, kernel and device."""


@dataclass(frozen=True)
class Point:
    """A kernel's time in one night."""

    night: str
    us: float
    low: float | None
    high: float | None
    iree: str


@dataclass(frozen=True)
class Found:
    """A change of level, by the nights' dates."""

    at: str
    """The first night of the new level."""
    found: str
    """The night in which it was certain enough to tell."""
    size: float
    """As a part: 0.02 is 2 % slower."""
    iree_before: str
    iree: str

    @property
    def slower(self) -> bool:
        return self.size > 0

    @property
    def words(self) -> str:
        how = "slower" if self.slower else "faster"
        version = f"IREE {self.iree_before} → {self.iree}" if self.iree != self.iree_before else f"IREE {self.iree}"
        return f"{abs(self.size):.1%} {how} since {self.at} ({version}), told on {self.found}"


@dataclass(frozen=True)
class Trend:
    """One kernel over the nights, or what all kernels of a device did together."""

    problem: str
    target: str
    kernel: str
    device: str
    state: str
    points: tuple[Point, ...]
    changes: tuple[Found, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.problem} {self.kernel} on {self.target}" if self.kernel else f"{TOGETHER} on {self.target}"

    @property
    def spread(self) -> float | None:
        """From night to night, as a part of the time: without what was a change of level."""
        steps = [math.log(b.us / a.us) for a, b in zip(self.points, self.points[1:], strict=False)]
        return median(map(abs, steps)) * 1.4826 / math.sqrt(2) if len(steps) > 2 else None

    def by_version(self) -> dict[str, float]:
        """The median with each IREE, in the order in which they came."""
        found: dict[str, list[float]] = {}
        for point in self.points:
            found.setdefault(point.iree, []).append(point.us)
        return {version: median(values) for version, values in found.items()}


@dataclass(frozen=True)
class Trends:
    """All series of a history."""

    nights: tuple[str, ...]
    series: tuple[Trend, ...]
    together: tuple[Trend, ...] = ()

    @property
    def all(self) -> tuple[Trend, ...]:
        return (*self.together, *self.series)

    def alarms(self) -> list[tuple[Trend, Found]]:
        """What became slower for good, and is known since the last night."""
        last = self.nights[-1] if self.nights else ""
        return [(one, change) for one in self.all for change in one.changes if change.slower and change.found == last]


def trends(entries: Sequence[Entry], limits: Limits) -> Trends:
    """Series of the default and the best with a warm cache; each in the state that it has most nights of."""
    when = nights(entries)
    place = {night: index for index, night in enumerate(when)}
    series = [_series(key, found, place) for key, found in sorted(_collected(entries).items())]
    # Every series of a night could alarm: the rate is shared among them.
    groups = sorted({(one.target, one.device) for one in series})
    rate = limits.rate / 100 / max(1, len(series) + len(groups))
    smallest = math.log1p(limits.smallest / 100)
    judged: list[Trend] = []
    together: list[Trend] = []
    for target, device in groups:
        group = [one for one in series if (one.target, one.device) == (target, device)]
        values = [{} for _ in when]  # type: list[dict[str, float]]
        for one in group:
            for point in one.points:
                values[place[point.night]][one.name] = math.log(point.us)
        parted = shared(values)
        versions = {point.night: point.iree for one in group for point in one.points}
        for one in group:
            own = parted.own.get(one.name, ())
            judged.append(_with_changes(one, own, when, versions, rate=rate, smallest=smallest))
        if parted.together:
            points = tuple(Point(when[n], math.exp(v), None, None, versions[when[n]]) for n, v in parted.together)
            whole = Trend("", target, "", device, "", points)
            together.append(_with_changes(whole, parted.together, when, versions, rate=rate, smallest=smallest))
    return Trends(tuple(when), tuple(judged), tuple(together))


def _with_changes(
    one: Trend,
    values: Sequence[tuple[int, float]],
    when: Sequence[str],
    versions: Mapping[str, str],
    *,
    rate: float,
    smallest: float,
) -> Trend:
    dates = [when[night] for night, _ in values]
    found = changes([value for _, value in values], rate=rate, smallest=smallest)
    told = tuple(_found(change, dates, versions) for change in found)
    return replace(one, changes=told)


def _found(change: Change, dates: Sequence[str], versions: Mapping[str, str]) -> Found:
    at, before = dates[change.at], dates[max(change.at - 1, 0)]
    return Found(at, dates[change.found], change.size, versions.get(before, ""), versions.get(at, ""))


def _collected(entries: Iterable[Entry]) -> Mapping[Key, list[tuple[str, str, Figure]]]:
    """By kernel: night, IREE and figure."""
    found: dict[Key, list[tuple[str, str, Figure]]] = {}
    for entry in entries:
        for figure in _warm(entry):
            key = (*figure.key, figure.device)
            found.setdefault(key, []).append((entry.night, str(entry.environment.get("iree", "")), figure))
    return found


def _warm(entry: Entry) -> Iterator[Figure]:
    return (figure for figure in entry.figures if figure.cache == "warm" and figure.us > 0)


def _series(key: Key, found: Sequence[tuple[str, str, Figure]], place: Mapping[str, int]) -> Trend:
    """In one state; of several figures of a night the last counts."""
    seen = Counter(state for state, _ in {(figure.state, night) for night, _, figure in found})
    state = max(seen, key=lambda one: (seen[one], -STATES.index(one) if one in STATES else -len(STATES)))
    points = {
        night: Point(night, figure.us, figure.low, figure.high, iree)
        for night, iree, figure in sorted(found, key=lambda one: (place[one[0]], one[2].started, one[2].blocks))
        if figure.state == state
    }
    problem, target, kernel, device = key
    return Trend(problem, target, kernel, device, state, tuple(points.values()))


# --- a night ---------------------------------------------------------------------------------------------------------


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
