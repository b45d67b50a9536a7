"""Times of a run's default and its best with a warm and a cold last level cache."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from autotuner.system.text import microseconds

Cache = Literal["warm", "cold", "both"]
"""Of a search: `both` is a warm one, after which the default and the best are also timed cold."""

DISAGREEMENT = 0.02
"""Less than this is no disagreement."""


@dataclass(frozen=True, slots=True)
class Pair:
    """The default's time and that of the best, in µs."""

    baseline_us: float
    best_us: float | None

    @property
    def gain(self) -> float | None:
        return self.baseline_us / self.best_us if self.best_us else None

    def to_json(self) -> dict[str, Any]:
        return {"baseline_us": self.baseline_us, "best_us": self.best_us}

    @classmethod
    def from_json(cls, table: Mapping[str, Any]) -> Pair:
        return cls(table["baseline_us"], table["best_us"])

    def words(self, baseline: str = "default", best: str = "best") -> str:
        first = f"{baseline} {microseconds(self.baseline_us)}"
        if self.best_us is None or self.gain is None:
            return first
        return f"{first}, {best} {microseconds(self.best_us)} ({self.gain:.3f}x)"


@dataclass(frozen=True, slots=True)
class Caches:
    """Both states of the cache, in the same state of the device: they compare with each other, not with other times."""

    warm: Pair
    cold: Pair

    def words(self, baseline: str = "default", best: str = "best") -> str:
        """In words, with names of the two."""
        return f"{self.cold.words(baseline, best)}; warm in the same turns: {self.warm.words(baseline, best)}"

    def disagreement(self, *, won: bool, judged: Cache) -> str | None:
        """What to tell where the other state of the cache would have chosen otherwise.

        Of the state that was `judged`, the verdict rests on many more timings than there are here.
        """
        warm, cold = self.warm.gain, self.cold.gain
        if warm is None or cold is None:
            return None
        name, gain, other = ("warm", warm, cold) if judged == "cold" else ("cold", cold, warm)
        if won and gain < 1 <= other:
            return f"warm and cold disagree: with a {name} cache the winner is slower than the baseline, {gain:.3f}x"
        if not won and gain > 1 + DISAGREEMENT and other <= 1 + DISAGREEMENT / 2:
            return f"warm and cold disagree: with a {name} cache the best beats the baseline, {gain:.3f}x"
        return None
