"""What a run tells while it goes, and how it is told to stop."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Progress:
    """Where the search stands."""

    trials: int
    asked: int
    built: int
    failed: int
    timed: int
    baseline_us: float | None
    best_us: float | None
    seconds: float
    seconds_left: float

    @property
    def rate(self) -> float:
        """Candidates a second."""
        return self.asked / self.seconds if self.seconds > 0 else 0.0


class Reporter(Protocol):
    """Somebody who watches; the loop does not care whether it is a terminal, a log or nobody."""

    def stage(self, text: str) -> None: ...

    def progress(self, now: Progress) -> None: ...

    def note(self, text: str) -> None: ...


class Silent:
    """Nobody watches."""

    def stage(self, text: str) -> None:
        del text

    def progress(self, now: Progress) -> None:
        del now

    def note(self, text: str) -> None:
        del text


@dataclass(frozen=True)
class Prefixed:
    """A part of a longer run: its stages and notes say which part."""

    reporter: Reporter
    prefix: str

    def stage(self, text: str) -> None:
        self.reporter.stage(f"{self.prefix}{text}")

    def progress(self, now: Progress) -> None:
        self.reporter.progress(now)

    def note(self, text: str) -> None:
        self.reporter.note(f"{self.prefix}{text}")


@dataclass
class Stop:
    """A request to finish the row and report: Ctrl-C sets it, the loop looks at it."""

    requested: bool = False

    def request(self) -> None:
        self.requested = True


LATE_SECONDS, LATE_SHARE = 3.0, 0.02
"""How far beyond its budget a run may still measure."""
PROOF_SECONDS, PROOF_SHARE = 8.0, 0.04
"""How far beyond it what ships may still be compiled once more."""


@dataclass
class Clock:
    """The time that a run may take. A run that nobody gave a budget may set itself a shorter one."""

    budget: float
    started: float = field(default_factory=time.monotonic)
    part: bool = False
    """Of something longer: a user gave the budget of all of it, not this one."""

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self.started

    @property
    def left(self) -> float:
        return self.budget - self.elapsed

    def at(self, elapsed: float) -> float:
        """The moment of `time.monotonic()` so many seconds after the start."""
        return self.started + elapsed

    @property
    def proven(self) -> float:
        """The moment at which the compile of what ships is cut off, the last thing that a run does."""
        return self.at(self.budget + max(PROOF_SECONDS, PROOF_SHARE * self.budget))

    @property
    def latest(self) -> float:
        """The moment at which what still runs is cut off: a timing that is nearly done may end."""
        return self.at(self.budget + max(LATE_SECONDS, LATE_SHARE * self.budget))


_ADDING = threading.Lock()
"""Devices count their seconds at once, each in its own thread."""


@contextmanager
def clocked(seconds: dict[str, float], step: str) -> Iterator[None]:
    """Adds the wall time of a block to a step's seconds."""
    started = time.monotonic()
    try:
        yield
    finally:
        spent = time.monotonic() - started
        with _ADDING:
            seconds[step] += spent
