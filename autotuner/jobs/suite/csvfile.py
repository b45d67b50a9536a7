"""A list of shapes as CSV: the columns are the options of `gemm`, `conv` and `attention`."""

from __future__ import annotations

import csv
import io

from autotuner.errors import UsageError
from autotuner.jobs.suite.workload import Entry, distinct
from autotuner.problems import OPERATIONS
from autotuner.problems.operation import whole_number
from autotuner.system.text import count, short

REQUIRED = ("op", "shape")
CALLS = "calls"
COLUMNS = (*REQUIRED, *dict.fromkeys(name for known in OPERATIONS.values() for name in known.options()), CALLS)
"""An empty cell is the option's default, which for the dtype depends on the target."""
_SHOWN = 5
"""How many bad rows an error names."""


def read_csv(text: str, *, path: str, dtype: str = "") -> tuple[tuple[Entry, ...], tuple[str, ...]]:
    """All rows, and notes; one that is wrong is an error with its line, for a list of shapes is written by hand.

    `dtype` is that of rows that name none.
    """
    rows = csv.reader(io.StringIO(text, newline=""), strict=True)
    entries: list[Entry] = []
    wrong: list[str] = []
    untyped = 0
    columns: list[str] | None = None
    try:
        for cells in rows:
            if not any(cell.strip() for cell in cells):
                continue
            if columns is None:
                columns = _header(cells, path=path)
                continue
            try:
                row = _row(columns, cells)
                if dtype and "dtype" not in row:
                    row["dtype"], untyped = dtype, untyped + 1
                entries.append(_entry(row))
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
    notes = (f"{count(untyped, 'row')} without a dtype: {dtype}, the default on this target",) if untyped else ()
    return distinct(entries), notes


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


def _row(columns: list[str], cells: list[str]) -> dict[str, str]:
    if len(cells) > len(columns):
        raise UsageError(f"{len(cells)} cells, but {len(columns)} columns.", remedy="Quote cells that hold commas.")
    return {name: cell.strip() for name, cell in zip(columns, cells, strict=False) if cell.strip()}


def _entry(row: dict[str, str]) -> Entry:
    calls = whole_number(row.pop(CALLS, "1"), CALLS)
    op = row.pop("op", "").lower()
    if op not in OPERATIONS:
        raise UsageError(f"op {short(op)} is unknown.", remedy=f"Choose one of: {', '.join(OPERATIONS)}.")
    known = OPERATIONS[op]
    if strange := [name for name in row if name not in (*known.options(), "shape")]:
        raise UsageError(f"{op} has no {', '.join(strange)}.", remedy=f"It has: {', '.join(known.options())}.")
    return Entry(known.from_words(row), calls)
