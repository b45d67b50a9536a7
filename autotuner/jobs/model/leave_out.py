"""Which entries lose inside the model, where the runtime says nothing of single dispatches: the model without them.

The whole model is timed in turns with the one that lacks some entries. Where it is faster without them, one of them
loses: they are halved until that one is found. A model that gains about what its entries gained alone is not looked
into.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from autotuner.devices.device import Timing
from autotuner.errors import OutOfTimeError
from autotuner.iree.compile import Compiled
from autotuner.measure.blocks import Interval
from autotuner.measure.contest import TimingFailed, Turns, take_turns
from autotuner.measure.schedule import PAIRS

_DELIVERED = 0.7
"""Of what entries gained alone, at least, when nothing is looked into."""


class Member(Protocol):
    """Something that was put into the model."""

    @property
    def label(self) -> str: ...

    @property
    def share(self) -> float: ...

    @property
    def gain(self) -> float:
        """The part of its own time that it saves alone."""


E = TypeVar("E", bound=Member)
TimeModel = Callable[[Compiled], Timing]
"""One timing; TimingFailed where there is none."""


@dataclass(frozen=True)
class LeaveOut(Generic[E]):
    """Compares the tuned model with such that have fewer entries."""

    untuned: Compiled
    build: Callable[[Sequence[E]], Compiled]
    """The model with these entries."""
    time: TimeModel
    has_time: Callable[[float], bool]
    """Is there time for another comparison, which takes so many seconds to compile?"""
    seed: int = 0

    def losers(self, entries: Sequence[E], tuned: Compiled) -> dict[str, str]:
        """Labels of entries without which the model is faster, and why."""
        lost: dict[str, str] = {}
        with suppress(OutOfTimeError, TimingFailed):  # what is found by then is found
            ratio, _ = self._compare(tuned, self.untuned)
            if ratio is not None and 1 - 1 / ratio.median < _DELIVERED * expected_saving(entries):
                self._search(entries, tuned, lost)
        return lost

    def _search(self, entries: Sequence[E], tuned: Compiled, lost: dict[str, str]) -> None:
        waiting = deque(_halves(entries))
        while waiting and self.has_time(tuned.seconds):
            group = waiting.popleft()
            without = self.build([entry for entry in entries if entry not in group])
            if not without.ok:
                continue
            ratio, us = self._compare(without, tuned)
            if ratio is None or ratio.low <= 1.0:
                continue
            if len(group) > 1:
                waiting.extend(_halves(group))
            else:
                lost[group[0].label] = f"the model takes {us[1]:.1f} µs with it, without it {us[0]:.1f} µs"

    def _compare(self, one: Compiled, other: Compiled) -> tuple[Interval | None, tuple[float, float]]:
        """How much faster the first is, and the medians of both: as many pairs as tell whether it is."""
        builds = {"one": one, "other": other}

        def still(turns: Turns) -> list[str]:
            known = turns.beats("one", "other") or turns.beats("other", "one")
            return [] if turns.failed or known or turns.blocks >= PAIRS else [*builds]

        turns = take_turns([*builds], lambda name: self.time(builds[name]), still, seed=self.seed)
        if turns.failed:
            raise TimingFailed(*turns.failed.values())
        if not turns.blocks:
            raise OutOfTimeError
        us = turns.medians
        return turns.ratio("one", "other"), (us["one"], us["other"])


def expected_saving(entries: Sequence[Member]) -> float:
    """The part of the model's time that the entries save if each gains as much as it did alone."""
    return sum(entry.share * entry.gain for entry in entries)


def _halves(entries: Sequence[E]) -> list[Sequence[E]]:
    """One entry is its own half: without it there is the untuned model, which the race has."""
    if len(entries) <= 1:
        return []
    middle = math.ceil(len(entries) / 2)
    return [entries[:middle], entries[middle:]]
