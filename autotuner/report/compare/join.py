"""Golden and new figures joined by problem, target and kernel, each pair judged by a rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

from autotuner.errors import UsageError
from autotuner.report.compare.rules import Rule, Verdict
from autotuner.store.figures import BEST, DEFAULT, TOLD, Failure, Figure, Measurements
from autotuner.system.text import count, printable

ORDER: tuple[Verdict, ...] = get_args(Verdict)
"""What a reader must act on comes first."""
BAD: tuple[Verdict, ...] = ("regression", "failed")
"""What --fail-on-regression fails on."""
CONDITIONS = ("state", "cache", "device")
"""What must be alike in both figures of a pair."""
_STATES = ("process", "sustained", "burst")
"""Of several states that both sets have, the first: a time from fresh processes says most about another night."""
Key = tuple[str, str, str]


@dataclass(frozen=True)
class Row:
    """One kernel of one problem on one target, in one state of the cache."""

    problem: str
    target: str
    kernel: str
    cache: str
    verdict: Verdict
    golden: Figure | None = None
    new: Figure | None = None
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """New over golden: more than 1 is slower."""
        if self.golden is None or self.new is None or self.verdict == "incomparable" or not self.golden.us:
            return None
        return self.new.us / self.golden.us

    @property
    def order(self) -> tuple[int, str, str, str, str]:
        return ORDER.index(self.verdict), self.problem, self.target, self.kernel, self.cache


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
class ResultSet:
    """What is compared: its name as given, and what it holds."""

    name: str
    found: Measurements
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Comparison:
    """Two sets side by side."""

    golden: str
    new: str
    rule: Rule
    rows: tuple[Row, ...]
    environment: tuple[Fact, ...]
    notes: tuple[str, ...]

    @property
    def counts(self) -> dict[str, int]:
        found = Counter(row.verdict for row in self.rows)
        return {verdict: found[verdict] for verdict in ORDER if found[verdict]}

    @property
    def regressed(self) -> bool:
        return any(row.verdict in BAD for row in self.rows)

    @property
    def compared(self) -> bool:
        """Is there any pair of times?"""
        return any(row.ratio is not None for row in self.rows)

    @property
    def differing(self) -> list[Fact]:
        return [fact for fact in self.environment if fact.differs]

    @property
    def verdict(self) -> str:
        """The first line: what a reader asks."""
        counts = self.counts
        bad = sum(counts.get(verdict, 0) for verdict in BAD)
        told = ", ".join(f"{n} {verdict}" for verdict, n in counts.items())
        word = "regression" if bad else "no regression" if self.compared else "nothing could be compared"
        return f"{word}: {told}"


def compare(golden: ResultSet, new: ResultSet, rule: Rule, *, across: Iterable[str] = ()) -> Comparison:
    """Every kernel of either set once. `across` names conditions in which the two figures of a pair may differ."""
    loose = set(across)
    if unknown := loose - set(CONDITIONS):
        words = ", ".join(sorted(unknown))
        raise UsageError(f"unknown --across {words}.", remedy=f"Choose from: {', '.join(CONDITIONS)}.")
    sides, notes = [], [*golden.notes, *new.notes]
    for word, one in (("golden", golden), ("new", new)):
        kept = newest(one.found.figures)
        older = len(one.found.figures) - len(kept)
        if older:
            notes.append(f"{word}: {count(older, 'older figure')} of the same kernels left out, the newest count")
        sides.append(_by_key(kept))
    failures = {(one.problem, one.target): one for one in sorted(new.found.failures, key=lambda one: one.started)}
    rows: list[Row] = []
    for key in {*sides[0], *sides[1]}:
        failed = failures.get(key[:2])
        rows += _pairs(key, sides[0].get(key, ()), sides[1].get(key, ()), rule, loose, failed)
    known = {key[:2] for side in sides for key in side}
    notes += [f"new: {at[0]} on {at[1]} failed: {one.reason}" for at, one in failures.items() if at not in known]
    facts = tuple(_facts(golden.found.environments, new.found.environments))
    ordered = sorted(_explained(rows), key=lambda row: row.order)
    return Comparison(golden.name, new.name, rule, tuple(ordered), facts, tuple(notes))


def newest(figures: Iterable[Figure]) -> list[Figure]:
    """Of each kernel in each condition the latest, whatever order they come in."""
    found: dict[tuple[Key, tuple[str, str, str]], Figure] = {}
    for figure in figures:
        at = figure.key, figure.conditions
        if at not in found or _age(figure) > _age(found[at]):
            found[at] = figure
    return list(found.values())


def _age(figure: Figure) -> tuple[str, str, int, float]:
    return figure.started, figure.run, figure.blocks, figure.us


def _by_key(figures: Iterable[Figure]) -> Mapping[Key, list[Figure]]:
    found: dict[Key, list[Figure]] = {}
    for figure in figures:
        found.setdefault(figure.key, []).append(figure)
    return found


def _pairs(
    key: Key, golden: Sequence[Figure], new: Sequence[Figure], rule: Rule, loose: set[str], failed: Failure | None
) -> list[Row]:
    """One row for a warm cache and one for a cold one, where there are figures of both."""
    if "cache" in loose:
        caches = [("any", golden, new)]
    else:
        names = sorted({figure.cache for figure in (*golden, *new)}, reverse=True)
        caches = [(name, _in(golden, name), _in(new, name)) for name in names]
    return [_row(key, cache, mine, other, rule, loose, failed) for cache, mine, other in caches]


def _in(figures: Iterable[Figure], cache: str) -> list[Figure]:
    return [figure for figure in figures if figure.cache == cache]


def _row(
    key: Key,
    cache: str,
    golden: Sequence[Figure],
    new: Sequence[Figure],
    rule: Rule,
    loose: set[str],
    failed: Failure | None,
) -> Row:
    if not golden or not new:
        if not golden:
            return Row(*key, cache, "only-new", new=_first(new))
        if failed is not None:
            return Row(*key, cache, "failed", golden=_first(golden), note=printable(failed.reason))
        return Row(*key, cache, "only-golden", golden=_first(golden))
    pairs = [(a, b) for a in golden for b in new if not _differences(a, b)]
    if pairs:
        a, b = min(pairs, key=lambda pair: _preference(pair[0]))
        ruling = rule(a, b)
        return Row(*key, cache, ruling.verdict, a, b, ruling.note)
    a, b = _first(golden), _first(new)
    differences = _differences(a, b)
    told = "; ".join(f"{name}: {one} and {other}" for name, (one, other) in differences.items())
    if differences.keys() <= loose:
        ruling = rule(a, b)
        return Row(
            *key, cache, ruling.verdict, a, b, f"compared across {told}{f'; {ruling.note}' if ruling.note else ''}"
        )
    return Row(*key, cache, "incomparable", a, b, told)


def _first(figures: Sequence[Figure]) -> Figure:
    return min(figures, key=_preference)


def _preference(figure: Figure) -> tuple[bool, int, str, str]:
    """First what has an interval, then by state."""
    place = _STATES.index(figure.state) if figure.state in _STATES else len(_STATES)
    return figure.low is None, place, figure.state, figure.device


def _differences(golden: Figure, new: Figure) -> dict[str, tuple[str, str]]:
    both = zip(CONDITIONS, golden.conditions, new.conditions, strict=True)
    return {name: (one, other) for name, one, other in both if one != other}


def _explained(rows: Sequence[Row]) -> list[Row]:
    """A best that moved as its default did tells of the machine or of the compiler, not of the kernel."""
    defaults = {(row.problem, row.target, row.cache): row for row in rows if row.kernel == DEFAULT}
    told = []
    for row in rows:
        default = defaults.get((row.problem, row.target, row.cache))
        moved = row.kernel == BEST and row.verdict in ("regression", "improvement")
        if moved and default is not None and default.verdict == row.verdict and default.ratio is not None:
            note = f"the default moved too, by {default.ratio:.3f}"
            told.append(replace(row, note="; ".join(filter(None, (row.note, note)))))
        else:
            told.append(row)
    return told


def _facts(golden: Sequence[Mapping[str, Any]], new: Sequence[Mapping[str, Any]]) -> Iterable[Fact]:
    for name in TOLD:
        sides = [
            tuple(sorted({str(one[name]) for one in side if one.get(name) not in (None, "")})) for side in (golden, new)
        ]
        if any(sides):
            yield Fact(name, *sides)
