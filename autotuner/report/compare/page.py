"""A comparison as a page."""

from __future__ import annotations

from collections.abc import Sequence

from autotuner.report.compare.join import Comparison, Row
from autotuner.report.compare.render import microseconds, place, ratio
from autotuner.report.page import Chart, Column, Table, has_charts, plain, render
from autotuner.system.text import count

MOST_SHOWN = 60
"""Kernels in the chart: those that moved most. The table has all."""
_COLOURS = {"regression": "@bad", "improvement": "@good", "same": "@muted", "unclear": "@warn", "unstable": "@warn"}


def page(found: Comparison) -> str:
    """One file that stands alone."""
    chart = _chart(found.rows) if has_charts() else None
    return render(
        "report/compare.html.j2",
        title=f"{found.new} compared with {found.golden}",
        charts=chart is not None,
        verdict=found.verdict,
        tone="bad" if found.regressed else "good",
        told=[("Golden", found.golden), ("New", found.new), ("Rule", f"{found.rule.words}: {found.rule.about}")],
        notes=found.notes,
        figures=[chart] if chart is not None else [],
        kernels=kernels(found.rows),
        differing=f"{count(len(found.differing), 'line')} differ." if found.differing else "Nothing differs.",
        environment=environment(found),
    )


def kernels(rows: Sequence[Row]) -> Table:
    columns = [
        *(Column("problem"), Column("target"), Column("kernel"), Column("verdict", "badge")),
        *(Column("new/golden", "number"), Column("golden µs", "number"), Column("new µs", "number")),
        *(Column("state"), Column("note", "long")),
    ]
    cells = [
        [
            *(row.problem, row.target, row.kernel, row.verdict),
            *(ratio(row), microseconds(row.golden), microseconds(row.new), place(row), row.note),
        ]
        for row in rows
    ]
    return Table("Kernels of both sets", columns, cells)


def environment(found: Comparison) -> Table:
    columns = [Column("what"), Column("golden"), Column("new"), Column("same?", "badge")]
    rows = [
        [fact.name, ", ".join(fact.golden) or "–", ", ".join(fact.new) or "–", "differs" if fact.differs else "same"]
        for fact in found.environment
    ]
    return Table("Where both sets were measured", columns, rows)


def _chart(rows: Sequence[Row]) -> Chart | None:
    """New over golden with both intervals' bounds, the largest changes first."""
    known = [row for row in rows if row.ratio is not None]
    known.sort(key=lambda row: abs((row.ratio or 1.0) - 1), reverse=True)
    shown = known[:MOST_SHOWN][::-1]
    if not shown:
        return None
    names = [plain(f"{row.problem} {row.target} {row.kernel} {place(row)}") for row in shown]
    ratios = [row.ratio or 1.0 for row in shown]
    bounds = [_bounds(row) for row in shown]
    data = {
        "type": "scatter",
        "mode": "markers",
        "x": ratios,
        "y": names,
        "marker": {"color": [_COLOURS.get(row.verdict, "@muted") for row in shown], "size": 9},
        "error_x": {
            "type": "data",
            "symmetric": False,
            "array": [high - middle for middle, (_, high) in zip(ratios, bounds, strict=True)],
            "arrayminus": [middle - low for middle, (low, _) in zip(ratios, bounds, strict=True)],
            "color": "@muted",
        },
        "hovertemplate": "%{y}<br>%{x:.4f}<extra></extra>",
    }
    layout = {
        "xaxis": {"title": {"text": "new / golden (right of 1 is slower)"}},
        "yaxis": {"type": "category"},
        "shapes": [{"type": "line", "x0": 1, "x1": 1, "yref": "paper", "y0": 0, "y1": 1, "line": {"color": "@ink"}}],
    }
    left_out = "" if len(known) == len(shown) else f" The {len(shown)} that moved most of {len(known)}."
    note = f"Lines reach as far as both intervals allow.{left_out}"
    return Chart("What changed", {"data": [data], "layout": layout}, note=note, height=120 + 22 * len(shown))


def _bounds(row: Row) -> tuple[float, float]:
    ratio = row.ratio or 1.0
    before, after = (figure.interval if figure is not None else None for figure in (row.golden, row.new))
    if before is None or after is None or not before[0]:
        return ratio, ratio
    return after[0] / before[1], after[1] / before[0]
