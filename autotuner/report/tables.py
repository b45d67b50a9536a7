"""Tables for pages and terminals: each column has a title and a kind.

It imports no page and no numbers: `autotune history` must not wait for them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from rich.text import Text

from autotuner.system import listing

Kind = Literal["text", "number", "badge", "long", "code", "brief"]
"""Of a column. `badge`: a word that has a colour, a verdict say; `long`: prose; `code`: as it stands in a file;
`brief`: lines that are not broken, a date say."""
Tone = Literal["good", "warn", "bad", ""]
TONES: Mapping[str, Tone] = {
    "win": "good",
    "tuned": "good",
    "faster": "good",
    "kept": "good",
    "replaced": "good",
    "finished": "good",
    "improvement": "good",
    "no-winner": "warn",
    "inconclusive": "warn",
    "interrupted": "warn",
    "unclear": "warn",
    "differs": "warn",
    "failed": "bad",
    "slower": "bad",
    "regression": "bad",
    "dropped": "bad",
    "wrong-result": "bad",
}
"""The colour of a word; others have none."""
_STYLES: Mapping[Tone, str] = {"good": "green", "warn": "yellow", "bad": "red"}
_WHOLE = 1e4
"""From here on a number has no decimals."""
STATIC_ROWS = 50
"""Rows of a table that stand in a page's own text; the others are data that its script shows."""


@dataclass(frozen=True, slots=True)
class Field:
    """A column of a table. Where rows are made of things, `cell` gives a thing's text, or names a field of its own.

    With `link` its cells lead to `link` followed by their text; on a narrow terminal the columns of the `head` begin a
    row's block.
    """

    title: str
    cell: str | Callable[[Any], str] = ""
    kind: Kind = "text"
    link: str = ""
    head: bool = False

    def __call__(self, thing: Any) -> str:
        return text(thing.get(self.cell)) if isinstance(self.cell, str) else self.cell(thing)


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells, each as it is shown."""

    caption: str
    columns: Sequence[Field]
    rows: Sequence[Sequence[str]]
    key: str = ""
    """Of a page's rows, where something leads to one: its first cell follows."""

    @classmethod
    def of(cls, caption: str, things: Iterable[Any], fields: Sequence[Field]) -> Table:
        """A row for each thing."""
        return cls(caption, fields, [tuple(field(thing) for field in fields) for thing in things])

    def filled(self) -> Table:
        """Without the columns that are empty."""
        kept = [n for n in range(len(self.columns)) if any(row[n] for row in self.rows)]
        rows = [[row[n] for n in kept] for row in self.rows]
        return replace(self, columns=[self.columns[n] for n in kept], rows=rows)

    @property
    def first(self) -> Sequence[Sequence[str]]:
        return self.rows[:STATIC_ROWS]

    @property
    def rest(self) -> Sequence[Sequence[str]]:
        return self.rows[STATIC_ROWS:]

    def listing(self) -> listing.Listing:
        """For a terminal or a pipe."""
        columns = [listing.Column(one.title, right=one.kind == "number", head=one.head) for one in self.columns]
        rows = [[_cell(column, cell) for column, cell in zip(self.columns, row, strict=True)] for row in self.rows]
        return listing.Listing.of(columns, rows, title=self.caption)


def tone(word: str) -> Tone:
    """Of a word, or of the first of several."""
    return TONES.get(word.partition(",")[0], "")


def _cell(column: Field, cell: str) -> Text:
    return Text(cell.replace("\n", " "), _STYLES.get(tone(cell), "") if column.kind == "badge" else "")


# --- figures as cells have them --------------------------------------------------------------------------------------


def number(value: Any) -> float | None:
    """The value as a number; None if it is not a finite one."""
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def text(value: object) -> str:
    """Any value as text."""
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < _WHOLE else f"{value:.0f}"
    return "" if value is None else str(value)


def us(value: object) -> str:
    """Four digits: more is noise."""
    known = number(value)
    return "" if known is None else f"{known:.1f}" if known >= 1000 else f"{known:.4g}"


def fixed(value: object, digits: int) -> str:
    """With so many decimals."""
    known = number(value)
    return "" if known is None else f"{known:.{digits}f}"


def error(value: object) -> str:
    """A relative error, to its order of magnitude."""
    known = number(value)
    return "" if known is None else f"{known:.1e}"


def interval(speedup: Mapping[str, Any] | None, *, unit: str = "") -> str:
    """A ratio and, where it is known, its interval."""
    ratio, low, high = (number((speedup or {}).get(name)) for name in ("median", "low", "high"))
    if ratio is None:
        return ""
    return f"{ratio:.3f}{unit}" + ("" if low is None or high is None else f" ({low:.3f} to {high:.3f})")


def lines(values: Iterable[object] | None) -> str:
    """A list, a line each."""
    return "\n".join(map(str, values or ()))
