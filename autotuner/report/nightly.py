"""A night's result beside the golden set or the nights before it, and its page."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from autotuner.errors import EXIT_REGRESSION, AutotuneError
from autotuner.jobs.nightly.plan import Plan
from autotuner.jobs.nightly.run import Entry, nights
from autotuner.report.charts import Plot, Scale
from autotuner.report.charts import Point as Dot
from autotuner.report.compare import Comparison, ResultSet, Row, compare, limit_of, open_set
from autotuner.report.compared import document as comparison_document
from autotuner.report.compared import environment, kernels
from autotuner.report.page import Section, View, render
from autotuner.report.tables import Field, Table, us
from autotuner.store.figures import Figure, Measurements
from autotuner.system.text import count

SCHEMA = 1
RECENT, LEAST_RECENT = 7, 3
"""The last times that a kernel was measured, which a night is compared with; with fewer it is not."""
MOST_CHARTS = 24
"""Series that are drawn: those that moved most. The table has all."""


@dataclass(frozen=True)
class Point:
    """A kernel's time in one night."""

    night: str
    iree: str
    figure: Figure


@dataclass(frozen=True)
class Trend:
    """One kernel over the nights, in one state."""

    points: tuple[Point, ...]

    @property
    def last(self) -> Figure:
        return self.points[-1].figure

    @property
    def name(self) -> str:
        return f"{self.last.problem} {self.last.kernel} on {self.last.target}"

    @property
    def change(self) -> float:
        """The last night's time over the first one's."""
        return self.last.us / self.points[0].figure.us


def trends(entries: Sequence[Entry]) -> tuple[Trend, ...]:
    """Trends of warm timings; of several figures of a night the last counts."""
    found: dict[tuple[tuple[str, ...], ...], dict[str, Point]] = {}
    for entry in entries:
        for figure in entry.figures:
            if figure.cache == "warm" and figure.us > 0:
                point = Point(entry.night, str(entry.environment.get("iree", "")), figure)
                found.setdefault((figure.key, figure.conditions), {})[entry.night] = point
    return tuple(Trend(tuple(points.values())) for _, points in sorted(found.items()))


# --- a night ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Night:
    """The last night of a history, and what led to it."""

    plan: Plan
    nights: Sequence[str]
    parts: tuple[Entry, ...]
    trends: tuple[Trend, ...]
    compared: Comparison
    """With the golden set, or without one with the nights before."""
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
        make = f"`{export}` makes one of what is measured; without `golden` the last nights count"
        return [f"the golden set cannot be used: {self.no_golden} {make}"]

    @property
    def failed(self) -> list[Entry]:
        """Failed parts that are still in the file."""
        planned = {part.name for part in self.plan.parts}
        return [part for part in self.parts if part.status == "failed" and part.part in planned]

    @property
    def alarms(self) -> list[str]:
        """What is slower or fails now, and whether IREE has changed since."""
        before, after = self._versions
        version = f" (IREE {before} → {after})" if before != after else ""
        return [f"{row.name}: {self._became(row)}{version}" for row in self.compared.regressed]

    def _became(self, row: Row) -> str:
        if row.ratio is None:
            return f"failed: {row.note}"
        return f"{row.ratio - 1:.1%} slower than {self.compared.golden}"

    @property
    def _versions(self) -> tuple[str, str]:
        """The IREE of both sides."""
        known = {fact.name: fact for fact in self.compared.environment}
        return (", ".join(known["iree"].golden), ", ".join(known["iree"].new)) if "iree" in known else ("", "")

    @property
    def unclear(self) -> bool:
        """Something of the night has no verdict, or was not measured."""
        some = {"unclear", "only-golden"} & {*self.compared.counts}
        return bool(some or self.notes or any(part.status != "finished" for part in self.parts))

    @property
    def exit_code(self) -> int:
        """6 for an alarm, otherwise that of the first part that failed, or of a golden set that cannot be used."""
        if self.compared.regressed:
            return EXIT_REGRESSION
        return next((part.exit_code for part in self.failed), self.no_golden.exit_code if self.no_golden else 0)

    @property
    def verdict(self) -> str:
        told = [
            count(len(self.alarms), "alarm") if self.alarms else "no alarm",
            *([f"{count(len(self.failed), 'part')} failed"] if self.failed else []),
            *([f"against {self.compared.golden}: {self.compared.verdict}"] if self.compared.compared else []),
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
            "alarms": [self._alarm(row) for row in self.compared.regressed],
            "compare": comparison_document(self.compared) if self.compared.compared else None,
            "page": str(self.plan.page),
            "notes": self.notes,
        }

    def _alarm(self, row: Row) -> dict[str, Any]:
        before, after = self._versions
        size = None if row.ratio is None else row.ratio - 1
        return {"series": row.name, "size": size, "than": self.compared.golden, "iree_before": before, "iree": after}


def _part(entry: Entry) -> dict[str, Any]:
    plain = ("part", "status", "run", "exit_code", "reason", "seconds")
    return {**{name: getattr(entry, name) for name in plain}, "command": shlex.join(["autotune", *entry.command])}


