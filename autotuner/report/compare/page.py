"""A comparison as a page."""

from __future__ import annotations

from collections.abc import Sequence

from autotuner.report.charts import brief, log_axis, one_line
from autotuner.report.compare.join import Comparison, Row
from autotuner.report.compare.render import microseconds, place, ratio
from autotuner.report.page import Chart, Column, Table, has_charts, plain, render
from autotuner.system.text import count

_PROBLEM, _KERNEL = 32, 14
"""Characters of them beside the chart."""
_LEAST = 1.5
"""How far the chart reaches at the least, as a ratio."""
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
        tone="bad" if found.regressed else "good" if _any_certain(found.rows) else "warn",
        told=[("Golden", found.golden), ("New", found.new), ("Rule", f"{found.rule.words}: {found.rule.about}")],
        notes=found.notes,
        figures=[chart] if chart is not None else [],
        kernels=kernels(found.rows),
        differing=f"{count(len(found.differing), 'line')} differ." if found.differing else "Nothing differs.",
        environment=environment(found),
    )


def _any_certain(rows: Sequence[Row]) -> bool:
    return any(row.verdict in ("same", "improvement", "ignored") for row in rows)


def kernels(rows: Sequence[Row]) -> Table:
    columns = [
        *(Column("verdict", "badge"), Column("new/golden", "number"), Column("problem"), Column("kernel")),
        *(Column("golden µs", "number"), Column("new µs", "number"), Column("target")),
        *(Column("state"), Column("note", "long")),
    ]
    cells = [
        [
            *(row.verdict, ratio(row), row.problem, row.kernel),
            *(microseconds(row.golden), microseconds(row.new), row.target, place(row), row.note),
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
    names = _names(shown)
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
        "text": [plain(f"{row.problem} {row.kernel}, {row.target}, {place(row)}") for row in shown],
        "hovertemplate": "%{text}<br>%{x:.4f}<extra></extra>",
    }
    # An interval that is far wider than any change would leave no room for the changes.
    reach = max(_LEAST, *(max(ratio, 1 / ratio) ** 2 for ratio in ratios))
    ends = [min(max(end, 1 / reach), reach) for pair in bounds for end in pair]
    layout = {
        "xaxis": log_axis("new / golden", [1.0, *ratios, *ends], room=1.03),
        "yaxis": {"type": "category", "range": [-0.7, len(shown) - 0.3]},
        "shapes": [one_line()],
    }
    left_out = "" if len(known) == len(shown) else f" The {len(shown)} that moved most of {len(known)}."
    note = f"To the right of 1: slower. Lines reach as far as both intervals allow, or to the edge.{left_out}"
    return Chart("What changed", {"data": [data], "layout": layout}, note=note, height=120 + 26 * len(shown))


def _names(rows: Sequence[Row]) -> list[str]:
    """Short, and each another one: what all have in common is left out."""
    targets, places = {row.target for row in rows}, {place(row) for row in rows}
    found: dict[str, None] = {}
    for row in rows:
        more = [*([row.target] if len(targets) > 1 else []), *([place(row)] if len(places) > 1 else [])]
        name = " ".join([brief(row.problem, most=_PROBLEM), brief(row.kernel, most=_KERNEL), *more])
        alike = sum(one.split("\u200b")[0] == name for one in found)
        found[name + "\u200b" * alike] = None
    return [plain(name) for name in found]


def _bounds(row: Row) -> tuple[float, float]:
    ratio = row.ratio or 1.0
    before, after = (figure.interval if figure is not None else None for figure in (row.golden, row.new))
    if before is None or after is None or not before[0]:
        return ratio, ratio
    return after[0] / before[1], after[1] / before[0]
