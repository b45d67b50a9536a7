"""Whether a program waits for itself: each of its threads for another one, with no end to it, and it has no child.

IREE's compiler does so now and then: it reads a tuning spec under a lock, with threads that may take up other work
meanwhile, which wants that lock. Only another process could wake such a program; its time-out may be minutes away.
"""

from __future__ import annotations

import platform
from dataclasses import dataclass
from pathlib import Path

_FUTEX = {"x86_64": 202, "aarch64": 98, "riscv64": 98}.get(platform.machine())
"""The number of the one call by which threads wait for each other."""
_TIMEOUT = 4
"""Which word of a call's line is until when it waits."""
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
    """What each thread waits for; empty where one of them does something else, or a child may do it for them."""
    if _FUTEX is None:
        return ()
    try:
        tasks = sorted(Path(f"/proc/{pid}/task").iterdir())
        if any((task / "children").read_text().strip() for task in tasks):
            return ()
        calls = tuple((task / "syscall").read_text() for task in tasks)
    except OSError:
        return ()
    return calls if all(map(_has_no_end, calls)) else ()


def _has_no_end(call: str) -> bool:
    words = call.split()
    return len(words) > _TIMEOUT and words[0] == str(_FUTEX) and int(words[_TIMEOUT], 16) == 0
