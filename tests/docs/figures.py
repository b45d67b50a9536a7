"""Each figure in a row or a paragraph that links to a raw output is in that output.

It is there when a number of the output rounds to it, as far as it is shown, in the same unit or one of a thousand times
or a thousandth of it. So a wrong digit goes unseen where the output happens to have that number, too. What stands in
backticks (commands, shapes) is not looked at.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_COUNTED = ("wins", "runs", "candidates", "configurations", "products", "entries", "blocks")
_UNIT = rf"µs|ms|min|s|x|%|GFLOP/s|core-seconds|kB|MB|{'|'.join(_COUNTED)}"
_SCALED = {"µs", "ms", "s", "kB", "MB"}
"""A raw output may have a thousand times as many of a smaller unit, or a thousandth."""
_NUMBER = r"\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?"
_FIGURE = re.compile(rf"(?<![\w.,-])(?P<number>{_NUMBER})(?:[ ]?(?P<unit>{_UNIT})(?!\w)|(?![\w.,]*\w))")
_VERSIONED = re.compile(r"(IREE|Python) (\d[\d.]* (to|and) )?$")
_CODE = re.compile(r"`[^`\n]*`|\]\([^)]*\)")


@dataclass(frozen=True)
class Figure:
    """A number as it is printed: its value in `unit`, to so many decimals."""

    value: float
    unit: str
    decimals: int
    text: str

    def among(self, values: Iterable[float]) -> bool:
        """Does one of the values round to this figure?"""
        factors = (1.0, 1e3, 1e-3) if self.unit in _SCALED else (1.0, 100.0) if self.unit == "%" else (1.0,)
        counted = not self.decimals and (self.unit in _COUNTED or not self.unit)
        off = 0.0 if counted else 0.5 * 10.0**-self.decimals * (1 + 1e-9)
        return any(abs(value * factor - self.value) <= off for value in values for factor in factors)


def figures(text: str) -> list[Figure]:
    """All of a text, in order: numbers with a unit, with decimals or thousands, and N of M, outside of code."""
    plain = _CODE.sub(" ", text)
    return [_figure(match) for match in _FIGURE.finditer(plain) if _counts(match, plain)]


def _counts(match: re.Match[str], text: str) -> bool:
    before, after = text[: match.start()], text[match.end() :]
    part = re.search(r"\d of $", before) or re.match(r" of \d", after)
    telling = match["unit"] or part or re.search(r"[.,e]", match["number"])
    return bool(telling) and not _VERSIONED.search(before)


def _figure(match: re.Match[str]) -> Figure:
    number = match["number"].replace(",", "")
    mantissa, _, exponent = number.partition("e")
    decimals = len(mantissa.partition(".")[2]) - int(exponent or 0)
    return Figure(float(number), match["unit"] or "", decimals, match[0])


@cache
def _values(path: Path) -> frozenset[float]:
    """All numbers of a raw output, with commas as separators of thousands and of values."""
    text = path.read_text()
    found = [*re.findall(r"\d+(?:\.\d+)?(?:e[-+]?\d+)?", text), *re.findall(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?", text)]
    return frozenset(float(number.replace(",", "")) for number in found)


def values(files: Iterable[Path]) -> frozenset[float]:
    """All numbers of these raw outputs."""
    return frozenset[float]().union(*(_values(path) for path in files))


def unfounded(text: str, files: Iterable[Path]) -> list[str]:
    """The figures of a text that are in none of the files."""
    known = values(files)
    return [figure.text for figure in figures(text) if not figure.among(known)]