def look_at(plan: Plan, entries: Sequence[Entry]) -> Night:
    """Judges a history. A golden set that cannot be read is a note; the night's figures are shown all the same."""
    when = nights(entries)
    night = when[-1] if when else ""
    tonight = [entry for entry in entries if entry.night == night]
    ends = {entry.part: entry for entry in tonight if entry.status != "begun"}
    parts = {**ends, **{entry.part: entry for entry in tonight if entry.part not in ends}}
    golden, trouble = ResultSet("the golden set", Measurements()), None
    try:
        if plan.golden is not None:
            golden = replace(golden, found=open_set(plan.golden, workspace=plan.workspace).found)
        else:
            golden = _recent([entry for entry in entries if entry.night != night])
    except AutotuneError as error:
        trouble = error
    compared = compare(golden, _tonight(f"the night of {night}", ends.values()), limit_of(plan.threshold))
    return Night(plan, when, (*parts.values(),), trends(entries), compared, trouble)


def _tonight(name: str, entries: Iterable[Entry]) -> ResultSet:
    own = [*entries]
    figures = tuple(figure for entry in own for figure in entry.figures)
    failures = tuple(failure for entry in own for failure in entry.failures)
    environments = tuple(entry.environment for entry in own if entry.environment)
    return ResultSet(name, Measurements(figures, failures, environments))


def _recent(entries: Sequence[Entry]) -> ResultSet:
    """The median of each kernel's last figures; its interval reaches over all of theirs."""
    found: dict[object, list[Figure]] = {}
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


# --- its page --------------------------------------------------------------------------------------------------------


def page(night: Night) -> str:
    """One file: changes first, the rest folded away."""
    compared = night.compared
    changed, same = (
        replace(kernels(replace(compared, rows=tuple(rows))), caption=caption)
        for caption, rows in (
            ("What changed, or cannot be compared", [row for row in compared.rows if row.verdict != "same"]),
            (f"{compared.counts.get('same', 0)} the same", [row for row in compared.rows if row.verdict == "same"]),
        )
    )
    differing, alike = (
        replace(environment(replace(compared, environment=tuple(facts))), caption=caption)
        for caption, facts in (
            ("What differs", [fact for fact in compared.differing if fact.golden]),
            ("The same on both sides", [fact for fact in compared.environment if not fact.differs]),
        )
    )
    view = View(
        anchor="night",
        title=f"{night.plan.name}: the night of {night.night}" if night.night else f"{night.plan.name}: no night yet",
        verdict=night.verdict,
        tone="bad" if night.exit_code else "good" if compared.compared and not night.unclear else "warn",
        words=(*night.alarms, *night.notes),
        facts=(
            ("Nights", f"{len(night.nights)}"),
            ("Series", f"{len(night.trends)}"),
            ("Rule", night.compared.rule),
            ("File", str(night.plan.path)),
        ),
        commands=(("Run what is due now", shlex.join(["autotune", "nightly", str(night.plan.path)])),),
        sections=(
            Section("parts", "Parts of the night", tables=(Table.of("With their results", night.parts, _PARTS),)),
            Section("compared", f"Beside {night.compared.golden}", tables=(changed,), folded=(same,)),
            Section(
                "trends",
                "Trends",
                charts=tuple(map(_chart, _interesting(night.trends))),
                tables=(Table.of("All series", night.trends, _TRENDS),),
            ),
            Section("environment", "Environment", tables=(differing,), folded=(alike,)),
        ),
    )
    return render([view])


def _reason(entry: Entry) -> str:
    failed = (f"{one.problem} failed: {one.reason}" for one in entry.failures)
    return "; ".join([entry.reason, *failed]).strip("; ")


_PARTS = (
    Field("part", lambda entry: entry.part),
    Field("status", lambda entry: "interrupted" if entry.status == "begun" else entry.status, "badge"),
    Field("kernels", lambda entry: f"{len(entry.figures)}", "number"),
    Field("seconds", lambda entry: f"{entry.seconds:.0f}", "number"),
    Field("exit", lambda entry: f"{entry.exit_code}", "number"),
    Field("reason", _reason, "long"),
    Field("run", lambda entry: entry.run or "", "code"),
    Field("command", lambda entry: shlex.join(["autotune", *entry.command]), "code"),
)
_TRENDS = (
    Field("series", lambda one: one.name),
    Field("state", lambda one: one.last.state),
    Field("device", lambda one: one.last.device),
    Field("nights", lambda one: f"{len(one.points)}", "number"),
    Field("first µs", lambda one: us(one.points[0].figure.us), "number"),
    Field("last µs", lambda one: us(one.last.us), "number"),
    Field("last/first", lambda one: f"{one.change:.4f}", "number"),
    Field("IREE", lambda one: one.points[-1].iree),
)


def _interesting(series: Sequence[Trend]) -> list[Trend]:
    """Those that moved most."""
    known = [one for one in series if len(one.points) > 1]
    return sorted(known, key=lambda one: abs(one.change - 1), reverse=True)[:MOST_CHARTS]


def _chart(one: Trend) -> Plot:
    points = [(n, point.figure.us, point) for n, point in enumerate(one.points)]
    x = Scale.over([0, len(points) - 1])
    return Plot(
        one.name,
        x,
        Scale.over([us for _, us, _ in points]),
        [Dot(n, us, f"{point.night}: {us:.4g} µs, IREE {point.iree}", "c1") for n, us, point in points],
        [(n, us) for n, us, _ in points],
        ("", "µs"),
        names=[(x.at(n), points[n][2].night) for n in (0, len(points) - 1)],
    )
