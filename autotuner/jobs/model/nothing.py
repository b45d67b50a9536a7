"""What is said of a model that has nothing to race against its default, and on what that rests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from autotuner.jobs.model.result import Row
from autotuner.jobs.model.routes import RouteOutcome
from autotuner.jobs.model.whole import Tuned
from autotuner.measure.judge import longer
from autotuner.measure.race import Verdict
from autotuner.system.text import count
from autotuner.targets import PLAIN
from autotuner.tuning.result import FinalVerdict, Result

NO_ROOT = "no dispatch has a product, a convolution or an attention"
OBSTACLES = ("skipped", "no-knobs")
"""States of dispatches that no time would help."""


@dataclass(frozen=True)
class Tried:
    """What was timed beside the default of a model, and what was not."""

    routes: int
    configurations: int
    """Of dispatches."""
    untold: int = 0
    """Dispatches of which it cannot be told whether they gain."""
    left_out: int = 0
    """Dispatches that there was no time for."""
    obstacles: tuple[str, ...] = ()
    """Why other dispatches cannot be tuned."""
    knobless: bool = False
    """No dispatch has anything to choose."""

    @classmethod
    def of(cls, routes: Sequence[RouteOutcome], rows: Sequence[Row], results: Sequence[Result]) -> Tried:
        return cls(
            routes=sum(one.ok and one.route != PLAIN for one in routes),
            configurations=sum(result.counts.rivals for result in results),
            untold=sum(result.verdict == "inconclusive" for result in results),
            left_out=sum(row.state == "left-out" and row.result is None and "(--budget)" in row.reason for row in rows),
            obstacles=tuple(row.reason for row in rows if row.state in OBSTACLES),
            knobless=bool(rows) and all(row.state == "no-knobs" for row in rows),
        )

    def words(self) -> str:
        routes = [count(self.routes, "route")] if self.routes else []
        searched = [f"{count(self.configurations, 'configuration')} of dispatches"] if self.configurations else []
        return " and ".join([*routes, *searched])

    def judged(self, *, budget: float) -> tuple[Verdict, str]:
        """The verdict where nothing is left to race against the default, and what it rests on."""
        open_ones, tried = self.untold + self.left_out, self.words()
        if self.knobless and not tried:
            return "no-winner", f"no knobs here, IREE's default is kept: {self.obstacles[0]}"
        if not tried and not open_ones and not self.obstacles:
            return "no-winner", f"nothing to tune here, IREE's default is kept: {NO_ROOT}"
        if not tried and not open_ones:
            return "inconclusive", f"nothing was tried: {self.why()}, and no route was timed"
        if not tried:
            return "inconclusive", f"nothing was tried, the time was up: {longer(2 * budget)}"
        if open_ones:
            reason = f"{tried} timed, none ahead of the default, and no time to tell of {count(open_ones, 'dispatch')}"
            return "inconclusive", f"{reason}: {longer(2 * budget)}"
        others = f"; {count(len(self.obstacles), 'dispatch')} cannot be tuned" if self.obstacles else ""
        return "no-winner", f"{tried} timed, none is faster than the default{others}"

    def why(self) -> str:
        why, often = Counter(self.obstacles).most_common(1)[0]
        more = len(self.obstacles) - often
        return f"no dispatch can be tuned ({why}{f', and {more} more' if more else ''})"


def without_device(tuned: Sequence[Tuned], rows: Sequence[Row]) -> tuple[FinalVerdict, str]:
    """The verdict of a model that was only compiled, and its reason."""
    if tuned:
        entries = count(len(tuned[-1].entries), "entry")
        verb = "is" if len(tuned[-1].entries) == 1 else "are"
        return "compile-only", f"no device: {entries} {verb} proven in the model, chosen by an estimate, never timed"
    tried = Tried.of((), rows, ())
    if tried.knobless or not rows:
        return tried.judged(budget=0.0)
    if len(tried.obstacles) == len(rows):
        return "inconclusive", f"nothing was tried: {tried.why()}"
    if tried.left_out == len(rows):
        return "inconclusive", f"nothing was tried: {rows[0].reason}"
    return "compile-only", "no device: by an estimate no candidate is better than IREE's default in any dispatch"
