"""Of threads that want the same thing, one makes it; the others wait for that one."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock, RLock


@dataclass
class _Place:
    """What one thing is guarded by, as long as somebody has it or waits for it."""

    lock: RLock = field(default_factory=RLock)
    users: int = 0


_places: dict[Hashable, _Place] = {}
_guard = Lock()


def _forget_in_child() -> None:
    """A forked child has none of the threads that would let go."""
    global _guard
    _guard = Lock()
    _places.clear()


os.register_at_fork(after_in_child=_forget_in_child)


@contextmanager
def one_at_a_time(key: Hashable) -> Iterator[None]:
    """Alone, in this process, with what the key stands for; a thread that has it may take it again."""
    with _guard:
        place = _places.setdefault(key, _Place())
        place.users += 1
    try:
        with place.lock:
            yield
    finally:
        with _guard:
            place.users -= 1
            if not place.users:
                _places.pop(key, None)
