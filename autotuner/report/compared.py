"""A comparison as tables for people, as JSON, as markdown for a pull request, and as a page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autotuner.report.charts import Mark, brief, forest, log_axis
from autotuner.report.compare import BAD, Comparison, Row
from autotuner.report.page import Chart, Section, View, has_charts, render
from autotuner.report.tables import Field, Table
from autotuner.store.figures import Figure
from autotuner.system.text import count, printable

SCHEMA = 1
COLUMNS = (
    *("problem", "target", "kernel", "cache", "state", "verdict", "ratio"),
    *("golden_us", "golden_low", "golden_high", "new_us", "new_low", "new_high", "golden_run", "new_run", "note"),
)
QUIET = ("same", "ignored")
"""What markdown leaves out of its table and counts: a pull request's reader looks for what changed."""
_ESCAPED = str.maketrans({c: f"\\{c}" for c in "\\`*_{}[]()<>#|~!@"})
_PROBLEM, _KERNEL = 32, 14
"""Characters of them beside the chart."""
_LEAST = 1.5
"""How far the chart reaches at the least, as a ratio."""
MOST_SHOWN = 60
"""Kernels in the chart: those that moved most. The table has all."""
_COLOURS = {"regression": "@bad", "improvement": "@good", "same": "@muted", "unclear": "@warn", "unstable": "@warn"}


def _fact(side: tuple[str, ...]) -> str:
    return ", ".join(side) or "–"


_KERNELS = (
    Field("problem", lambda row: row.problem, head=True),
    Field("target", lambda row: row.target, head=True),
    Field("kernel", lambda row: row.kernel, head=True),
    Field("verdict", lambda row: row.verdict, "badge"),
    Field("new/golden", lambda row: ratio(row), "number"),
    Field("golden µs", lambda row: microseconds(row.golden), "number"),
    Field("new µs", lambda row: microseconds(row.new), "number"),
    Field("state", lambda row: place(row)),
    Field("note", lambda row: row.note, "long"),
)
_ENVIRONMENT = (
    Field("environment", lambda fact: fact.name, head=True),
    Field("golden", lambda fact: _fact(fact.golden)),
    Field("new", lambda fact: _fact(fact.new)),
    Field("same?", lambda fact: "differs" if fact.differs else "same", "badge"),
)


def kernels(found: Comparison) -> Table:
    """A kernel a row, what must be acted on first."""
    return Table.of("Kernels of both sets", found.rows, _KERNELS)


def environment(found: Comparison) -> Table:
    """Both environments side by side; what differs is marked."""
    return Table.of("Where both sets were measured", found.environment, _ENVIRONMENT)


def _record(row: Row) -> dict[str, Any]:
    sides = {
        f"{side}_{name}": getattr(figure, name) if figure is not None else None
        for side, figure in (("golden", row.golden), ("new", row.new))
        for name in ("us", "low", "high", "run")
    }
    plain = {name: getattr(row, name) for name in ("problem", "target", "kernel", "cache", "verdict", "ratio", "note")}
    values = {**plain, **sides, "state": place(row).partition("/")[0]}
    return {name: values[name] for name in COLUMNS}


def document(found: Comparison) -> dict[str, Any]:
    """What --json prints."""
    return {
        "schema": SCHEMA,
        "golden": found.golden,
        "new": found.new,
        "rule": {"name": found.rule.name, "limit": found.rule.limit, "about": found.rule.about},
        "regressed": found.regressed,
        "counts": found.counts,
        "rows": [_record(row) for row in found.rows],
        "environment": [
            {"name": fact.name, "golden": list(fact.golden), "new": list(fact.new), "differs": fact.differs}
            for fact in found.environment
        ],
        "notes": list(found.notes),
    }


def markdown(found: Comparison) -> str:
    """For a pull request: the verdict, what changed, and where the environments differ."""
    shown = [row for row in found.rows if row.verdict not in QUIET]
    lines = [f"**{_escaped(found.verdict)}** (rule {_escaped(found.rule.words)})", ""]
    if shown:
        lines += ["| problem | target | kernel | verdict | new/golden | golden µs | new µs | note |"]
        lines += ["|---|---|---|---|---:|---:|---:|---|"]
        for row in shown:
            verdict = f"**{row.verdict}**" if row.verdict in BAD else row.verdict
            cells = [_escaped(row.problem), _escaped(row.target), _escaped(row.kernel), verdict, ratio(row)]
            cells += [microseconds(row.golden), microseconds(row.new)]
            cells += [_escaped("; ".join(filter(None, (row.note, "cold cache" if row.cache == "cold" else ""))))]
            lines.append(f"| {' | '.join(cells)} |")
        lines.append("")
    if found.differing:
        lines += ["| environment | golden | new |", "|---|---|---|"]
        lines += [
            f"| {fact.name} | {_escaped(', '.join(fact.golden) or '–')} | {_escaped(', '.join(fact.new) or '–')} |"
            for fact in found.differing
        ]
    else:
        lines.append("The environments do not differ." if found.environment else "No environment is known.")
    lines += ["", *(f"- {_escaped(note)}" for note in found.notes)]
    return "\n".join(lines).rstrip() + "\n"


