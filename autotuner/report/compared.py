"""A comparison as tables for people, as JSON, and as markdown for a pull request."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from autotuner.report.compare import Comparison, Row
from autotuner.report.tables import Field, Table
from autotuner.store.figures import Figure
from autotuner.system.text import printable

SCHEMA = 1
_ESCAPED = str.maketrans({c: f"\\{c}" for c in "\\`*_{}[]()<>#|~!@"})


def _fact(side: tuple[str, ...]) -> str:
    return ", ".join(side) or "–"


_KERNELS = (
    Field("problem", lambda row: row.figure.problem, head=True),
    Field("target", lambda row: row.figure.target, head=True),
    Field("kernel", lambda row: row.figure.kernel, head=True),
    Field("verdict", lambda row: row.verdict, "badge"),
    Field("new/golden", lambda row: "" if row.ratio is None else f"{row.ratio:.4f}", "number"),
    Field("golden µs", lambda row: microseconds(row.golden), "number"),
    Field("new µs", lambda row: microseconds(row.new), "number"),
    Field("state", lambda row: row.figure.place),
    Field("device", lambda row: row.figure.device),
    Field("note", lambda row: row.note, "long"),
)
_ENVIRONMENT = (
    Field("environment", lambda fact: fact.name, head=True),
    Field("golden", lambda fact: _fact(fact.golden)),
    Field("new", lambda fact: _fact(fact.new)),
    Field("same?", lambda fact: "differs" if fact.differs else "same", "badge"),
)


def kernels(found: Comparison) -> Table:
    """A kernel a row, regressions first."""
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
    told = {name: getattr(row.figure, name) for name in ("problem", "target", "kernel", "cache", "state", "device")}
    return {**told, "verdict": row.verdict, "ratio": row.ratio, "note": row.note, **sides}


def document(found: Comparison) -> dict[str, Any]:
    """What --json prints."""
    return {
        "schema": SCHEMA,
        "golden": found.golden,
        "new": found.new,
        "rule": {"name": "interval", "limit": found.limit, "about": found.rule},
        "regressed": bool(found.regressed),
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
    changed = replace(found, rows=tuple(row for row in found.rows if row.verdict != "same"))
    differing = replace(found, environment=tuple(found.differing))
    same = "The environments do not differ." if found.environment else "No environment is known."
    blocks = [
        [f"**{_escaped(found.verdict)}** ({found.rule})"],
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
    """Escaped for a cell: a name may come from a stranger's file."""
    return printable(text).translate(_ESCAPED)


def microseconds(figure: Figure | None) -> str:
    """The time and, where it is known, its interval."""
    if figure is None:
        return ""
    digits = 1 if figure.us >= 1000 else 3
    bounds = figure.interval
    interval = "" if bounds is None else f" ({bounds[0]:.{digits}f} to {bounds[1]:.{digits}f})"
    return f"{figure.us:.{digits}f}{interval}"
