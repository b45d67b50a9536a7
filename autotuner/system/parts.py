"""Long computations of this process: they look at the clock between parts, and where they are cut off they say how much
was done."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from autotuner.errors import OutOfTimeError
from autotuner.system import process

T = TypeVar("T")
PIECE = 2 * 10**10
"""Flops that numpy computes without a look at the clock, about a second's worth."""


@contextmanager
def part(number: int, of: int) -> Iterator[None]:
    """One of so many parts, about equally long, counted from 0; not begun where the time is up."""
    process.raise_if_late(done=number / of)
    try:
        yield
    except OutOfTimeError as error:
        raise OutOfTimeError(done=(number + error.done) / of) from error


def in_parts(parts: Sequence[T]) -> Iterator[T]:
    """One after another, as long as there is time."""
    for number, one in enumerate(parts):
        process.raise_if_late(done=number / len(parts))
        yield one
