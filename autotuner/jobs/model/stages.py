"""Which part of a model's budget goes before its dispatches are tuned: to routes, and to ranking what they made."""

from __future__ import annotations

from dataclasses import dataclass

TUNED_FROM = 1 / 3
"""Of the budget: from then on dispatches are tuned, or microkernels go into the model."""
ROUTES_SHARE = 0.3
"""Of the budget, for trying routes; the default and the one that is expected to win are tried in any case."""
_ROUTES_SHARE_ALONE = 0.2
"""The same where each dispatch has to be timed alone to rank them: that comes before any is tuned, too."""
_ALONE_SHARE = 0.25
"""Of the time that is left, at most, for timing each dispatch alone."""
_LEAST_ALONE = 0.05
"""Of the budget: so long they are timed alone however late it is. What is left is estimated."""


@dataclass(frozen=True)
class Stages:
    """When each must be over, in seconds of the run."""

    budget: float
    alone: bool
    """The device keeps no statistics of dispatches."""

    @property
    def routes(self) -> float:
        """No route is begun that is expected to end later."""
        return (_ROUTES_SHARE_ALONE if self.alone else ROUTES_SHARE) * self.budget

    @property
    def routes_end(self) -> float:
        """Even a route that was begun is given up here."""
        return (self.routes + TUNED_FROM * self.budget) / 2 if self.alone else TUNED_FROM * self.budget

    def ranked(self, elapsed: float) -> float:
        """When dispatches are ranked that began to be timed alone after `elapsed` seconds."""
        latest = max(TUNED_FROM * self.budget, elapsed + _LEAST_ALONE * self.budget)
        return min(elapsed + _ALONE_SHARE * max(self.budget - elapsed, 0.0), latest)
