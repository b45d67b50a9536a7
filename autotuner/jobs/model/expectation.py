"""How long a model's run is thought to take, where nobody says how long it may."""

from __future__ import annotations

import math
from dataclasses import dataclass

from autotuner.measure.schedule import PAIRS, longer

_PER_DISPATCH = 0.05
"""Of the effort's budget for a single problem, for each dispatch: there it is one of many, in one pool."""
_COMPILES = 3
"""Of the whole with its entries: one that is raced, one when something is dropped, one that ships."""
_ROUND = 10.0
"""Seconds that what is told is rounded up to."""


@dataclass(frozen=True)
class Known:
    """What is known of a model when its default and its first routes have been timed."""

    elapsed: float
    """Seconds from the beginning."""
    round_seconds: float
    """For compiling some routes side by side and timing them."""
    rounds: int
    """How many of these there would be with every first route and every knob turned once."""
    compile_seconds: float
    block_seconds: float
    """For timing all that race once, in the race and again to confirm."""
    dispatches: int


def expected_seconds(known: Known, *, single: float, most: float) -> float:
    """For all that is worth doing; `single` is what one problem gets at this effort, `most` what it ends at."""
    routes = known.rounds * known.round_seconds
    tuning = known.dispatches * _PER_DISPATCH * single
    whole = _COMPILES * known.compile_seconds + PAIRS * known.block_seconds
    return min(math.ceil((known.elapsed + routes + tuning + whole) / _ROUND) * _ROUND, most)


def too_small(budget: float, least: float) -> str:
    """What the user is told where no verdict can be expected in the time."""
    return f"{in_words(budget)} will hardly do for a verdict on this model: {longer(least)}"


def expectation(whole: float, left: float) -> str:
    """What the user is told."""
    return f"this takes about {in_words(whole)} in all, {in_words(left)} from here; --budget gives it another time"


def in_words(seconds: float) -> str:
    """`4 min 30 s`."""
    minutes, rest = divmod(round(seconds), 60)
    words = [f"{minutes} min"] if minutes else []
    return " ".join([*words, *([f"{rest} s"] if rest or not words else [])])
