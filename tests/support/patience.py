"""How long things may take here: a machine may be four times slower than others, and stand still for minutes."""

from __future__ import annotations

import time
from collections.abc import Callable

ENOUGH = 1200.0
"""Seconds that nothing takes, wherever it is: for what must not wait forever, and for budgets that trials end."""


def wait_until(condition: Callable[[], bool], *, seconds: float = 120.0) -> bool:
    """Whether it came true in time."""
    ends = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > ends:
            return False
        time.sleep(0.02)
    return True
