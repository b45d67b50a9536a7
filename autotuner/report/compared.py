"""A comparison as tables for people, as JSON, as markdown for a pull request, and as a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from autotuner.report.charts import Mark, brief, forest, log_axis
from autotuner.report.compare import Comparison, Row
from autotuner.report.page import Chart, Section, View, has_charts, render
from autotuner.report.tables import Field, Table
from autotuner.store.figures import Figure
from autotuner.system.text import count, printable

SCHEMA = 1
QUIET = ("same", "ignored")
"""What markdown leaves out of its table and counts: a pull request's reader looks for what changed."""
_ESCAPED = str.maketrans({c: f"\\{c}" for c in "\\`*_{}[]()<>#|~!@"})
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
        for name in ("us", "low", "high", "run")
        for side, figure in (("golden", row.golden), ("new", row.new))
    }
    told = {name: getattr(row, name) for name in ("problem", "target", "kernel", "cache", "verdict", "ratio", "note")}
    return {**told, "state": place(row).partition("/")[0], **sides}


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
    changed = replace(found, rows=tuple(row for row in found.rows if row.verdict not in QUIET))
    differing = replace(found, environment=tuple(found.differing))
    same = "The environments do not differ." if found.environment else "No environment is known."
    blocks = [
        [f"**{_escaped(found.verdict)}** (rule {_escaped(found.rule.words)})"],
        _markdown(kernels(changed)) if changed.rows else [],
        _markdown(environment(differing)) if found.differing else [same],
        [f"- {_escaped(note)}" for note in found.notes],
    ]
    return "\n\n".join("\n".join(lines) for lines in blocks if lines) + "\n"


def _markdown(table: Table) -> list[str]:
    rules = ["---:" if column.kind == "number" else "---" for column in table.columns]
    rows = [
        [column.title for column in table.columns],
        rules,
        *([_escaped(cell) for cell in row] for row in table.rows),
    ]
    return [f"| {' | '.join(row)} |" for row in rows]


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
    marks = [
        Mark(
            " ".join((brief(row.problem), brief(row.kernel), row.target, place(row))),
            row.ratio or 1.0,
            *_bounds(row),
            _COLOURS.get(row.verdict, "@muted"),
        )
        for row in shown
    ]
    left_out = "" if len(known) == len(shown) else f" The {len(shown)} that moved most of {len(known)}."
    note = f"To the right of 1: slower. Lines reach as far as both intervals allow.{left_out}"
    return forest("What changed", {"": marks}, axis=log_axis("new / golden"), note=note) if marks else None


def _bounds(row: Row) -> tuple[float, float]:
    ratio = row.ratio or 1.0
    before, after = (figure.interval if figure is not None else None for figure in (row.golden, row.new))
    if before is None or after is None or not before[0]:
        return ratio, ratio
    return after[0] / before[1], after[1] / before[0]
