"""Whether a program waits for itself: each of its threads for another one, with no end to it; or for such a child.

IREE's compiler does so now and then: it reads a tuning spec under a lock, with threads that may take up other work
meanwhile, which wants that lock. Only another process could wake such a program; its time-out may be minutes away.
"""

from __future__ import annotations

import platform
from dataclasses import dataclass
from pathlib import Path

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
