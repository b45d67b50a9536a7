"""From the word that the user gives, a suite's name or a file, to its problems. Lists of shapes are CSV files.

The columns of a list are the options of `gemm`, `conv` and `attention`. Named suites are such lists, in `suites/`, each
with what it is in its first line.
"""

from __future__ import annotations

import csv
import difflib
import io
from collections.abc import Sequence
from pathlib import Path

from autotuner.errors import UsageError
from autotuner.jobs.suite.lines import Read
from autotuner.jobs.suite.logs import read_log
from autotuner.jobs.suite.tables import AITER, TUNABLE_OP, read_aiter, read_tunable_op, table_kind
from autotuner.jobs.suite.workload import Entry, Workload, distinct
from autotuner.problems import Problem
from autotuner.problems.operation import whole_number
from autotuner.problems.operations import OPERATIONS
from autotuner.system.digests import file_digest
from autotuner.system.settings import packaged
from autotuner.system.text import short
from autotuner.system.workspace import refuse_endless

CALLS, REQUIRED = "calls", ("op", "shape")
COLUMNS = (*REQUIRED, *dict.fromkeys(name for known in OPERATIONS.values() for name in known.options()), CALLS)
"""An empty cell is the option's default, which for the dtype depends on the target."""
_SHAPES, _LOG = "list of shapes", "log of hipBLASLt's, rocBLAS's or MIOpen's"
_FORMATS = {".csv": _SHAPES, **dict.fromkeys((".yaml", ".yml", ".log", ".txt"), _LOG)}
_LONGEST_HEADER = 4096
_MORE = "more"
"""Cells beyond the columns."""
_HEADER = f"The first line names the columns: {', '.join(COLUMNS)}; the first two are required."


def load(text: str, *, dtype: str = "") -> Workload:
    """The named suite, or the file of this name: a CSV, AITER's or TunableOp's, or a log.

    `dtype` is that of what a list of shapes gives none; by default the operation's own.
    """
    name, suites = "-".join(text.lower().replace("_", " ").replace("-", " ").split()), suite_names()
    if name in suites:
        return named(name, dtype)
    path = Path(text)
    form = _FORMATS.get(path.suffix.lower())
    if form is None:
        close = difflib.get_close_matches(name, suites, n=1)
        hint = f"Did you mean {close[0]}? " if close else ""
        raise UsageError(
            f"there is no suite {text!r}.",
            remedy=f"{hint}`autotune suite --list` names the suites; a file ends in .csv, .yaml, .yml, .log or .txt.",
        )
    try:
        refuse_endless(path, _SHAPES if form == _SHAPES else "")
        form = _kind(path) or form if form == _SHAPES else form
        entries, skipped = _read(path, form, dtype)
        sha256 = file_digest(path)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.", remedy="Check the path.") from error
    if not entries:
        reasons = f" (first: {skipped[0]})" if skipped else ""
        raise UsageError(
            f"{path} holds nothing that can be tuned as a {form}{reasons}.",
            remedy="docs/suites.md has an example of each; shapes of your own go into a .csv.",
        )
    return Workload(_name(path), str(path), sha256, entries, skipped)


def suite_names() -> list[str]:
    return sorted(file.stem for file in packaged("suites").glob("*.csv"))


def named(name: str, dtype: str = "") -> Workload:
    """The suite of this name; each problem counts as one call."""
    file = packaged("suites") / f"{name}.csv"
    about, _, rows = file.read_text().partition("\n")
    return Workload(name, about.removeprefix("# "), file_digest(file), read_csv(rows, path=str(file), dtype=dtype))


def problems_of(suite: str) -> tuple[Problem, ...]:
    return tuple(entry.problem for entry in named(suite).entries)


def _read(path: Path, form: str, dtype: str) -> Read:
    with path.open("rb") as file:
        if form == _SHAPES:
            return read_csv(_text(file.read(), path), path=str(path), dtype=dtype), ()
        if form == AITER:
            return read_aiter(file, path.name, path.resolve().parent.name)
        if form == TUNABLE_OP:
            return read_tunable_op(file)
        return read_log(file)


def _kind(path: Path) -> str:
    """Whose table a CSV is, by its first line; empty: a list of shapes."""
    with path.open("rb") as file:
        return table_kind(file.readline(_LONGEST_HEADER).decode("utf-8-sig", errors="replace").strip())


def _name(path: Path) -> str:
    """The name of the file's results; also of their folder."""
    clean = "".join(c if c.isascii() and (c.isalnum() or c in "-_.") else "_" for c in path.stem).strip(".")
    return clean[:100] or "suite"


# --- lists of shapes --------------------------------------------------------------------------------------------------


def _text(data: bytes, path: Path) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise UsageError(f"{path}, line {line}: not UTF-8 text.", remedy="Save it as UTF-8.") from error


def read_csv(text: str, *, path: str, dtype: str = "") -> tuple[Entry, ...]:
    """All rows; one that is wrong is an error with its line, for a list of shapes is written by hand.

    `dtype` is that of rows that name none.
    """
    table = csv.DictReader(io.StringIO(text, newline=""), restkey=_MORE, restval="", strict=True)
    entries: list[Entry] = []
    wrong: list[str] = []
    try:
        table.fieldnames = _columns(table.fieldnames or (), path=path)
        for cells in table:
            row = {name: cell.strip() for name, cell in cells.items() if name != _MORE and cell.strip()}
            if dtype and row:
                row = {"dtype": dtype, **row}
            try:
                if _MORE in cells:
                    raise UsageError("it has more cells than columns.", remedy="Quote cells that hold commas.")
                entries += [_entry(row)] if row else []
            except UsageError as error:
                wrong.append(f"line {table.line_num}: {error}")
    except csv.Error as error:
        raise UsageError(f"{path}, line {table.reader.line_num}: {error}.", remedy="Is it a CSV file?") from error
    if wrong:
        more = f" … and {len(wrong) - 1} more bad rows." if len(wrong) > 1 else ""
        raise UsageError(f"{path}: {wrong[0]}{more}")
    if not entries:
        raise UsageError(f"{path} has a header and no rows.", remedy="Give one problem a row.")
    return distinct(entries)


def _columns(cells: Sequence[str], *, path: str) -> list[str]:
    names = [cell.strip().lower() for cell in cells]
    if missing := [name for name in REQUIRED if name not in names]:
        raise UsageError(f"{path}: the header has no column {' and no column '.join(missing)}.", remedy=_HEADER)
    if unknown := [name for name in names if name not in COLUMNS]:
        raise UsageError(f"{path}: unknown column {short(unknown[0])}.", remedy=_HEADER)
    if len(set(names)) < len(names):
        raise UsageError(f"{path}: a column stands twice in the header.", remedy="Name each column once.")
    return names


def _entry(row: dict[str, str]) -> Entry:
    calls = whole_number(row.pop(CALLS, "1"), CALLS)
    op = row.pop("op", "").lower()
    if op not in OPERATIONS:
        raise UsageError(f"op {short(op)} is unknown.", remedy=f"Choose one of: {', '.join(OPERATIONS)}.")
    known = OPERATIONS[op]
    if strange := [name for name in row if name not in (*known.options(), "shape")]:
        raise UsageError(f"{op} has no {', '.join(strange)}.", remedy=f"It has: {', '.join(known.options())}.")
    return Entry(known.from_words(row), calls)
