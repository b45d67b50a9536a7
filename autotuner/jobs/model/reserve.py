"""The time that is kept for the end of a model's run: the race, its confirmation, and the compile of what ships."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from autotuner.jobs.model.context import Context
from autotuner.jobs.model.expectation import SHIPPING, racing_seconds
from autotuner.jobs.model.routes import RouteOutcome
from autotuner.system.progress import Clock

_MOST = 0.6
"""Of the budget, for all of it."""


@dataclass(frozen=True)
class Reserve:
    """By what the routes took that were tried."""

    context: Context
    tried: Sequence[RouteOutcome]

    @property
    def seconds(self) -> float:
        """For compiling the tuned model, once more when something is dropped, and for the rest."""
        return 2 * self.compile_seconds + self.racing

    @property
    def compile_seconds(self) -> float:
        return max((t.build.took for t in self.tried if t.build and t.build.ok), default=0.0)

    @property
    def racing(self) -> float:
        """For the first look of a race, a confirmation and the compile of what ships."""
        return min(self.in_full, _MOST * self.context.clock.budget)

    @property
    def in_full(self) -> float:
        """The same, whether there is time for it or not."""
        good = [t.us for t in self.tried if t.ok and t.us is not None]
        return racing_seconds(
            timing=self.context.timing_seconds,
            isolated=self.context.isolated_seconds,
            best=min(good, default=0.0) / 1e6,
            rivals=2 if len(good) > 1 else 1,
            compile_seconds=self.compile_seconds,
        )

    def race_clock(self) -> Clock:
        """The time for the race: what ships is compiled once more after it."""
        clock, kept = self.context.clock, SHIPPING * self.compile_seconds
        return replace(clock, budget=clock.budget - kept, kept=kept)
