"""The figures of the documents: where each one comes from, and which have no source.

results/reference/figures.toml has three kinds of tables.

[[figures]]   `text` stands in each of `documents`, and its figures are, in order, the values that `from` names: a path
              in a JSON file (`speedup/median`), or a regular expression with one group for a text file. `file` is
              the file unless a source names its own (`FILE#PATH`).
[[constants]] `text` likewise; its figures are, in order, the values of `code`: `module:NAME` or `module:NAME/key`, and
              its unit, if it has one.
              Without `code`, `why` says what else the number is.
[[listings]]  the block of the document that begins with `command` is in `file`, line by line; a line of … leaves out.
"""

from __future__ import annotations

import importlib
import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "results" / "reference"
ELSEWHERE = ("docs/support.md", "docs/api.md", "CHANGELOG.md")
"""The first is held against new builds (tests/docs/test_support.py), the second against the docstrings, the last tells
what was."""

_SECONDS = {"µs": 1e-6, "us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0}
_COUNTED = "wins|runs|candidates|configurations|products|entries|blocks|kB|MB|bytes"
_UNIT = rf"µs|us|ms|min|s|x|%|GFLOP/s|core-seconds|{_COUNTED}"
_NUMBER = r"\d+(?:,\d{3})*(?:\.\d+)?(?:e-?\d+)?"
_FIGURE = re.compile(rf"(?<![\w.,-])(?P<number>{_NUMBER})(?:[ ]?(?P<unit>{_UNIT})(?!\w)|(?![\w.,]*\w))")
_VERSIONED = re.compile(r"(IREE|Python) (\d[\d.]* (to|and) )?$")
_CODE = re.compile(r"^```.*?^```|`[^`\n]*`|\]\([^)]*\)", re.S | re.M)


@dataclass(frozen=True)
class Figure:
    """A number as it is printed: its value in `unit`, to so many decimals."""

    value: float
    unit: str
    decimals: int
    start: int
    text: str

    def agrees(self, value: float, unit: str) -> bool:
        """Does `value` round to this figure?"""
        if self.unit in _SECONDS and unit in _SECONDS:
            value *= _SECONDS[unit] / _SECONDS[self.unit]
        elif self.unit == "%" and unit != "%":
            value *= 100
        elif self.unit == "kB":
            value /= 1000
        return abs(value - self.value) <= 0.5 * 10.0**-self.decimals * (1 + 1e-9)


def figures(text: str) -> list[Figure]:
    """All of a text, in order: numbers with a unit, with decimals or thousands, and N of M, outside of code."""
    prose = _CODE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    return [_figure(match) for match in _FIGURE.finditer(prose) if _counts(match, prose)]


def _counts(match: re.Match[str], text: str) -> bool:
    before, after = text[: match.start()], text[match.end() :]
    part = re.search(r"\d of $", before) or re.match(r" of \d", after)
    telling = match["unit"] or part or re.search(r"[.,e]", match["number"])
    return bool(telling) and not _VERSIONED.search(before)


def _figure(match: re.Match[str]) -> Figure:
    number = match["number"]
    mantissa, _, exponent = number.replace(",", "").partition("e")
    decimals = len(mantissa.partition(".")[2]) - int(exponent or 0)
    return Figure(float(number.replace(",", "")), match["unit"] or "", decimals, match.start(), match[0])


@dataclass(frozen=True)
class Claim:
    """A piece of a document, and the sources of its figures."""

    documents: tuple[str, ...]
    text: str
    sources: tuple[str, ...]
    code: bool
    why: str

    def values(self) -> list[tuple[float, str]]:
        return [constant(source) if self.code else measured(source) for source in self.sources]

    def disagreements(self) -> list[str]:
        found = figures(self.text)
        if self.why:
            return []
        if len(found) != len(self.sources):
            return [f"{self.text!r} has the figures {[f.text for f in found]} and {len(self.sources)} sources"]
        return [
            f"{figure.text!r} in {self.text!r}: {source} says {value:g} {unit}"
            for figure, source, (value, unit) in zip(found, self.sources, self.values(), strict=True)
            if not figure.agrees(value, unit)
        ]


@dataclass(frozen=True)
class Listing:
    document: str
    command: str
    file: str


@cache
def tables() -> Mapping[str, Sequence[Mapping[str, Any]]]:
    return tomllib.loads((REFERENCE / "figures.toml").read_text())


def claims() -> list[Claim]:
    return [
        *(_claim(row, tuple(_named(source, row["file"]) for source in row["from"])) for row in tables()["figures"]),
        *(_claim(row, tuple(row.get("code", ())), code=True) for row in tables()["constants"]),
    ]


def _claim(row: Mapping[str, Any], sources: tuple[str, ...], *, code: bool = False) -> Claim:
    if code and bool(sources) == bool(row.get("why")):
        raise ValueError(f"{row['text']!r}: either code or why")
    return Claim(tuple(row["documents"]), row["text"], sources, code, row.get("why", ""))


def _named(source: str, file: str) -> str:
    return source if "#" in source else f"{file}#{source}"


def listings() -> list[Listing]:
    return [Listing(**row) for row in tables()["listings"]]


def documents() -> list[str]:
    """Those whose figures must have a source."""
    paths = [path for pattern in ("*.md", "docs/*.md", "benchmarks/README.md") for path in sorted(ROOT.glob(pattern))]
    names = [str(path.relative_to(ROOT)) for path in paths]
    return [name for name in names if name not in ELSEWHERE]


@cache
def read(document: str) -> str:
    return (ROOT / document).read_text()


def uncovered(document: str) -> Iterator[str]:
    """The figures that belong to no claim, each with its line."""
    text = read(document)
    spans = [
        (found.start(), found.end())
        for claim in claims()
        if document in claim.documents
        for found in re.finditer(re.escape(claim.text), text)
    ]
    for figure in figures(text):
        if not any(start <= figure.start < end for start, end in spans):
            line = text.count("\n", 0, figure.start) + 1
            yield f"{document}:{line}: {figure.text!r} in {text.splitlines()[line - 1].strip()!r}"


def measured(source: str) -> tuple[float, str]:
    """The value in the raw file, and its unit."""
    file, _, path = source.partition("#")
    text = (REFERENCE / file).read_text()
    if file.endswith(".json"):
        return _follow(json.loads(text), path), "us" if "us" in path.split("/") else ""
    found = list(re.finditer(path, text, re.M))
    if len(found) != 1:
        raise ValueError(f"{source} is found {len(found)} times")
    unit = re.match(rf" ?({_UNIT})(?!\w)", text[found[0].end(1) :])
    return float(found[0][1].replace(",", "")), unit[1] if unit else ""


def constant(source: str) -> tuple[float, str]:
    """The value in the code, and its unit."""
    path, _, unit = source.partition(" ")
    module, _, path = path.partition(":")
    return _follow(importlib.import_module(module), path), unit


def _follow(value: Any, path: str) -> float:
    for key in path.split("/"):
        if isinstance(value, list | tuple):
            value = value[int(key)]
        else:
            value = value[key] if isinstance(value, dict) else getattr(value, key)
    return float(value)
