"""How long things may take here: a machine may be four times slower than others, and stand still for minutes."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

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


def alive(pid: int | None) -> bool:
    """Runs still: gone and zombie are both dead."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in ("Z", "X")
    except OSError:
        return False
