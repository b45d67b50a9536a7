"""Two sets of results side by side: which kernels became slower, which faster, and where each was measured.

Golden and new figures are joined by problem, target and kernel; each pair is judged by one of two rules.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from autotuner.errors import UsageError
from autotuner.store.figures import TOLD, Failure, Figure, Measurements
from autotuner.system.text import count, percent, printable

Verdict = Literal[
    "regression", "failed", "improvement", "unclear", "unstable", "incomparable", "same", "ignored",
    "only-golden", "only-new",
]  # fmt: skip
RuleName = Literal["interval", "aiter"]

SMALLEST_CHANGE = 0.01
"""`interval`: less than this is no change. It is also what a winner must gain at the least."""
AITER_IGNORED_US, AITER_FACTOR, AITER_SLACK_US, AITER_SPREAD = 4.0, 1.005, 0.5, 0.05
"""`aiter`: what is ignored, what counts as slower (factor × golden + slack), what is unstable."""
ORDER: tuple[Verdict, ...] = get_args(Verdict)
"""What a reader must act on comes first."""
BAD: tuple[Verdict, ...] = ("regression", "failed")
"""What --fail-on-regression fails on."""
CONDITIONS = ("state", "cache", "device")
"""What must be alike in both figures of a pair."""
STATES = ("process", "sustained", "burst")
"""Of several states that both sets have, the first: a time from fresh processes says most about another night."""
Key = tuple[str, str, str, str]
"""Problem, target, kernel and state of the cache."""


@dataclass(frozen=True)
class Ruling:
    """What a rule says of two figures, and why where that is not in the figures."""

    verdict: Verdict
    note: str = ""


@dataclass(frozen=True)
class Rule:
    """A rule with its limit; `limit` is a part of the golden time."""

    name: RuleName
    about: str
    judge: Callable[[Figure, Figure, float], Ruling]
    limit: float | None
    """None: the rule has its own."""

    def __call__(self, golden: Figure, new: Figure) -> Ruling:
        return self.judge(golden, new, self.limit or 0.0)

    @property
    def words(self) -> str:
        limit = "" if self.limit is None else f", {100 * self.limit:g} %"
        return f"{self.name}{limit}"


def _beyond(value: float, limit: float) -> bool:
    """More than the limit. What is the limit itself but for rounding is not."""
    return value > limit and not math.isclose(value, limit, rel_tol=1e-9)


def by_interval(golden: Figure, new: Figure, limit: float) -> Ruling:
    """Slower where the whole new interval lies beyond the golden one by more than the limit."""
    if golden.run and golden == new:
        return Ruling("same", f"one and the same timing, of run {golden.run}")
    before, after = golden.interval, new.interval
    for side, figure in (("golden", golden), ("new", new)):
        if figure.interval is None:
            return Ruling("unclear", f"the {side} figure has no interval: it is of {count(figure.blocks, 'block')}")
    assert before is not None
    assert after is not None
    factor = 1 + limit
    if _beyond(after[0], factor * before[1]):
        return Ruling("regression")
    if _beyond(before[0], factor * after[1]):
        return Ruling("improvement")
    if not _beyond(after[1], factor * before[0]) and not _beyond(before[1], factor * after[0]):
        return Ruling("same")
    return Ruling("unclear", "the intervals allow both a change and none")


def by_aiter(golden: Figure, new: Figure, limit: float) -> Ruling:
    """As aiter's golden sets are checked: by medians, with slack for what is short and a limit for what spreads."""
    del limit
    if golden.us < AITER_IGNORED_US and new.us < AITER_IGNORED_US:
        return Ruling("ignored", f"both below {AITER_IGNORED_US:g} µs")
    for side, figure in (("golden", golden), ("new", new)):
        if figure.spread is not None and _beyond(figure.spread, AITER_SPREAD):
            return Ruling("unstable", f"the {side} figure spreads by {percent(figure.spread)}")
    if _beyond(new.us, AITER_FACTOR * golden.us + AITER_SLACK_US):
        return Ruling("regression")
    if _beyond(golden.us, AITER_FACTOR * new.us + AITER_SLACK_US):
        return Ruling("improvement")
    return Ruling("same")


