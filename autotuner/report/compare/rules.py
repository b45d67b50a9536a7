"""When a kernel counts as slower or faster than before: three rules, each by its name."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from autotuner.errors import UsageError
from autotuner.store.figures import Figure
from autotuner.system.text import count, percent

Verdict = Literal[
    "regression", "failed", "improvement", "unclear", "unstable", "incomparable", "same", "ignored",
    "only-golden", "only-new",
]  # fmt: skip
RuleName = Literal["interval", "aiter", "ratio"]

SMALLEST_CHANGE = 0.01
"""`interval`: less than this is no change. It is also what a winner must gain at the least."""
RATIO_LIMIT = 0.05
"""`ratio`: no interval is asked for, so the limit must be wider than the noise."""
AITER_IGNORED_US, AITER_FACTOR, AITER_SLACK_US, AITER_SPREAD = 4.0, 1.005, 0.5, 0.05
"""`aiter`: what is ignored, what counts as slower (factor × golden + slack), what is unstable."""


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


def by_ratio(golden: Figure, new: Figure, limit: float) -> Ruling:
    """By medians alone."""
    if _beyond(new.us, (1 + limit) * golden.us):
        return Ruling("regression")
    if _beyond(golden.us, (1 + limit) * new.us):
        return Ruling("improvement")
    return Ruling("same")


RULES: Mapping[str, Rule] = {
    "interval": Rule("interval", "both 95 % intervals apart by more than the limit", by_interval, SMALLEST_CHANGE),
    "aiter": Rule(
        "aiter", "new > 1.005 × golden + 0.5 µs; below 4 µs ignored; spread beyond 5 % unstable", by_aiter, None
    ),
    "ratio": Rule("ratio", "the medians' ratio beyond the limit", by_ratio, RATIO_LIMIT),
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
