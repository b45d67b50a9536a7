"""A comparison as a table for people, as CSV, as JSON, and as markdown for a pull request."""

from __future__ import annotations

import csv
import io
from typing import Any

from rich.text import Text

from autotuner.report.compare.join import BAD, Comparison, Row
from autotuner.store.figures import Figure
from autotuner.system.listing import Column, Listing
from autotuner.system.text import printable

SCHEMA = 1
COLUMNS = (
    *("problem", "target", "kernel", "cache", "state", "verdict", "ratio"),
    *("golden_us", "golden_low", "golden_high", "new_us", "new_low", "new_high", "golden_run", "new_run", "note"),
)
QUIET = ("same", "ignored")
"""What markdown leaves out of its table and counts: a pull request's reader looks for what changed."""
_STYLES = {"regression": "red", "failed": "red", "improvement": "green", "unstable": "yellow", "incomparable": "yellow"}
_ESCAPED = str.maketrans({c: f"\\{c}" for c in "\\`*_{}[]()<>#|~!@"})


def table(found: Comparison) -> Listing:
    """A kernel a row, what must be acted on first."""
    rows = [
        (
            row.problem,
            row.target,
            row.kernel,
            Text(row.verdict, _STYLES.get(row.verdict, "")),
            ratio(row),
            microseconds(row.golden),
            microseconds(row.new),
            place(row),
            row.note,
        )
        for row in found.rows
    ]
    heads = [Column(title, head=True) for title in ("problem", "target", "kernel")]
    figures = [Column(title, right=True) for title in ("new/golden", "golden µs", "new µs")]
    return Listing.of([*heads, "verdict", *figures, "state", "note"], rows)


def environment_table(found: Comparison) -> Listing:
    """Both environments side by side; what differs is marked."""
    rows = [
        (
            Text("≠" if fact.differs else "", "yellow"),
            fact.name,
            ", ".join(fact.golden) or "–",
            ", ".join(fact.new) or "–",
        )
        for fact in found.environment
    ]
    return Listing.of(["", Column("environment", head=True), "golden", "new"], rows)


def records(found: Comparison) -> list[dict[str, Any]]:
    return [_record(row) for row in found.rows]


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
        "rows": records(found),
        "environment": [
            {"name": fact.name, "golden": list(fact.golden), "new": list(fact.new), "differs": fact.differs}
            for fact in found.environment
        ],
        "notes": list(found.notes),
    }


def to_csv(found: Comparison) -> str:
    text = io.StringIO()
    lines = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    lines.writeheader()
    lines.writerows(records(found))
    return text.getvalue()


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
