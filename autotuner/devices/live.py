"""Calls as a user makes them, which tell whether what was timed can be believed.

Modules are called one after the other. Each call has inputs that none before it had, in one of several places, and the
results of another call lie where its own go: what does not compute, but knows a call again by its inputs, by their
places, by what its storage holds or by how many there were, is wrong here, or no faster.

The first module is asked a round later than the others what they were asked: while these are timed, the answer lies
nowhere in memory, and nothing tells what they will be asked.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from autotuner.devices.child_base import Message
from autotuner.devices.loaded import Loaded, Memory

Bytes = npt.NDArray[np.uint8]
Choice = tuple[int, ...]
"""By how many bytes each input is turned."""
LEAST_ROUNDS = 8
PLACES = 4
KEPT_BYTES = 1 << 28
"""Of results that are compared, of all modules: beyond, a random choice of the rounds is, at the least one."""


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
    """A call's inputs with their numbers in other places: whatever is true of each input's numbers stays so."""

    def __init__(
        self, memory: Memory, inputs: Sequence[Message], given: Sequence[Bytes], storage: int, rng: np.random.Generator
    ) -> None:
        self._memory, self._rng, self._given = memory, rng, given[: len(given) - storage]
        self._sizes = [int(np.prod(one["shape"])) for one in inputs]
        self._sources, *self._places = (
            [memory.view(data, one) for data, one in zip(given, inputs, strict=True)] for _ in range(PLACES + 1)
        )
        self._last = self._places[0]

    def choice(self) -> Choice:
        """Another order of each input; nobody knows it before."""
        pairs = zip(self._given, self._sizes, strict=False)
        return tuple(int(self._rng.integers(size)) * (data.size // size) if size else 0 for data, size in pairs)

    def call(self, party: Party, choice: Choice) -> tuple[float, Any, bool]:
        """Seconds and results of a call, and whether it left other inputs than it was given."""
        places = [place for place in self._places if place is not self._last]
        place = places[int(self._rng.integers(len(places)))]
        count = len(choice)
        for source, view, by in zip(self._sources, place, choice, strict=False):
            self._memory.turn(source.get_buffer(), view.get_buffer(), by)
        for before, view in zip(self._last[count:], place[count:], strict=True):
            self._memory.copy(before.get_buffer(), view.get_buffer())
        self._last = place
        seconds, out = party.loaded.call(party.function, place)
        left = [self._memory.download(view.get_buffer()) for view in place[:count]]
        same = (
            np.array_equal(now[by:], data[: data.size - by]) and np.array_equal(now[:by], data[data.size - by :])
            for now, data, by in zip(left, self._given, choice, strict=True)
        )
        return seconds, out, not all(same)


def live_rounds(
    memory: Memory, parties: Sequence[Party], inputs: Sequence[Message], given: Sequence[Bytes], request: Message
) -> list[Called]:
    """At most so many rounds, in so many seconds; `given` is what lies in the inputs' files, storage at the end."""
    rng = np.random.default_rng(request["seed"])
    places = Inputs(memory, inputs, given, request["storage"], rng)
    found, kept = [Called() for _ in parties], 0
    for party in parties:  # their first calls, which begin everything, are nobody's time
        _, out, _ = places.call(party, places.choice())
    size = len(parties) * sum(data.nbytes for view, data in _results(memory, out) if view is not None)
    ends, certain = time.monotonic() + request["seconds"], int(rng.integers(LEAST_ROUNDS))
    number, asked = 0, None
    while True:
        over = number > request["rounds"] or (number > LEAST_ROUNDS and time.monotonic() > ends)
        likely = kept + size <= KEPT_BYTES and rng.random() * LEAST_ROUNDS * size < KEPT_BYTES
        keeps = number == certain or likely
        kept += size if keeps else 0
        now = None if over else (places.choice(), keeps)
        for index in rng.permutation(len(parties)).tolist():
            if (question := now if index else asked) is None:
                continue
            places.call(parties[index], places.choice())  # right after another module a call takes longer
            seconds, out, changed = places.call(parties[index], question[0])
            one = found[index]
            one.changed |= changed
            if asked is not None and now is not None:
                one.seconds.append(seconds)
            if question[1]:
                one.results.append(_results(memory, out))
        if over:
            return found
        number, asked = number + 1, now


def _results(memory: Memory, out: Any) -> list[tuple[Any, Any]]:
    """Copies: what lies in a place does not stay."""
    found = [memory.result(out.get_variant(index)) for index in range(len(out))]
    return [(view, data if view is None else data.copy()) for view, data in found]
