"""How long things may take here: a machine may be four times slower than others, and stand still for minutes."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from typing import ParamSpec

import pytest

from autotuner.errors import AutotuneError

P = ParamSpec("P")
ENOUGH = 1200.0
"""Seconds that nothing takes, wherever it is: for what must not wait forever, and for budgets that trials end."""
LATE = 20.0
"""Seconds that a budget may be exceeded by where the machine does not stand still."""


def one_of_three(test: Callable[P, None]) -> Callable[P, None]:
    """For a test of real time, which a machine that stands still for a while spoils: one try of three must hold."""

    @wraps(test)
    def tried(*words: P.args, **named: P.kwargs) -> None:
        for _ in range(2):
            with suppress(AssertionError, AutotuneError, pytest.fail.Exception):
                return test(*words, **named)
        return test(*words, **named)

    return tried


def wait_until(condition: Callable[[], bool], *, seconds: float = 120.0) -> bool:
    """Whether it came true in time."""
    ends = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > ends:
            return False
        time.sleep(0.02)
    return True
