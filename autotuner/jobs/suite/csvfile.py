"""A list of shapes as CSV: the columns are the options of `gemm`, `conv` and `attention`."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from typing import Any

from autotuner.errors import UsageError
from autotuner.jobs.suite.workload import Entry, distinct
from autotuner.problems import Attention, Conv, Gemm, Problem
from autotuner.system.text import short

REQUIRED = ("op", "shape")
OPTIONS: Mapping[str, tuple[str, ...]] = {
    "gemm": ("batch", "dtype", "acc", "layout", "out"),
    "conv": ("filter", "stride", "dilation", "pad", "groups", "dtype", "layout"),
    "attention": ("dtype", "causal"),
}
"""Which further columns belong to which operation; an empty cell is the option's default."""
CALLS = "calls"
COLUMNS = (*REQUIRED, *dict.fromkeys(name for names in OPTIONS.values() for name in names), CALLS)
MAX_CALLS = 10**15
_TRUTH = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_SHOWN = 5
"""How many bad rows an error names."""


def read_csv(text: str, *, path: str) -> tuple[Entry, ...]:
    """All rows; one that is wrong is an error with its line, for a list of shapes is written by hand."""
    rows = csv.reader(io.StringIO(text, newline=""), strict=True)
    entries: list[Entry] = []
    wrong: list[str] = []
    columns: list[str] | None = None
    try:
        for cells in rows:
            if not any(cell.strip() for cell in cells):
                continue
            if columns is None:
                columns = _header(cells, path=path)
                continue
            try:
                entries.append(_entry(columns, cells))
            except UsageError as error:
                wrong.append(f"line {rows.line_num}: {error}")
    except csv.Error as error:
        raise UsageError(f"{path}, line {rows.line_num}: {error}.", remedy="Is it a CSV file?") from error
    if columns is None:
        raise UsageError(f"{path} is empty.", remedy=_remedy())
    if wrong:
        more = f" … and {len(wrong) - _SHOWN} more bad rows." if len(wrong) > _SHOWN else ""
        raise UsageError(f"{path}: {' '.join(wrong[:_SHOWN])}{more}")
    if not entries:
        raise UsageError(f"{path} has a header and no rows.", remedy="Give one problem a row.")
    return distinct(entries)


def _header(cells: list[str], *, path: str) -> list[str]:
    names = [cell.strip().lower() for cell in cells]
    if missing := [name for name in REQUIRED if name not in names]:
        raise UsageError(f"{path}: the header has no column {' and no column '.join(missing)}.", remedy=_remedy())
    if unknown := [name for name in names if name not in COLUMNS]:
        raise UsageError(f"{path}: unknown column {', '.join(map(short, unknown[:_SHOWN]))}.", remedy=_remedy())
    if len(set(names)) < len(names):
        raise UsageError(f"{path}: a column stands twice in the header.", remedy="Name each column once.")
    return names


def _remedy() -> str:
    return f"The first line names the columns: {', '.join(COLUMNS)}; the first two are required."


def _entry(columns: list[str], cells: list[str]) -> Entry:
    if len(cells) > len(columns):
        raise UsageError(f"{len(cells)} cells, but {len(columns)} columns.", remedy="Quote cells that hold commas.")
    row = {name: cell.strip() for name, cell in zip(columns, cells, strict=False) if cell.strip()}
    calls = whole(row.pop(CALLS, "1"), CALLS)
    op = row.pop("op", "").lower()
    if op not in OPTIONS:
        raise UsageError(f"op {short(op)} is unknown.", remedy=f"Choose one of: {', '.join(OPTIONS)}.")
    if "shape" not in row:
        raise UsageError("the shape is missing.")
    if strange := [name for name in row if name not in (*OPTIONS[op], "shape")]:
        raise UsageError(f"{op} has no {', '.join(strange)}.", remedy=f"It has: {', '.join(OPTIONS[op])}.")
    return Entry(_problem(op, row), calls)


def _problem(op: str, row: Mapping[str, str]) -> Problem:
    words: dict[str, Any] = {name: value.lower() for name, value in row.items()}
    for name in ("batch", "groups"):
        if name in words:
            words[name] = whole(words[name], name)
    if op == "gemm":
        return Gemm.parse(**words)
    if op == "conv":
        if "filter" not in words:
            raise UsageError("a convolution needs a filter.", remedy="Give KHxKWxF.")
        return Conv.parse(**words)
    if "causal" in words:
        if words["causal"] not in _TRUTH:
            raise UsageError(f"causal {short(row['causal'])} is neither true nor false.")
        words["causal"] = _TRUTH[words["causal"]]
    return Attention.parse(**words)


def whole(text: str, name: str) -> int:
    """A positive whole number."""
    if not (text.isascii() and text.isdigit()) or len(text) > 16 or not 0 < int(text) <= MAX_CALLS:
        raise UsageError(f"{name} {text[:20]!r} is not a positive whole number.")
    return int(text)
