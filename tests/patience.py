"""How long things may take here: on a busy machine all of them take longer."""

from __future__ import annotations

import os

from autotuner.system.settings import usable_cores


def patient(seconds: float) -> float:
    """As many seconds as these are on a machine with nothing else to do."""
    return seconds * max(1.0, os.getloadavg()[0] / usable_cores())
