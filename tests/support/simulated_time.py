"""Runs whose time is simulated: programs run as fast as they can, and take as long as a test says.

What this process computes itself takes no time. Where programs run side by side, their seconds pass side by side too.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from autotuner.devices.connection import Connection
from autotuner.errors import OutOfTimeError
from autotuner.system import process
from autotuner.tuning import pool
from tests.support.patience import ENOUGH

Words = Sequence[str]
Takes = Callable[[Words], float]
LATE = 10.0
"""Seconds by which a command may exceed its budget."""
_LOOK = 0.001
"""Seconds that pass with each look at the clock, so that whoever only looks comes to an end."""


def alike(words: Words) -> float:
    """A slow machine: 4 s for a compile, half a second for all else."""
    return 4.0 if words[0].endswith("iree-compile") else 0.5


@dataclass
class SimulatedTime:
    """The time of a run: `takes` gives the seconds of a program by its words, and of a request by the word `ask`."""

    takes: Takes = alike
    now: float = 1000.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def monotonic(self) -> float:
        with self._lock:
            self.now += _LOOK
            return self.now

    def rule(self, patch: pytest.MonkeyPatch) -> SimulatedTime:
        """From here on it is the time of all runs in this process."""
        run, ask = process.run, Connection.ask

        def simulated(command: Sequence[str | Path], *, timeout: float, **how: Any) -> process.Finished:
            with self._passing(tuple(map(str, command)), timeout) as ends:
                if not ends:
                    return process.Finished(-9, "", "", timeout, timed_out=True)
                return run(command, timeout=ENOUGH, **how)

        def asked(device: Connection, request: Any, *, timeout: float) -> Any:
            with self._passing(("ask", str(request["ask"])), timeout):
                return ask(device, request, timeout=ENOUGH)

        patch.setattr(process, "run", simulated)
        patch.setattr(Connection, "ask", asked)
        patch.setattr("time.monotonic", self.monotonic)
        patch.setattr(pool, "monotonic", self.monotonic)
        return self

    @contextmanager
    def _passing(self, words: Words, timeout: float) -> Iterator[bool]:
        """Whether it ends before its time-out; one that the deadline cuts off is not begun."""
        process.raise_if_late()
        began, takes, left = self.monotonic(), self.takes(words), process.seconds_left()
        cut_off = left < min(takes, timeout)
        try:
            if cut_off:
                raise OutOfTimeError
            with process.however_late():
                yield takes < timeout
        finally:
            with self._lock:
                self.now = max(self.now, began + min(takes, timeout, left))
