"""Two sets of results side by side: which kernels became slower, which faster, and where each was measured.

Figures are joined by problem, target, kernel and the conditions they were taken in, and judged by their intervals.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from autotuner.errors import UsageError
from autotuner.store.figures import TOLD, Failure, Figure, Measurements, measurements
from autotuner.store.imports import import_file
from autotuner.store.store import Store
from autotuner.system import process
from autotuner.system.text import count, printable, short
from autotuner.system.workspace import refuse_endless

Verdict = Literal["regression", "failed", "improvement", "unclear", "same", "only-golden", "only-new"]

SMALLEST_CHANGE = 0.01
"""A smaller change does not count; a winner must gain as much."""
ORDER: tuple[Verdict, ...] = get_args(Verdict)
"""What a reader must act on comes first."""
BAD: tuple[Verdict, ...] = ("regression", "failed")
"""What --fail-on-regression fails on."""
FORMS = "Name a run, a workspace, a database (FILE.db or a URL) or an export (.json)."
_RUN = re.compile(r"\d{8}-\d{6}-[0-9a-f]{6}")
_SQLITE = b"SQLite format 3\0"


def limit_of(percent: float | None) -> float:
    """The smallest change that counts, as a part of the golden time."""
    if percent is None:
        return SMALLEST_CHANGE
    if not 0 <= percent <= 1000:
        raise UsageError(f"a threshold of {percent:g} is not a percentage.", remedy="Give 0 to 1000.")
    return percent / 100


# --- sets ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ResultSet:
    """A set of results: its name as given, and its figures."""

    name: str
    found: Measurements


def open_set(word: str, *, workspace: Path = Path(), storage: str | None = None) -> ResultSet:
    """Opens a run, workspace, database or export. Runs are those of `workspace` or `storage`."""
    path = Path(word)
    if "://" in word:
        return _of_database(word)
    if _RUN.fullmatch(word) and not path.exists():
        return _of_database(storage, workspace=workspace, run=word)
    refuse_endless(path)
    if path.is_dir():
        return _of_database(None, workspace=path, name=word)
    if not path.is_file():
        raise UsageError(f"there is no run, folder or file {short(word)}.", remedy=FORMS)
    with path.open("rb") as file:
        if file.read(len(_SQLITE)) == _SQLITE:
            return _of_database(f"sqlite:///{path.absolute()}", name=word)
    # An export is taken as `autotune import` takes it, and as carefully.
    with process.temporary("autotune-") as folder, Store.open(None, workspace=folder) as store:
        import_file(store, path)
        return ResultSet(word, measurements(store))


def _of_database(
    url: str | None, *, workspace: Path = Path(), name: str | None = None, run: str | None = None
) -> ResultSet:
    with Store.open(url, workspace=workspace, create=False) as store:
        return ResultSet(f"run {run}" if run else name or store.name, measurements(store, run))


# --- pairs ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """One kernel of one problem on one target, in one state of the device and its cache."""

    verdict: Verdict
    golden: Figure | None = None
    new: Figure | None = None
    note: str = ""

    @property
    def figure(self) -> Figure:
        """Either: both are of the same kernel."""
        found = self.new or self.golden
        assert found is not None
        return found

    @property
    def name(self) -> str:
        return f"{self.figure.problem} {self.figure.kernel} on {self.figure.target}"

    @property
    def ratio(self) -> float | None:
        """New over golden: more than 1 is slower."""
        if self.golden is None or self.new is None or not self.golden.us:
            return None
        return self.new.us / self.golden.us

    @property
    def order(self) -> tuple[object, ...]:
        return ORDER.index(self.verdict), self.figure.key, self.figure.conditions


@dataclass(frozen=True)
class Fact:
    """One line of both environments."""

    name: str
    golden: tuple[str, ...]
    new: tuple[str, ...]

    @property
    def differs(self) -> bool:
        return set(self.golden) != set(self.new)


@dataclass(frozen=True)
class Comparison:
    """Two sets side by side."""

    golden: str
    new: str
    limit: float
    rows: tuple[Row, ...]
    environment: tuple[Fact, ...]
    notes: tuple[str, ...]

    @property
    def counts(self) -> dict[str, int]:
        found = Counter(row.verdict for row in self.rows)
        return {verdict: found[verdict] for verdict in ORDER if found[verdict]}

    @property
    def regressed(self) -> list[Row]:
        return [row for row in self.rows if row.verdict in BAD]

    @property
    def compared(self) -> bool:
        """Is there any pair of times?"""
        return any(row.ratio is not None for row in self.rows)

    @property
    def differing(self) -> list[Fact]:
        return [fact for fact in self.environment if fact.differs]

    @property
    def rule(self) -> str:
        return f"both 95 % intervals apart by more than {100 * self.limit:g} %"

    @property
    def verdict(self) -> str:
        """The first line of the output."""
        told = ", ".join(f"{n} {verdict}" for verdict, n in self.counts.items())
        word = "regression" if self.regressed else "no regression" if self.compared else "nothing could be compared"
        return f"{word}: {told}"


def compare(golden: ResultSet, new: ResultSet, limit: float = SMALLEST_CHANGE) -> Comparison:
    """Every kernel of either set once."""
    sides, notes = [], []
    for word, one in (("golden", golden), ("new", new)):
        kept = newest(one.found.figures)
        if older := len(one.found.figures) - len(kept):
            notes.append(f"{word}: {count(older, 'older figure')} of the same kernels left out, the newest count")
        sides.append(kept)
    before, after = sides
    failures = {(one.problem, one.target): one for one in sorted(new.found.failures, key=lambda one: one.started)}
    rows = [_row(before.get(key), after.get(key), limit, failures) for key in {**before, **after}]
    known = {(figure.problem, figure.target) for side in sides for figure in side.values()}
    notes += [f"new: {at[0]} on {at[1]} failed: {one.reason}" for at, one in failures.items() if at not in known]
    facts = tuple(_facts(golden.found.environments, new.found.environments))
    ordered = sorted(rows, key=lambda row: row.order)
    return Comparison(golden.name, new.name, limit, tuple(ordered), facts, tuple(notes))


def newest(figures: Iterable[Figure]) -> dict[object, Figure]:
    """The latest figure of each kernel in each condition."""
    ordered = sorted(figures, key=lambda one: (one.started, one.run, one.blocks, one.us))
    return {(figure.key, figure.conditions): figure for figure in ordered}


def _row(golden: Figure | None, new: Figure | None, limit: float, failures: Mapping[tuple[str, str], Failure]) -> Row:
    if golden is not None and new is not None:
        verdict, note = judge(golden, new, limit)
        return Row(verdict, golden, new, note)
    if golden is None:
        return Row("only-new", new=new)
    if failed := failures.get((golden.problem, golden.target)):
        return Row("failed", golden, note=printable(failed.reason))
    return Row("only-golden", golden)


def judge(golden: Figure, new: Figure, limit: float) -> tuple[Verdict, str]:
    """A regression where the whole new interval lies beyond the golden one by more than the limit; and a note where the
    figures do not explain the verdict."""
    if golden.run and golden == new:
        return "same", f"one and the same timing, of run {golden.run}"
    before, after = golden.interval, new.interval
    if before is None or after is None:
        side, figure = ("golden", golden) if before is None else ("new", new)
        return "unclear", f"the {side} figure has no interval: it is of {count(figure.blocks, 'block')}"
    factor = 1 + limit
    if _beyond(after[0], factor * before[1]):
        return "regression", ""
    if _beyond(before[0], factor * after[1]):
        return "improvement", ""
    if not _beyond(after[1], factor * before[0]) and not _beyond(before[1], factor * after[0]):
        return "same", ""
    return "unclear", "the intervals allow both a change and none"


def _beyond(value: float, limit: float) -> bool:
    """Is it more than the limit, rounding aside?"""
    return value > limit and not math.isclose(value, limit, rel_tol=1e-9)


def _facts(golden: Sequence[Mapping[str, Any]], new: Sequence[Mapping[str, Any]]) -> Iterable[Fact]:
    for name in TOLD:
        sides = [
            tuple(sorted({str(one[name]) for one in side if one.get(name) not in (None, "")})) for side in (golden, new)
        ]
        if any(sides):
            yield Fact(name, *sides)