def _escaped(text: str) -> str:
    """As text in a cell: a name may come from a stranger's file."""
    return printable(text).translate(_ESCAPED)


def ratio(row: Row) -> str:
    return "" if row.ratio is None else f"{row.ratio:.4f}"


def microseconds(figure: Figure | None) -> str:
    """The time and, where it is known, its interval."""
    if figure is None:
        return ""
    digits = 1 if figure.us >= 1000 else 3
    bounds = figure.interval
    interval = "" if bounds is None else f" ({bounds[0]:.{digits}f} to {bounds[1]:.{digits}f})"
    return f"{figure.us:.{digits}f}{interval}"


def place(row: Row) -> str:
    """In which state both were timed; both states where they differ."""
    places = dict.fromkeys(figure.place for figure in (row.golden, row.new) if figure is not None)
    return " and ".join(places)


# --- a page ----------------------------------------------------------------------------------------------------------


def page(found: Comparison) -> str:
    """One file that stands alone."""
    chart = _chart(found.rows) if has_charts() else None
    certain = any(row.verdict in ("same", "improvement", "ignored") for row in found.rows)
    differing = f"{count(len(found.differing), 'line')} differ." if found.differing else "Nothing differs."
    view = View(
        anchor="compare",
        title=f"{found.new} compared with {found.golden}",
        verdict=found.verdict,
        tone="bad" if found.regressed else "good" if certain else "warn",
        words=found.notes,
        facts=(("Golden", found.golden), ("New", found.new), ("Rule", f"{found.rule.words}: {found.rule.about}")),
        sections=(
            Section("kernels", "Kernels", wide=(chart,) if chart else (), tables=(kernels(found),)),
            Section("environment", "Environment", (differing,), tables=(environment(found),)),
        ),
    )
    return render([view])


def _chart(rows: Sequence[Row]) -> Chart | None:
    """New over golden with both intervals' bounds, the largest changes first."""
    known = [row for row in rows if row.ratio is not None]
    known.sort(key=lambda row: abs((row.ratio or 1.0) - 1), reverse=True)
    shown = known[:MOST_SHOWN][::-1]
    if not shown:
        return None
    marks = [
        Mark(
            name,
            row.ratio or 1.0,
            *_bounds(row),
            _COLOURS.get(row.verdict, "@muted"),
            text=f"{row.problem} {row.kernel}, {row.target}, {place(row)}: {row.ratio:.4f}",
        )
        for name, row in zip(_names(shown), shown, strict=True)
    ]
    # An interval that is far wider than any change would leave no room for the changes.
    reach = max(_LEAST, *(max(mark.value, 1 / mark.value) ** 2 for mark in marks))
    ends = [min(max(end, 1 / reach), reach) for mark in marks for end in mark.ends]
    axis = log_axis("new / golden", [1.0, *(mark.value for mark in marks), *ends], room=1.03)
    left_out = "" if len(known) == len(shown) else f" The {len(shown)} that moved most of {len(known)}."
    note = f"To the right of 1: slower. Lines reach as far as both intervals allow, or to the edge.{left_out}"
    return forest("What changed", {"": marks}, axis=axis, note=note)


def _names(rows: Sequence[Row]) -> list[str]:
    """Short, and each another one: what all have in common is left out."""
    targets, places = {row.target for row in rows}, {place(row) for row in rows}
    found: dict[str, None] = {}
    for row in rows:
        more = [*([row.target] if len(targets) > 1 else []), *([place(row)] if len(places) > 1 else [])]
        name = " ".join([brief(row.problem, most=_PROBLEM), brief(row.kernel, most=_KERNEL), *more])
        alike = sum(one.split("\u200b")[0] == name for one in found)
        found[name + "\u200b" * alike] = None
    return list(found)


def _bounds(row: Row) -> tuple[float, float]:
    ratio = row.ratio or 1.0
    before, after = (figure.interval if figure is not None else None for figure in (row.golden, row.new))
    if before is None or after is None or not before[0]:
        return ratio, ratio
    return after[0] / before[1], after[1] / before[0]
