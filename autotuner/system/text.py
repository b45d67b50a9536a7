"""Text for people: one line, no control characters, not too long; numbers in words."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_FORMULA = re.compile(r"(?![+-]?[\d.]+(e[+-]?\d+)?\Z)[=+\-@\t\r]")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_QUOTED = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|->|[<>]=')
_DEEPENS = re.compile(r"[{}()\[\]<>,]|\b(?:floordiv|ceildiv|mod)\b")
"""Brackets, and divisions, of which a chain is a deep tree; what is between commas is one expression."""
_SIGNS = re.compile(r"(?:-\s*)+")


def printable(text: str) -> str:
    """One line without control characters: it may come from a stranger's file and end up on a terminal."""
    return "".join(c if c.isprintable() else " " for c in text)


def clean(text: str) -> str:
    """Text without control characters but line ends and tabs."""
    # An export has a hundred megabytes: whole texts are asked, not characters.
    if text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return text.translate({ord(c): " " for c in set(text) if not c.isprintable() and c not in "\n\t"})


def cells(row: Iterable[Any]) -> list[Any]:
    """A row of CSV: text that a spreadsheet would compute begins with an apostrophe there. Numbers stay numbers."""
    return [f"'{cell}" if isinstance(cell, str) and _FORMULA.match(cell) else cell for cell in row]


def csv_text(columns: Sequence[str], records: Iterable[Mapping[str, Any]]) -> str:
    """A table of CSV: a line for each record. What is missing or not finite is an empty cell."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(columns)
    for record in records:
        known = (record.get(name) for name in columns)
        table.writerow(cells(None if isinstance(one, float) and not math.isfinite(one) else one for one in known))
    return text.getvalue()


def count(number: int, what: str) -> str:
    """`1 call`, `2 calls`, `2 entries`."""
    several = f"{what[:-1]}ies" if what.endswith("y") else f"{what}es" if what.endswith("ch") else f"{what}s"
    return f"{number} {what if number == 1 else several}"


def counted(lines: Iterable[str]) -> list[tuple[str, int]]:
    """Distinct lines with their counts: those that differ in numbers alone are one, and the last is kept."""
    found: dict[str, tuple[str, int]] = {}
    for line in lines:
        key = _NUMBER.sub("#", line)
        found[key] = line, found.get(key, ("", 0))[1] + 1
    return [*found.values()]


def times(number: int) -> str:
    """`once`, `2 times`."""
    return "once" if number == 1 else f"{number} times"


def listed(lines: Sequence[str], *, most: int = 12) -> list[str]:
    """The first lines, and the number of the others."""
    more = len(lines) - most
    return [*lines[:most], *([f"and {more} more"] if more > 0 else [])]


def microseconds(us: float | None) -> str:
    """A time as people read it."""
    if us is None:
        return "–"
    return f"{us / 1000:.3f} ms" if us >= 1000 else f"{us:.1f} µs"


def throughput(flops: float, us: float) -> str:
    """Arithmetic a second, as people read it; empty where there is none."""
    rate = flops / us / 1e3
    return "" if not rate else f"{rate / 1000:.3g} TFLOP/s" if rate >= 1000 else f"{rate:.3g} GFLOP/s"


def short(value: object, *, most: int = 120) -> str:
    """A value as an error message shows it: quoted, and cut before it fills the screen."""
    text = value if isinstance(value, str) else _limited(value, most)
    quoted = repr(text[: most + 1]) if isinstance(value, str) else text
    return quoted if len(text) <= most else f"{quoted[:most]}…{quoted[0] if isinstance(value, str) else ''}"


def _limited(value: object, most: int) -> str:
    """Lists and tables by kind and size: written out, references in a small file could fill the memory."""
    if isinstance(value, (dict, list, tuple, set, frozenset)):
        return f"a {type(value).__name__} of {len(value)}"
    return repr(value)[: most + 1]


def nesting(text: str) -> int:
    """The depth of an MLIR text: of nested brackets, of signs before a number, or of divisions one after the other."""
    bare = _QUOTED.sub(" ", text)
    depth, deepest = 0, max((signs.group().count("-") for signs in _SIGNS.finditer(bare)), default=0)
    divisions = 0
    for found in _DEEPENS.finditer(bare):
        c = found.group()
        if len(c) > 1:
            divisions += 1
        else:
            divisions = 0
            depth = max(0, depth + (c in "{[(<") - (c in "}])>"))
        deepest = max(deepest, depth, divisions)
    return deepest
