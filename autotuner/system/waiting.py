"""Waiting for others: seconds in which this process stood still count for nobody.

Ctrl-Z stops it, a hypervisor stops the whole machine. What is waited for stood still as well, or has ended meanwhile.
"""

from __future__ import annotations

import math
import platform
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

TURN_SECONDS = 1.0
"""The longest wait without a look at the clock."""
_PARTS = 4
"""Of a short time there are so many turns."""


def turns(seconds: float, *, until: float = math.inf) -> Iterator[float]:
    """How long to wait, again and again: so many seconds in all, or until a moment of `time.monotonic()`.

    A wait that took longer than it should counts as long as it should.
    """
    step = min(TURN_SECONDS, seconds / _PARTS)
    waited = 0.0
    began = monotonic()
    while waited < seconds and began < until:
        turn = min(step, seconds - waited, until - began)
        yield turn
        now = monotonic()
        waited += min(now - began, turn)
        began = now


@dataclass
class AwakeClock:
    """Seconds, for who looks at it at least so often: of a longer time between two looks only these count."""

    longest: float
    _at: float = field(default_factory=lambda: monotonic())
    _seconds: float = 0.0

    def now(self) -> float:
        moment = monotonic()
        self._seconds += min(moment - self._at, self.longest)
        self._at = moment
        return self._seconds


# --- Whether a program waits for itself -----------------------------------------------------------------------------

# Each of its threads for another one, with no end to it; or for such a child. IREE's compiler does so now and then: it
# reads a tuning spec under a lock, with threads that may take up other work meanwhile, which wants that lock. Only
# another process could wake such a program; its time-out may be minutes away.

_FUTEX, _FOR_CHILDREN = {
    "x86_64": ("202", ("61", "247")),
    "aarch64": ("98", ("260", "95")),
    "riscv64": ("98", ("260", "95")),
}.get(platform.machine(), ("", ()))
"""The numbers of the calls by which threads wait for each other, and a process for its children."""
_TIMEOUT = 4
"""Which word of a call's line is until when the first one waits."""
LOOKS = 3
"""In so many looks, one after the other, nothing may have moved."""


@dataclass
class Suspicion:
    """Of one process, which is looked at about once a second."""

    pid: int
    _before: tuple[str, ...] = ()
    _alike: int = 0

    @property
    def sure(self) -> bool:
        """Where the system does not tell what threads wait for, it never is."""
        return self._alike >= LOOKS

    def look(self) -> bool:
        """Whether it is sure by now."""
        now = _waiting(self.pid)
        self._alike = self._alike + 1 if now and now == self._before else 0
        self._before = now
        return self.sure


def _waiting(pid: int) -> tuple[str, ...]:
    """What each thread waits for; empty where one of them, or of a child, does something else."""
    try:
        tasks = sorted(Path(f"/proc/{pid}/task").iterdir())
        calls = tuple((task / "syscall").read_text() for task in tasks)
        children = sorted(int(child) for task in tasks for child in (task / "children").read_text().split())
    except OSError:
        return ()
    if not all(_has_no_end(call.split(), parent=bool(children)) for call in calls):
        return ()
    below = [_waiting(child) for child in children]
    return calls + sum(below, ()) if all(below) else ()


def _has_no_end(call: list[str], *, parent: bool) -> bool:
    if len(call) <= _TIMEOUT:  # it runs, or is gone
        return False
    return (parent and call[0] in _FOR_CHILDREN) or (call[0] == _FUTEX and int(call[_TIMEOUT], 16) == 0)
