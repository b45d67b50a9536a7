"""The page of a nightly file: what the last night came to, and how it came there."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from autotuner.jobs.nightly.run import Entry
from autotuner.report.charts import Figure, reach, scatter
from autotuner.report.compared import environment, kernels
from autotuner.report.nightly import TOGETHER, Night, Trend
from autotuner.report.page import Chart, Section, View, has_charts, render
from autotuner.report.tables import Column, Field, Table, us
from autotuner.store.figures import TOLD
from autotuner.system.text import count

MOST_CHARTS = 24
"""Series that are drawn: those that changed first. The table has all."""
_FEW = 5
"""Nights that are each named below a trend."""
NO_CHARTS = "Charts need plotly: pip install 'autotune-iree[report]'."


def page(night: Night) -> str:
    """One file that stands alone."""
    trends, found, limits = night.trends, night.comparison, night.plan.limits
    charts = tuple(map(_chart, _interesting(trends.all))) if has_charts() else ()
    alarms = [f"{one.name}: {change.words}" for one, change in night.alarms]
    changes = _changes(trends.all)
    where = environment(found) if found else _tonight(night)
    none_yet = () if changes.rows else ("No kernel has changed its level so far.",)
    view = View(
        anchor="night",
        title=f"{night.plan.name}: the night of {night.night}" if night.night else f"{night.plan.name}: no night yet",
        verdict=night.verdict,
        tone="bad" if night.exit_code else "good",
        words=(*alarms, *night.notes, *(() if has_charts() else (NO_CHARTS,))),
        facts=(
            ("Nights", f"{len(trends.nights)}"),
            ("Series", f"{len(trends.series)}"),
            ("False alarms", f"at most {limits.rate:g} % of nights, over all series"),
            ("Smallest change", f"{limits.smallest:g} %"),
            ("File", str(night.plan.path)),
        ),
        commands=(("Run what is due now", shlex.join(["autotune", "nightly", str(night.plan.path)])),),
        sections=(
            Section("parts", "Parts of the night", tables=(Table.of("Parts of the night", night.parts, _PARTS),)),
            Section("changes", "Changes", none_yet, tables=(changes,)),
            Section("trends", "Trends", charts=charts, tables=(Table.of("All series", trends.all, _TRENDS),)),
            Section("versions", "IREE versions", tables=(_versions(trends.series),)),
            Section(
                "golden",
                "Golden set",
                (found.verdict if found else _no_comparison(night),),
                tables=(kernels(found),) if found else (),
            ),
            Section("environment", "Environment", () if where.rows else ("None is known.",), tables=(where,)),
        ),
    )
    return render([view])


def _no_comparison(night: Night) -> str:
    if night.no_golden is not None:
        return "The golden set cannot be used: the summary says why."
    if night.plan.golden is None and len(night.trends.nights) <= 1:
        return "The first night of each kernel is the golden set: later nights are compared with it."
    return "Nothing was measured tonight that the golden set has."


def _tonight(night: Night) -> Table:
    """Where the parts of the night were measured; where they differ, each value."""
    known: dict[str, dict[str, None]] = {}
    for entry in night.parts:
        for name, value in entry.environment.items():
            if value not in (None, "") and name in TOLD:
                known.setdefault(name, {})[str(value)] = None
    rows = [[name, ", ".join(values)] for name, values in known.items()]
    return Table("Where the night was measured", [Column("what"), Column("tonight")], rows)


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
_CHANGES = (
    Field("series", lambda pair: pair[1].name),
    Field("change", lambda pair: "slower" if pair[0].slower else "faster", "badge"),
    Field("size in %", lambda pair: f"{100 * pair[0].size:+.2f}", "number"),
    Field("since", lambda pair: pair[0].at),
    Field("told on", lambda pair: pair[0].found),
    Field("IREE before", lambda pair: pair[0].iree_before),
    Field("IREE since", lambda pair: pair[0].iree),
    Field("device", lambda pair: pair[1].device),
)
_TRENDS = (
    Field("series", lambda one: one.name),
    Field("state", lambda one: one.state),
    Field("nights", lambda one: f"{len(one.points)}", "number"),
    Field("first µs", lambda one: us(one.points[0].us) if one.kernel else "", "number"),
    Field("last µs", lambda one: us(one.points[-1].us) if one.kernel else "", "number"),
    Field("last/first", lambda one: f"{one.points[-1].us / one.points[0].us:.4f}", "number"),
    Field("spread in %", lambda one: "" if one.spread is None else f"{100 * one.spread:.2f}", "number"),
    Field("last change", lambda one: one.changes[-1].words if one.changes else "", "long"),
)


def _changes(series: Sequence[Trend]) -> Table:
    found = [(change, one) for one in series for change in one.changes]
    found.sort(key=lambda pair: (pair[0].found, pair[1].name), reverse=True)
    return Table.of("Changes of level", found, _CHANGES)


def _versions(series: Sequence[Trend]) -> Table:
    """A series a row, an IREE a column: the median of its nights."""
    known: dict[str, None] = {}
    for point in sorted((point for one in series for point in one.points), key=lambda point: point.night):
        known.setdefault(point.iree)
    columns = [Column("series"), *(Column(f"{version or 'unknown'} µs", "number") for version in known)]
    rows = [[one.name, *(us(one.by_version().get(version)) for version in known)] for one in series]
    return Table("Medians by version of IREE", columns, rows)


def _interesting(series: Sequence[Trend]) -> list[Trend]:
    """Those that changed last, then those that all kernels share, then the longest."""
    known = [one for one in series if len(one.points) > 1]
    known.sort(key=lambda one: (one.changes[-1].found if one.changes else "", not one.kernel, len(one.points)))
    return known[::-1][:MOST_CHARTS]


def _chart(one: Trend) -> Chart:
    dates = [point.night for point in one.points]
    values = [point.us if one.kernel else 100 * (point.us - 1) for point in one.points]
    line = scatter(
        one.name,
        dates,
        values,
        mode="lines+markers",
        texts=[f"IREE {point.iree}" for point in one.points],
        hover="%{x}<br>%{y:.4g}<br>%{text}",
        line={"color": "@c1", "width": 1.5},
        marker={"size": 5},
    )
    ends = [(point.low, point.high) for point in one.points if point.low is not None and point.high is not None]
    if len(ends) == len(one.points):
        line["error_y"] = {**reach([point.us for point in one.points], ends), "thickness": 1, "width": 0}
    marks = [_line(change.at, "@bad" if change.slower else "@good", "solid") for change in one.changes]
    versions = [b.night for a, b in zip(one.points, one.points[1:], strict=False) if a.iree != b.iree]
    marks += [_line(night, "@muted", "dot") for night in versions]
    told = "; ".join(change.words for change in one.changes)
    note = ". ".join(filter(None, [told, f"dotted: another IREE ({count(len(versions), 'time')})" if versions else ""]))
    title = "µs" if one.kernel else "% from the first nights"
    # Of a few nights plotly would show the hours between them.
    xaxis = {"type": "date", **({"tickvals": dates, "tickformat": "%b %d, %Y"} if len(dates) <= _FEW else {})}
    layout = {"xaxis": xaxis, "yaxis": {"title": {"text": title}}, "shapes": marks, "showlegend": False}
    name = one.name if one.kernel else f"What {TOGETHER} on {one.target} share ({one.device})"
    return Chart(name, {"data": [line], "layout": layout}, note=note, height=240)


def _line(night: str, colour: str, dash: str) -> Figure:
    bar = {"color": colour, "width": 2 if dash == "solid" else 1, "dash": dash}
    return {"type": "line", "x0": night, "x1": night, "yref": "paper", "y0": 0, "y1": 1, "line": bar}