RULES: Mapping[str, Rule] = {
    "interval": Rule("interval", "both 95 % intervals apart by more than the limit", by_interval, SMALLEST_CHANGE),
    "aiter": Rule(
        "aiter", "new > 1.005 × golden + 0.5 µs; below 4 µs ignored; spread beyond 5 % unstable", by_aiter, None
    ),
}


def find_rule(name: str, *, percent: float | None = None) -> Rule:
    """A rule by its name; `percent` replaces its limit."""
    rule = RULES.get(name)
    if rule is None:
        raise UsageError(f"unknown --rule {name!r}.", remedy=f"Choose one of: {', '.join(RULES)}.")
    if percent is None:
        return rule
    if rule.limit is None:
        raise UsageError(f"the rule {name} has limits of its own.", remedy="Leave --threshold out.")
    if not 0 <= percent <= 1000:
        raise UsageError(f"--threshold {percent:g} is not a percentage.", remedy="Give 0 to 1000.")
    return Rule(rule.name, rule.about, rule.judge, percent / 100)


# --- pairs ---------------------------------------------------------------------------------------------------------


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


def compare(golden: ResultSet, new: ResultSet, rule: Rule) -> Comparison:
    """Every kernel of either set once."""
    sides, notes = [], [*golden.notes, *new.notes]
    for word, one in (("golden", golden), ("new", new)):
        kept = newest(one.found.figures)
        older = len(one.found.figures) - len(kept)
        if older:
            notes.append(f"{word}: {count(older, 'older figure')} of the same kernels left out, the newest count")
        sides.append(_by_key(kept))
    failures = {(one.problem, one.target): one for one in sorted(new.found.failures, key=lambda one: one.started)}
    rows = [
        _row(key, sides[0].get(key, ()), sides[1].get(key, ()), rule, failures.get(key[:2]))
        for key in {*sides[0], *sides[1]}
    ]
    known = {key[:2] for side in sides for key in side}
    notes += [f"new: {at[0]} on {at[1]} failed: {one.reason}" for at, one in failures.items() if at not in known]
    facts = tuple(_facts(golden.found.environments, new.found.environments))
    ordered = sorted(rows, key=lambda row: row.order)
    return Comparison(golden.name, new.name, rule, tuple(ordered), facts, tuple(notes))


def newest(figures: Iterable[Figure]) -> list[Figure]:
    """Of each kernel in each condition the latest, whatever order they come in."""
    found: dict[tuple[tuple[str, ...], ...], Figure] = {}
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
        found.setdefault((*figure.key, figure.cache), []).append(figure)
    return found


def _row(key: Key, golden: Sequence[Figure], new: Sequence[Figure], rule: Rule, failed: Failure | None) -> Row:
    """Of the figures that were taken in the same conditions, those that say most."""
    if not golden:
        return Row(*key, "only-new", new=_first(new))
    if not new:
        if failed is not None:
            return Row(*key, "failed", golden=_first(golden), note=printable(failed.reason))
        return Row(*key, "only-golden", golden=_first(golden))
    pairs = [(a, b) for a in golden for b in new if a.conditions == b.conditions]
    if pairs:
        a, b = min(pairs, key=lambda pair: _preference(pair[0]))
        ruling = rule(a, b)
        return Row(*key, ruling.verdict, a, b, ruling.note)
    a, b = _first(golden), _first(new)
    both = zip(CONDITIONS, a.conditions, b.conditions, strict=True)
    told = "; ".join(f"{name}: {one} and {other}" for name, one, other in both if one != other)
    return Row(*key, "incomparable", a, b, told)


def _first(figures: Sequence[Figure]) -> Figure:
    return min(figures, key=_preference)


def _preference(figure: Figure) -> tuple[bool, int, str, str]:
    """First what has an interval, then by state."""
    place = STATES.index(figure.state) if figure.state in STATES else len(STATES)
    return figure.low is None, place, figure.state, figure.device


def _facts(golden: Sequence[Mapping[str, Any]], new: Sequence[Mapping[str, Any]]) -> Iterable[Fact]:
    for name in TOLD:
        sides = [
            tuple(sorted({str(one[name]) for one in side if one.get(name) not in (None, "")})) for side in (golden, new)
        ]
        if any(sides):
            yield Fact(name, *sides)
