"""The page of a nightly file: what the last night came to, and how it came there."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from autotuner.jobs.nightly.run import Entry
from autotuner.report.charts import Figure, reach, scatter
from autotuner.report.compared import environment, kernels
from autotuner.report.nightly import Night, Trend, alarm_words
from autotuner.report.page import Chart, Section, View, has_charts, render
from autotuner.report.tables import Field, Table, us
from autotuner.system.text import count

MOST_CHARTS = 24
"""Series that are drawn: those that moved most. The table has all."""
_FEW = 5
"""Nights that are each named below a trend."""
NO_CHARTS = "Charts need plotly: pip install 'autotune-iree[report]'."


def page(night: Night) -> str:
    """One file that stands alone."""
    charts = tuple(map(_chart, _interesting(night.trends))) if has_charts() else ()
    alarms = [alarm_words(*alarm) for alarm in night.alarms]
    view = View(
        anchor="night",
        title=f"{night.plan.name}: the night of {night.night}" if night.night else f"{night.plan.name}: no night yet",
        verdict=night.verdict,
        tone="bad" if night.exit_code else "good",
        words=(*alarms, *night.notes, *(() if has_charts() else (NO_CHARTS,))),
        facts=(
            ("Nights", f"{len(night.nights)}"),
            ("Series", f"{len(night.trends)}"),
            ("Rule", night.golden.rule.words),
            ("File", str(night.plan.path)),
        ),
        commands=(("Run what is due now", shlex.join(["autotune", "nightly", str(night.plan.path)])),),
        sections=(
            Section("parts", "Parts of the night", tables=(Table.of("Parts of the night", night.parts, _PARTS),)),
            Section("recent", "The last nights", tables=(kernels(night.recent),)),
            Section("trends", "Trends", charts=charts, tables=(Table.of("All series", night.trends, _TRENDS),)),
            Section("golden", "Golden set", (night.golden.verdict,), tables=(kernels(night.golden),)),
            Section("environment", "Environment", tables=(environment(night.golden),)),
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
    Field("device", lambda one: one.device),
    Field("nights", lambda one: f"{len(one.points)}", "number"),
    Field("first µs", lambda one: us(one.points[0].figure.us), "number"),
    Field("last µs", lambda one: us(one.points[-1].figure.us), "number"),
    Field("last/first", lambda one: f"{one.change:.4f}", "number"),
    Field("IREE", lambda one: one.points[-1].iree),
)


def _interesting(series: Sequence[Trend]) -> list[Trend]:
    """Those that moved most."""
    known = [one for one in series if len(one.points) > 1]
    return sorted(known, key=lambda one: abs(one.change - 1), reverse=True)[:MOST_CHARTS]


def _chart(one: Trend) -> Chart:
    dates = [point.night for point in one.points]
    values = [point.figure.us for point in one.points]
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
    ends = [point.figure.interval for point in one.points if point.figure.interval is not None]
    if len(ends) == len(one.points):
        line["error_y"] = {**reach(values, ends), "thickness": 1, "width": 0}
    versions = [b.night for a, b in zip(one.points, one.points[1:], strict=False) if a.iree != b.iree]
    note = f"dotted: another IREE ({count(len(versions), 'time')})" if versions else ""
    # Of a few nights plotly would show the hours between them.
    xaxis = {"type": "date", **({"tickvals": dates, "tickformat": "%b %d, %Y"} if len(dates) <= _FEW else {})}
    marks = [_line(night) for night in versions]
    layout = {"xaxis": xaxis, "yaxis": {"title": {"text": "µs"}}, "shapes": marks, "showlegend": False}
    return Chart(one.name, {"data": [line], "layout": layout}, note=note, height=240)


def _line(night: str) -> Figure:
    bar = {"color": "@muted", "width": 1, "dash": "dot"}
    return {"type": "line", "x0": night, "x1": night, "yref": "paper", "y0": 0, "y1": 1, "line": bar}
