"""Tables on the terminal: a row is one line, or a short block where the terminal is too narrow."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions
from rich.text import Text

from autotuner.system.text import printable

_GAP = "  "
_INDENT = "    "


@dataclass(frozen=True, slots=True)
class Column:
    """A column's title. Numbers stand right; the `head` of a row begins its block on a narrow terminal."""

    title: str
    right: bool = False
    head: bool = False


@dataclass(frozen=True)
class Listing:
    """Rows under titles. Nothing in it is ever cut, and no word is broken."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Text, ...], ...]
    title: str = ""

    @classmethod
    def of(cls, columns: Sequence[Column | str], rows: Iterable[Sequence[str | Text]], *, title: str = "") -> Listing:
        """The first column is the head where none is named."""
        named = [one if isinstance(one, Column) else Column(one) for one in columns]
        if not any(one.head for one in named):
            named[0] = Column(named[0].title, named[0].right, head=True)
        return cls(tuple(named), tuple(tuple(map(_text, row)) for row in rows), title)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        if self.title:
            yield Text(printable(self.title))
        fits = self.width <= options.max_width or not console.is_terminal
        yield from self._lines() if fits else self._blocks(options.max_width)

    @property
    def width(self) -> int:
        """The width of a row in one line."""
        return sum(self._widths) + len(_GAP) * (len(self.columns) - 1)

    @property
    def _widths(self) -> list[int]:
        return [
            max([cell_len(column.title), *(cell_len(row[i].plain) for row in self.rows)])
            for i, column in enumerate(self.columns)
        ]

    def _lines(self) -> Iterator[Text]:
        widths = self._widths
        titles = tuple(Text(column.title, "bold") for column in self.columns)
        for row in (titles, *self.rows):
            line = Text()
            for column, cell, width in zip(self.columns, row, widths, strict=True):
                blank = " " * (width - cell_len(cell.plain))
                line.append_text(Text.assemble(blank, cell, _GAP) if column.right else Text.assemble(cell, blank, _GAP))
            line.rstrip()
            yield line

    def _blocks(self, width: int) -> Iterator[Text]:
        for row in self.rows:
            cells = list(zip(self.columns, row, strict=True))
            head = Text(_GAP).join(cell for column, cell in cells if column.head and cell.plain)
            facts = [
                Text.assemble((f"{column.title} ", "bold") if column.title else "", cell)
                for column, cell in cells
                if not column.head and cell.plain
            ]
            yield from _wrapped(head, width)
            for line in _wrapped(Text("; ").join(facts), width - len(_INDENT)):
                yield Text.assemble(_INDENT, line)


def _wrapped(text: Text, width: int) -> Iterator[Text]:
    """Lines of at most this width, broken between words; a longer word has a line of its own."""
    breaks, used, at = [], 0, 0
    for word in re.findall(r"\S+\s*", text.plain):
        if used and used + cell_len(word.rstrip()) > width:
            breaks.append(at)
            used = 0
        used, at = used + cell_len(word), at + len(word)
    for line in text.divide(breaks):
        line.rstrip()
        yield line


def _text(cell: str | Text) -> Text:
    """A cell as one printable line: names may come from a stranger's file."""
    return Text(printable(cell)) if isinstance(cell, str) else Text(printable(cell.plain), cell.style)
