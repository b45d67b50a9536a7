"""The page of a nightly file: what the last night came to, and how it came there."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

from autotuner.report.cells import us
from autotuner.report.compare.page import environment, kernels
from autotuner.report.nightly.night import Night
from autotuner.report.nightly.trends import TOGETHER, Trend
from autotuner.report.page import Chart, Column, Table, has_charts, plain, render
from autotuner.store.figures import TOLD
from autotuner.system.text import count

MOST_CHARTS = 24
"""Series that are drawn: those that changed first. The table has all."""
_FEW = 5
"""Nights that are each named below a trend."""
NO_CHARTS = "Charts need plotly: pip install 'autotune-iree[report]'."


def page(night: Night) -> str:
    """One file that stands alone."""
    charts = [_chart(one) for one in _interesting(night.trends.all)] if has_charts() else []
    found = night.comparison
    limits = night.plan.limits
    return render(
        "report/nightly.html.j2",
        title=f"{night.plan.name}: the night of {night.night}" if night.night else f"{night.plan.name}: no night yet",
        charts=bool(charts),
        verdict=night.verdict,
        tone="bad" if night.exit_code else "good",
        alarms=[f"{one.name}: {change.words}" for one, change in night.alarms],
        told=[
            ("Nights", f"{len(night.trends.nights)}"),
            ("Series", f"{len(night.trends.series)}"),
            ("False alarms", f"at most {limits.rate:g} % of nights, over all series"),
            ("Smallest change", f"{limits.smallest:g} %"),
            ("File", str(night.plan.path)),
        ],
        notes=[*night.notes, *([] if has_charts() else [NO_CHARTS])],
        parts=_parts(night),
        again=shlex.join(["autotune", "nightly", str(night.plan.path)]),
        changes=_changes(night.trends.all),
        figures=charts,
        trends=_table(night.trends.all),
        versions=_versions(night.trends.series),
        compared=found.verdict if found else _no_comparison(night),
        kernels=kernels(found.rows) if found else None,
        environment=environment(found) if found else _tonight(night),
    )


def _no_comparison(night: Night) -> str:
    if night.no_golden is not None:
        return "The golden set cannot be used: the summary says why."
    if night.plan.golden is None and len(night.trends.nights) <= 1:
        return "The first night of each kernel is the golden set: later nights are compared with it."
    return "Nothing was measured tonight that the golden set has."


def _tonight(night: Night) -> Table | None:
    """Where the parts of the night were measured; where they differ, each value."""
    known: dict[str, dict[str, None]] = {}
    for entry in night.parts:
        for name, value in entry.environment.items():
            if value not in (None, "") and name in TOLD:
                known.setdefault(name, {})[str(value)] = None
    rows = [[name, ", ".join(values)] for name, values in known.items()]
    return Table("Where the night was measured", [Column("what"), Column("tonight")], rows) if rows else None


def _parts(night: Night) -> Table:
    columns = [
        *(Column("part"), Column("status", "badge"), Column("kernels", "number"), Column("seconds", "number")),
        *(Column("exit", "number"), Column("reason", "long"), Column("run", "code"), Column("command", "code")),
    ]
    rows = [
        [
            entry.part,
            "interrupted" if entry.status == "begun" else entry.status,
            f"{len(entry.figures)}",
            f"{entry.seconds:.0f}",
            f"{entry.exit_code}",
            "; ".join([entry.reason, *(f"{one.problem} failed: {one.reason}" for one in entry.failures)]).strip("; "),
            entry.run or "",
            shlex.join(["autotune", *entry.command]),
        ]
        for entry in night.parts
    ]
    return Table("Parts of the night", columns, rows)


def _changes(series: Sequence[Trend]) -> Table:
    columns = [
        *(Column("series"), Column("change", "badge"), Column("size in %", "number"), Column("since")),
        *(Column("told on"), Column("IREE before"), Column("IREE since"), Column("device")),
    ]
    found = [(change, one) for one in series for change in one.changes]
    rows = [
        [
            *(one.name, "slower" if change.slower else "faster", f"{100 * change.size:+.2f}", change.at),
            *(change.found, change.iree_before, change.iree, one.device),
        ]
        for change, one in sorted(found, key=lambda pair: (pair[0].found, pair[1].name), reverse=True)
    ]
    return Table("Changes of level", columns, rows)


def _table(series: Sequence[Trend]) -> Table:
    columns = [
        *(Column("series"), Column("state"), Column("nights", "number"), Column("first µs", "number")),
        *(Column("last µs", "number"), Column("last/first", "number"), Column("spread in %", "number")),
        *(Column("last change", "long"),),
    ]
    rows = []
    for one in series:
        first, last = one.points[0].us, one.points[-1].us
        shown = [us(first), us(last)] if one.kernel else ["", ""]
        spread = "" if one.spread is None else f"{100 * one.spread:.2f}"
        words = one.changes[-1].words if one.changes else ""
        rows.append([one.name, one.state, f"{len(one.points)}", *shown, f"{last / first:.4f}", spread, words])
    return Table("All series", columns, rows)


def _versions(series: Sequence[Trend]) -> Table:
    """A series a row, an IREE a column: the median of its nights."""
    known: dict[str, None] = {}
    for point in sorted((point for one in series for point in one.points), key=lambda point: point.night):
        known.setdefault(point.iree)
    columns = [Column("series"), *(Column(f"{version or 'unknown'} µs", "number") for version in known)]
    rows = []
    for one in series:
        medians = one.by_version()
        rows.append([one.name, *(us(medians.get(version)) for version in known)])
    return Table("Medians by version of IREE", columns, rows)


def _interesting(series: Sequence[Trend]) -> list[Trend]:
    """Those that changed last, then those that all kernels share, then the longest."""
    known = [one for one in series if len(one.points) > 1]
    known.sort(key=lambda one: (one.changes[-1].found if one.changes else "", not one.kernel, len(one.points)))
    return known[::-1][:MOST_CHARTS]


def _chart(one: Trend) -> Chart:
    dates = [point.night for point in one.points]
    values = [point.us if one.kernel else 100 * (point.us - 1) for point in one.points]
    line: dict[str, Any] = {
        "type": "scatter",
        "mode": "lines+markers",
        "x": dates,
        "y": values,
        "text": [plain(f"IREE {point.iree}") for point in one.points],
        "hovertemplate": "%{x}<br>%{y:.4g}<br>%{text}<extra></extra>",
        "line": {"color": "@c1", "width": 1.5},
        "marker": {"size": 5},
    }
    if all(point.low is not None and point.high is not None for point in one.points):
        line["error_y"] = {
            "type": "data",
            "symmetric": False,
            "array": [(point.high or 0.0) - point.us for point in one.points],
            "arrayminus": [point.us - (point.low or 0.0) for point in one.points],
            "color": "@muted",
            "thickness": 1,
            "width": 0,
        }
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


def _line(night: str, colour: str, dash: str) -> dict[str, Any]:
    bar = {"color": colour, "width": 2 if dash == "solid" else 1, "dash": dash}
    return {"type": "line", "x0": night, "x1": night, "yref": "paper", "y0": 0, "y1": 1, "line": bar}
