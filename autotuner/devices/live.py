"""Calls as a user makes them, which tell whether what was timed can be believed.

Modules are called one after the other. Each call has inputs that none before it had, in one of several places, and the
results of another call lie where its own go: what does not compute, but knows a call again by its inputs, by their
places, by what its storage holds or by how many there were, is wrong here, or no faster.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from autotuner.devices.child_base import Message
from autotuner.devices.loaded import Loaded, Memory

Bytes = npt.NDArray[np.uint8]
Choice = tuple[int, ...]
LEAST_ROUNDS = 8
PLACES = 4
VARIANTS, VARIANT_BYTES = 128, 1 << 29
"""Of all inputs together, at most: each alone has as many in other orders as this is the product of."""
KEPT_BYTES = 1 << 28
"""Of results that are compared, of all modules: beyond, a random choice of the rounds is."""


@dataclass(frozen=True)
class Party:
    """A module and its function."""

    loaded: Loaded
    function: Any


@dataclass
class Called:
    """What the calls of one module came to."""

    seconds: list[float] = field(default_factory=list)
    results: list[list[tuple[Any, Any]]] = field(default_factory=list)
    """Of the rounds that are kept: each a tensor's view with its bytes, or no view and a number."""
    changed: bool = False
    """It wrote to its inputs."""


class Inputs:
    """A call's inputs in many orders of their numbers, and places to call with them."""

    def __init__(
        self, memory: Memory, inputs: Sequence[Message], given: Sequence[Bytes], storage: int, rng: np.random.Generator
    ) -> None:
        self._memory, self._rng, self._count = memory, rng, len(given) - storage
        fed = list(zip(given, inputs, strict=True))[: self._count]
        size = sum(data.nbytes for data, _ in fed) or 1
        each = max(2, min(math.ceil(VARIANTS ** (1 / max(len(fed), 1))), VARIANT_BYTES // size))
        self._orders = [[_rolled(data, one, rng) for _ in range(each)] for data, one in fed]
        self._sources = [
            [memory.view(data, one) for data in orders] for orders, (_, one) in zip(self._orders, fed, strict=True)
        ]
        self._places = [
            [memory.view(data, one) for data, one in zip(given, inputs, strict=True)] for _ in range(PLACES)
        ]
        self._last = self._places[0]

    def choices(self) -> Iterator[Choice]:
        """Which order of each input, no two the same until all were; then all anew."""
        sizes = [len(orders) for orders in self._orders]
        while True:
            for number in self._rng.permutation(math.prod(sizes)).tolist():
                yield tuple(int(one) for one in np.unravel_index(number, sizes)) if sizes else ()

    def call(self, party: Party, choice: Choice) -> tuple[float, Any, list[Any]]:
        """Seconds, results and inputs of a call."""
        places = [place for place in self._places if place is not self._last]
        place = places[int(self._rng.integers(len(places)))]
        for sources, number, view in zip(self._sources, choice, place, strict=False):
            self._memory.copy(sources[number].get_buffer(), view.get_buffer())
        for before, view in zip(self._last[self._count :], place[self._count :], strict=True):
            self._memory.copy(before.get_buffer(), view.get_buffer())
        self._last = place
        return *party.loaded.call(party.function, place), place[: self._count]

    def changed(self, choice: Choice, views: Sequence[Any]) -> bool:
        """Whether a call left other inputs than it was given."""
        given = [orders[number] for orders, number in zip(self._orders, choice, strict=True)]
        pairs = zip(views, given, strict=True)
        return any(not np.array_equal(self._memory.download(view.get_buffer()), data) for view, data in pairs)


def live_rounds(
    memory: Memory, parties: Sequence[Party], inputs: Sequence[Message], given: Sequence[Bytes], request: Message
) -> list[Called]:
    """At most so many rounds, in so many seconds; `given` is what lies in the inputs' files, storage at the end."""
    rng = np.random.default_rng(request["seed"])
    places = Inputs(memory, inputs, given, request["storage"], rng)
    found, choices, kept = [Called() for _ in parties], places.choices(), 0
    for party in parties:  # their first calls, which begin everything, are nobody's time
        _, out, _ = places.call(party, next(choices))
    size = len(parties) * sum(data.nbytes for view, data in _results(memory, out) if view is not None)
    ends = time.monotonic() + request["seconds"]
    for number in range(request["rounds"]):
        if number >= LEAST_ROUNDS and time.monotonic() > ends:
            break
        keeps = kept + size <= KEPT_BYTES and rng.random() * LEAST_ROUNDS * size < KEPT_BYTES
        kept += size if keeps else 0
        first, second = next(choices), next(choices)
        for index in rng.permutation(len(parties)).tolist():
            places.call(parties[index], first)  # right after another module a call takes longer
            seconds, out, views = places.call(parties[index], second)
            one = found[index]
            one.seconds.append(seconds)
            one.changed |= places.changed(second, views)
            if keeps:
                one.results.append(_results(memory, out))
    return found


def _results(memory: Memory, out: Any) -> list[tuple[Any, Any]]:
    """Copies: what lies in a place does not stay."""
    found = [memory.result(out.get_variant(index)) for index in range(len(out))]
    return [(view, data if view is None else data.copy()) for view, data in found]


def _rolled(data: Bytes, one: Message, rng: np.random.Generator) -> Bytes:
    """The same numbers in other places: whatever is true of each input's numbers stays so."""
    count = int(np.prod(one["shape"]))
    return np.roll(data, int(rng.integers(count)) * (data.size // count)) if count else data
