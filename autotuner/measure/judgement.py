"""What the judge is asked, and its answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from autotuner.measure.blocks import DEFAULT_RULES, BlockTimes, Entrant, Interval, Rules, Verdict, ratio_text
from autotuner.measure.reference import DEFAULT

SAME = Interval(1.0, 1.0, 1.0)
Cause = Literal[
    "no-gain", "nothing-to-tune", "failed", "default-fails", "out-of-time", "noise", "no-device", "interrupted"
]
"""Why a run ends as it does; `causes` has what they mean."""


@dataclass(frozen=True)
class Contest:
    """Who is compared, and what a win is."""

    entrants: tuple[Entrant, ...]
    """The one that is thought to be the fastest comes first of the baseline's rivals."""
    baseline: str
    stock: str
    """The best of what flags alone give: the baseline itself where no route is better."""
    rules: Rules = DEFAULT_RULES
    seed: int = 0
    chosen: str | None = None
    """The one to confirm without a race: it was chosen elsewhere."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Names of entrants in messages."""

    def __post_init__(self) -> None:
        names = [entrant.id for entrant in self.entrants]
        if len(set(names)) != len(names):
            raise ValueError(f"entrants need distinct ids: {names}")
        if missing := {self.baseline, self.stock, self.chosen or self.baseline} - {*names}:
            raise ValueError(f"no entrants: {', '.join(sorted(missing))}")
        if not self.rivals:
            raise ValueError(f"nobody races against {self.baseline}")

    @property
    def rivals(self) -> list[str]:
        return [entrant.id for entrant in self.entrants if entrant.id != self.baseline]

    def without(self, name: str) -> Contest | None:
        """The same of the others; None where nobody is left."""
        entrants = tuple(entrant for entrant in self.entrants if entrant.id != name)
        stock = self.baseline if self.stock == name else self.stock
        return replace(self, entrants=entrants, stock=stock, chosen=None) if len(entrants) > 1 else None

    def foreign(self, name: str) -> bool:
        return next(entrant.foreign for entrant in self.entrants if entrant.id == name)

    def complexity(self, name: str) -> int:
        return next(entrant.complexity for entrant in self.entrants if entrant.id == name)

    def label(self, name: str) -> str:
        return self.labels.get(name, name)

    @property
    def over(self) -> str:
        """What a speedup is over, in words."""
        return self.labels.get(self.baseline, DEFAULT)


@dataclass(frozen=True)
class Audited:
    """How a winner was called on changing inputs."""

    seed: int
    """Of the first batch of rounds; each further one has the next."""
    rounds: int = 0
    compared: int = 0
    """Rounds whose results were compared."""
    speedup: Interval | None = None
    """Of single calls, what a call costs beside the work included."""
    work: Interval | None = None
    """The same without that cost, as far as the timings tell it."""

    def to_json(self) -> dict[str, Any]:
        ratios = {"speedup": self.speedup, "work": self.work}
        told = {name: ratio.to_json() if ratio else None for name, ratio in ratios.items()}
        return {"seed": self.seed, "rounds": self.rounds, "compared": self.compared, **told}


@dataclass(frozen=True)
class Judgement:
    """The verdict with its evidence."""

    verdict: Verdict
    reason: str
    stock: str
    winner: str | None = None
    leader: str | None = None
    """A ranking, where no verdict was asked for."""
    us: Mapping[str, float] = field(default_factory=dict)
    """Median µs of those that were timed side by side, from the last time that they were."""
    speedup: Interval | None = None
    """Of the one that was confirmed, over the baseline."""
    confirmed_name: str | None = None
    """Whose speedup that is, whether it holds or not."""
    over_stock: Interval | None = None
    raced: BlockTimes | None = None
    confirmed: BlockTimes | None = None
    cause: Cause | None = None
    audited: Audited | None = None
    """What calls on changing inputs said of the winner."""
    out_of_time: bool = False
    """More time might decide it."""

    def without_speedup(self) -> Judgement:
        """Where the one that was confirmed is out."""
        return replace(self, winner=None, speedup=None, over_stock=None, confirmed_name=None, confirmed=None)

    def held_to(self, work: Interval | None, *, baseline: str, over: str) -> Judgement:
        """The same win, no larger than calls on changing inputs bear out."""
        told = self.speedup
        if self.winner is None or told is None or work is None:
            return self
        speedup = told.at_most(work)
        same = f" on inputs that change (always the same: {ratio_text(told.median)})"
        return replace(
            self,
            speedup=speedup,
            over_stock=self.over_stock and self.over_stock.times(speedup.per(told)),
            us={**self.us, self.winner: self.us[baseline] / speedup.median},
            reason=speedup.over(over) + (same if speedup.median < told.median else ""),
        )

    def of_stock(self, *, baseline: str, rules: Rules, over: str) -> Judgement | None:
        """A win of the best stock route in place of the winner, where the confirmation shows that it holds alone."""
        stock, confirmed = self.stock, self.confirmed
        if confirmed is None or stock in (baseline, self.winner) or stock not in confirmed.times:
            return None
        alone = confirmed.ratio(stock, baseline, alpha=rules.alpha)
        if alone is None or alone.low <= rules.worth:
            return None
        reason = alone.over(over)
        return replace(
            self, verdict="win", reason=reason, winner=stock, speedup=alone, confirmed_name=stock, over_stock=SAME
        )
