"""What comes before IREE's default is timed, where the time is up in it: what was under way, and what would do."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from autotuner.errors import OutOfTimeError
from autotuner.measure.thoroughness import Thoroughness
from autotuner.measure.timeplan import CALLS, Pace, TimePlan, longer
from autotuner.system.progress import Clock

_PASSES = 4
"""The right answers are about so many computations of the problem: of two sets of inputs, each with its bounds."""
_TOLD = 0.05
"""Of a computation: by less nobody can tell how long all of it takes."""
_UNTOLD = 2.0
"""What nobody knows the length of may take so many times as long as it has."""
_TIMINGS = 3
"""Of the default, before there is anything to compare it with: its checks, and what its repeats are chosen by."""


class BeginningError(OutOfTimeError):
    """The time was up before IREE's default was timed."""

    def __init__(self, what: str, seconds: float, *, left: float) -> None:
        under_way = f"{what} had not ended after {seconds:.0f} s"
        super().__init__(f"the time was up before IREE's default was timed: {under_way}")
        self.left = left
        """Seconds from there to a verdict, about."""

    def would_do(self, clock: Clock) -> str:
        """The budget for all of it."""
        return longer(max(clock.elapsed + self.left, clock.budget), part=clock.part)


@dataclass(frozen=True)
class Beginning:
    """Guesses how long the rest of a run takes, by what is known so far."""

    thoroughness: Thoroughness
    on_cores: bool
    """The device computes about as fast as this process does."""
    judges: bool = True

    def compiling(self) -> AbstractContextManager[None]:
        """The default's first build."""
        return _cut_off("the compile of IREE's default", lambda took, _: took + self._verdict(building=_UNTOLD * took))

    def answering(self) -> AbstractContextManager[None]:
        """The right answers."""

        def left(took: float, done: float) -> float:
            whole = took / done if done >= _TOLD else _PASSES * _UNTOLD * took
            return whole - took + self._verdict(call=whole / _PASSES if self.on_cores else 0.0)

        return _cut_off("the computation of the right answers", left)

    def calling(self) -> AbstractContextManager[None]:
        """The default's first run."""
        return _cut_off("the first run of IREE's default", lambda took, _: took + self._verdict(call=took))

    def timing(self, call: float) -> AbstractContextManager[None]:
        """The default's timings, once it is known how many seconds a call lasts."""
        return timing_default(self._verdict(call=call))

    def _verdict(self, *, call: float = 0.0, building: float = 0.0) -> float:
        """Seconds for the least that a verdict can be counted on, from the default's first run on."""
        lasting = self.thoroughness.repetition_seconds
        one = CALLS * max(call, lasting)
        plan = TimePlan(
            Pace(one, one),
            Pace(one, one),
            rivals=self.thoroughness.race_entrants,
            screens=True,
            blocks=self.thoroughness.confirm_blocks,
            building=building,
            judges=self.judges,
        )
        # As long as none but the default has run, one may be so fast that a call takes no longer than a repetition.
        hoped = plan.paced(baseline_us=1e6 * max(call, lasting), best_us=1e6 * lasting, lasting=lasting)
        return _TIMINGS * one + hoped.enough


def timing_default(left: float) -> AbstractContextManager[None]:
    """The default's timings, after which a verdict takes about so many seconds."""
    return _cut_off("timing it", lambda *_: left)


def late(error: OutOfTimeError, clock: Clock) -> str:
    """Why a run has no verdict, and the budget that would do."""
    if isinstance(error, BeginningError):
        return f"{error.message}: {error.would_do(clock)}"
    return f"the time was up: {longer(2 * clock.budget, part=clock.part)}"


@contextmanager
def _cut_off(what: str, left: Callable[[float, float], float]) -> Iterator[None]:
    """`left` are the seconds from there to a verdict, by those that it took so far and by how much of it was done."""
    began = time.monotonic()
    try:
        yield
    except BeginningError:
        raise
    except OutOfTimeError as error:
        took = time.monotonic() - began
        raise BeginningError(what, took, left=left(took, error.done)) from error
