"""Calls as a user makes them, which tell whether what was timed can be believed.

Modules are called one after the other. Each round has inputs that no call has seen, in buffers that were not there
before, and the results of another call lie where the next ones go: what does not compute, but knows a call again by its
inputs, by their places, by what its storage holds or by how many there were, is wrong here, or no faster.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from autotuner.devices.child_base import Message
from autotuner.devices.loaded import Loaded, Memory

Bytes = npt.NDArray[np.uint8]
LEAST_ROUNDS = 8
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

    seconds: list[float]
    results: list[list[tuple[Any, Any]]]
    """Of the rounds that are kept: each a tensor's view with its bytes, or no view and a number."""
    changed: bool = False


def live_rounds(
    memory: Memory, parties: Sequence[Party], inputs: Sequence[Message], given: Sequence[Bytes], request: Message
) -> list[Called]:
    """At most so many rounds, in so many seconds; `given` holds what lies in the inputs' files, the storage of results
    at the end."""
    rng, ends = np.random.default_rng(request["seed"]), time.monotonic() + request["seconds"]
    tensors = len(given) - request["storage"]
    fed, storage = list(given[:tensors]), list(given[tensors:])
    found, kept = [Called([], []) for _ in parties], 0
    for party in parties:  # their first calls, which begin everything, are nobody's time
        _, results, _ = _call(memory, party, inputs, fed, storage)
        storage = _bytes(results) if storage else []
    size = len(parties) * sum(data.nbytes for data in _bytes(results))
    for number in range(request["rounds"]):
        if number >= LEAST_ROUNDS and time.monotonic() > ends:
            break
        before, rolled = ([_rolled(data, one, rng) for data, one in zip(fed, inputs, strict=False)] for _ in range(2))
        keeps = kept + size <= KEPT_BYTES and rng.random() * LEAST_ROUNDS * size < KEPT_BYTES
        kept += size if keeps else 0
        left = storage
        for index in rng.permutation(len(parties)).tolist():
            _, results, changed = _call(
                memory, parties[index], inputs, before, left
            )  # after others a call takes longer
            seconds, results, again = _call(memory, parties[index], inputs, rolled, _bytes(results) if storage else [])
            one = found[index]
            one.seconds.append(seconds)
            one.changed |= changed or again
            if keeps:
                one.results.append(results)
            storage = _bytes(results) if storage else []
    return found


def _bytes(results: Sequence[tuple[Any, Any]]) -> list[Bytes]:
    return [data for view, data in results if view is not None]


def _call(
    memory: Memory, party: Party, inputs: Sequence[Message], fed: Sequence[Bytes], storage: Sequence[Bytes]
) -> tuple[float, list[tuple[Any, Any]], bool]:
    """Seconds of one call, its results, and whether it wrote to its inputs."""
    views = [memory.view(data, one) for data, one in zip((*fed, *storage), inputs, strict=True)]
    seconds, out = party.loaded.call(party.function, views)
    results = [memory.result(out.get_variant(index)) for index in range(len(out))]
    pairs = zip(views, fed, strict=False)
    return seconds, results, any(not np.array_equal(memory.download(view.get_buffer()), data) for view, data in pairs)


def _rolled(data: Bytes, one: Message, rng: np.random.Generator) -> Bytes:
    """The same numbers in other places: whatever is true of each input's numbers stays so."""
    count = int(np.prod(one["shape"]))
    return np.roll(data, int(rng.integers(count)) * (data.size // count)) if count else data
