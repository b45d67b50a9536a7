"""How long things may take here: on a busy machine all of them take longer."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from autotuner.system.settings import usable_cores


def patient(seconds: float) -> float:
    """As many seconds as these are on a machine with nothing else to do."""
    return seconds * max(1.0, os.getloadavg()[0] / usable_cores())


LATE = patient(10.0)
"""Seconds that a budget may be exceeded by: ten, and on a busy machine as much longer as all else takes there."""


def wait_until(condition: Callable[[], bool], *, seconds: float = 20.0) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return condition()
