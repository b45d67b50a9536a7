"""What is put before the judge, and what comes of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from autotuner.measure.blocks import DEFAULT_RULES, Entrant, Interval, RaceResult, Rules, Verdict
from autotuner.measure.race import Confirmation
from autotuner.measure.shortlist import Screened, pick_for_race
from autotuner.measure.timeplan import FEWEST, TimePlan

SAME = Interval(1.0, 1.0, 1.0)

Cause = Literal["no-knobs", "no-operations", "obstacles", "failed"]
"""Why nothing came of it, where time has no part in it: nothing to choose, the reason names what is in the way,
or all that was tried failed."""


@dataclass(frozen=True)
class Contest:
    """Who is compared, and what a win is."""

    entrants: tuple[Entrant, ...]
    baseline: str
    stock: str
    """The best of what flags alone give: the baseline itself where no route is better."""
    rules: Rules = DEFAULT_RULES
    confirm_blocks: int = 24
    seed: int = 0
    screened: tuple[Screened, ...] = ()
    """The entrants' screening, where there was one: the best of it are screened again, and `places` of them race."""
    places: int = 8
    chosen: str | None = None
    """Who is to be confirmed without a race: it was chosen elsewhere."""
    won_before: bool = False
    """The chosen one was found to be faster before: where it is clearly ahead again, few blocks may do."""
    favourite: str | None = None
    """Who is confirmed where there is no time for a race; by default the best of the screening, or the first rival."""
    known_us: float | None = None
    """What the baseline took before, where nothing was chosen by that: it counts where there are few timings."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """What people are told in place of an entrant's id."""

    def __post_init__(self) -> None:
        names = {entrant.id for entrant in self.entrants}
        named = {self.baseline, self.stock, self.chosen or self.baseline, self.favourite or self.baseline}
        if missing := named - names:
            raise ValueError(f"no entrants: {', '.join(sorted(missing))}")

    def complexity(self, name: str) -> int:
        return next(entrant.complexity for entrant in self.entrants if entrant.id == name)

    def label(self, name: str) -> str:
        return self.labels.get(name, name)

    @property
    def likeliest(self) -> str:
        """Who is thought to be the fastest, before any race."""
        if self.favourite is not None:
            return self.favourite
        best = pick_for_race(self.screened, baseline=self.baseline, count=1)
        return best[0] if best else next(one.id for one in self.entrants if one.id != self.baseline)

    def timed_in(self, plan: TimePlan) -> TimePlan:
        """A run's plan for this very contest."""
        rivals = len(self.entrants) - 1
        places = min(max(self.places, FEWEST), rivals) if self.screened else rivals
        screens = bool(self.screened) and rivals > 1
        stock = self.stock != self.baseline
        known = int(self.known_us is not None)
        blocks = self.confirm_blocks
        return replace(plan, rivals=places, screens=screens, blocks=blocks, stock=stock, building=0.0, known=known)


@dataclass(frozen=True)
class Judgement:
    """The verdict with its evidence."""

    verdict: Verdict
    reason: str
    stock: str
    winner: str | None = None
    leader: str | None = None
    """Who is ahead, where nothing but that was asked."""
    us: Mapping[str, float] = field(default_factory=dict)
    """Median µs of those that were timed side by side, from the last time that they were."""
    race_us: Mapping[str, float] = field(default_factory=dict)
    """Of those that raced: the race's own, which a confirmation in fresh processes stands beside."""
    speedup: Interval | None = None
    """Of the one that was confirmed, over the baseline."""
    confirmed_name: str | None = None
    """Whose speedup that is, whether it holds or not."""
    over_stock: Interval | None = None
    raced: RaceResult | None = None
    confirmed: Confirmation | None = None
    cause: Cause | None = None

    def of_stock(self, *, baseline: str, rules: Rules, label: str) -> Judgement | None:
        """A win of the best stock route in place of the winner, where the confirmation shows that it holds alone."""
        stock, confirmed = self.stock, self.confirmed
        if confirmed is None or stock in (baseline, self.winner) or stock not in confirmed.times:
            return None
        alone = confirmed.ratio(stock, baseline, alpha=rules.alpha)
        if alone is None or alone.low <= 1 + rules.smallest_gain:
            return None
        reason = f"fresh blocks give {alone.median:.3f} ({alone.bounds}) for {label}"
        return replace(
            self, verdict="win", reason=reason, winner=stock, speedup=alone, confirmed_name=stock, over_stock=SAME
        )

    def shown(self, candidate: str, against: str) -> Interval | None:
        """What a race shows of two entrants, whoever wins, at the level of one of its looks."""
        if self.raced is None:
            return None
        rules = self.raced.rules
        return self.raced.ratio(candidate, against, alpha=rules.alpha / len(rules.looks))
