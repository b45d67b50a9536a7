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

from autotuner.errors import OutOfTimeError
from autotuner.iree.compile import Compiled
from autotuner.measure.contest import Turns
from autotuner.measure.judge import PAIRS

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


@dataclass(frozen=True)
class LeaveOut(Generic[E]):
    """Compares the tuned model with such that have fewer entries."""

    untuned: Compiled
    build: Callable[[Sequence[E]], Compiled]
    """The model with these entries."""
    compare: Callable[[Compiled, Compiled, int], Turns]
    """Times two models in turns, `one` and `other`, so often at most."""
    can_compare: Callable[[float, int], bool]
    """Is there time for another comparison, which takes so many seconds to compile and so many turns?"""

    def losers(self, entries: Sequence[E], tuned: Compiled) -> dict[str, str]:
        """Labels of entries without which the model is faster, and why."""
        lost: dict[str, str] = {}
        with suppress(OutOfTimeError):  # what is found by then is found
            turns = self.compare(tuned, self.untuned, PAIRS)
            told = not turns.failed and turns.blocks > 0
            if told and 1 - 1 / turns.lead("one", "other") < _DELIVERED * expected_saving(entries):
                self._search(entries, tuned, lost)
        return lost

    def _search(self, entries: Sequence[E], tuned: Compiled, lost: dict[str, str]) -> None:
        waiting = deque(_halves(entries))
        while waiting and self.can_compare(tuned.seconds, PAIRS):
            group = waiting.popleft()
            without = self.build([entry for entry in entries if entry not in group])
            if not without.ok:
                continue
            turns = self.compare(without, tuned, PAIRS)
            if turns.failed or not turns.beats("one", "other"):
                continue
            if len(group) > 1:
                waiting.extend(_halves(group))
            else:
                us = turns.medians
                lost[group[0].label] = f"the model takes {us['other']:.1f} µs with it, without it {us['one']:.1f} µs"


def expected_saving(entries: Sequence[Member]) -> float:
    """The part of the model's time that the entries save if each gains as much as it did alone."""
    return sum(entry.share * entry.gain for entry in entries)


def _halves(entries: Sequence[E]) -> list[Sequence[E]]:
    """One entry is its own half: without it there is the untuned model, which the race has."""
    if len(entries) <= 1:
        return []
    middle = math.ceil(len(entries) / 2)
    return [entries[:middle], entries[middle:]]
