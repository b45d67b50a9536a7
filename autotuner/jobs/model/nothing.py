"""What is said of a model that has nothing to race against its default, and on what that rests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from autotuner.jobs.model.contestant import Contestant
from autotuner.jobs.model.result import Row
from autotuner.measure.blocks import Verdict
from autotuner.measure.judgement import Cause, Judgement
from autotuner.measure.schedule import longer
from autotuner.system.text import count
from autotuner.targets import PLAIN
from autotuner.tuning.plan import BASELINE
from autotuner.tuning.result import FinalVerdict, Result

NO_ROOT = "no dispatch has a product, a convolution or an attention"
OBSTACLES = ("skipped", "no-knobs")
"""States of dispatches that no time would help."""


class Said(NamedTuple):
    """How a run without a device ends."""

    verdict: FinalVerdict
    reason: str
    cause: Cause | None = None


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
    ahead: int = 0
    """Dispatches that are ahead alone, where no model was made with them."""
    obstacles: tuple[str, ...] = ()
    """Why other dispatches cannot be tuned."""
    knobless: bool = False
    """No dispatch has anything to choose."""
    more_routes: bool = False
    """Routes that there was no time for."""

    @classmethod
    def of(
        cls,
        routes: Sequence[Contestant],
        rows: Sequence[Row],
        results: Sequence[Result],
        *,
        more_routes: bool = False,
    ) -> Tried:
        return cls(
            routes=sum(one.contends and one.route != PLAIN for one in routes),
            configurations=sum(result.counts.rivals for result in results),
            untold=sum(result.verdict == "inconclusive" for result in results),
            left_out=sum(row.out_of_time for row in rows),
            ahead=sum(row.state == "ahead" for row in rows),
            obstacles=tuple(row.reason for row in rows if row.state in OBSTACLES),
            knobless=bool(rows) and all(row.state == "no-knobs" for row in rows),
            more_routes=more_routes,
        )

    def words(self) -> str:
        routes = [count(self.routes, "route")] if self.routes else []
        searched = [f"{count(self.configurations, 'configuration')} of dispatches"] if self.configurations else []
        return " and ".join([*routes, *searched])

    def judged(self, *, wanted: float) -> Judgement:
        """The verdict where nothing is left to race against the default, and what it rests on; `wanted` are the seconds
        that would have done."""
        open_ones, tried = self.untold + self.left_out, self.words()
        if self.knobless and not tried:
            return _judged("no-winner", f"no knobs here, IREE's default is kept: {self.obstacles[0]}", "no-knobs")
        if not tried and not open_ones and not self.obstacles:
            if self.more_routes:
                return _judged("inconclusive", f"{NO_ROOT}, and the time was up for routes: {longer(wanted)}")
            return _judged("no-winner", f"nothing to tune here, IREE's default is kept: {NO_ROOT}", "no-operations")
        if not tried and not open_ones:
            return _judged("inconclusive", f"nothing was tried: {self.why()}, and no route was timed", "obstacles")
        if not tried:
            return _judged("inconclusive", f"nothing was tried, the time was up: {longer(wanted)}")
        if self.ahead:
            found = f"{count(self.ahead, 'dispatch')} {'is' if self.ahead == 1 else 'are'} ahead of the default alone"
            reason = f"{tried} timed: {found}, with no time to tell of the model"
            return _judged("inconclusive", f"{reason}: {longer(wanted)}")
        if open_ones:
            reason = f"{tried} timed, none ahead of the default, and no time to tell of {count(open_ones, 'dispatch')}"
            return _judged("inconclusive", f"{reason}: {longer(wanted)}")
        others = f"; {count(len(self.obstacles), 'dispatch')} cannot be tuned" if self.obstacles else ""
        return _judged("no-winner", f"{tried} timed, none is faster than the default{others}")

    def why(self) -> str:
        why, often = Counter(self.obstacles).most_common(1)[0]
        more = len(self.obstacles) - often
        return f"no dispatch can be tuned ({why}{f', and {more} more' if more else ''})"


def _judged(verdict: Verdict, reason: str, cause: Cause | None = None) -> Judgement:
    return Judgement(verdict, reason, BASELINE, cause=cause)


def without_device(tuned: Sequence[Contestant], rows: Sequence[Row]) -> Said:
    """The verdict of a model that was only compiled, and its reason."""
    if tuned:
        return Said(
            "compile-only", f"no device: {_proven(len(tuned[-1].entries), len(tuned[-1].kernels))}, never timed"
        )
    tried = Tried.of((), rows, ())
    if tried.knobless or not rows:
        judgement = tried.judged(wanted=0.0)
        return Said(judgement.verdict, judgement.reason, judgement.cause)
    if len(tried.obstacles) == len(rows):
        return Said("inconclusive", f"nothing was tried: {tried.why()}", "obstacles")
    if all(row.out_of_time or (row.result is not None and row.result.verdict == "inconclusive") for row in rows):
        return Said("inconclusive", f"nothing was tried: {rows[0].reason}")
    told = [row.reason for row in rows if row.result is not None and row.state not in OBSTACLES]
    if len(told) == 1:
        return Said("compile-only", told[0])
    return Said("compile-only", "no device: no candidate of any dispatch promises more than IREE's default")


def _proven(entries: int, kernels: int) -> str:
    """What is proven in a model without a device."""
    verb = "is" if entries + kernels == 1 else "are"
    if not kernels:
        return f"{count(entries, 'entry')} {verb} proven in the model, chosen by an estimate"
    chosen = f" and {count(entries, 'entry')}, chosen by an estimate," if entries else ""
    return f"{count(kernels, 'microkernel')}{chosen} {verb} proven in the model"
