"""Progress reports and interrupts of a run, and durations as people write them."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Protocol

from autotuner.errors import UsageError
from autotuner.system import process
from autotuner.system.text import printable

LOG = "log.txt"
"""The log file in a run's folder: stages and notes, with the time."""


@dataclass(frozen=True, slots=True)
class Progress:
    """The state of a search."""

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
    """Receives the reports of a run: a terminal, a log, or nothing."""

    def stage(self, text: str) -> None: ...

    def progress(self, now: Progress) -> None: ...

    def note(self, text: str) -> None:
        """A note that the user can act on."""


class Watcher(Reporter, Protocol):
    """A reporter with a log."""

    def log(self, text: str) -> None:
        """A line for the log only."""


class Silent:
    """Drops all reports."""

    def stage(self, text: str) -> None:
        del text

    def progress(self, now: Progress) -> None:
        del now

    def note(self, text: str) -> None:
        del text

    def log(self, text: str) -> None:
        del text


@dataclass
class Log:
    """A reporter that also logs with the time, in memory until there is a file."""

    reporter: Reporter
    file: Path | None = None
    lines: list[str] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)

    def stage(self, text: str) -> None:
        self.log(text)
        self.reporter.stage(text)

    def progress(self, now: Progress) -> None:
        self.reporter.progress(now)

    def note(self, text: str) -> None:
        self.log(f"note: {text}")
        self.reporter.note(text)

    def log(self, text: str) -> None:
        line = f"{time.monotonic() - self.began:8.1f} s  {printable(text)}\n"
        if self.file is None:
            self.lines.append(line)
            return
        with suppress(OSError), self.file.open("a", encoding="utf-8") as stream:  # the run is worth more than its log
            stream.write(line)

    def into(self, folder: Path) -> None:
        """Writes the log to this folder from now on."""
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            self.file = folder / LOG
            with self.file.open("a", encoding="utf-8") as stream:
                stream.writelines(self.lines)


@dataclass(frozen=True)
class Prefixed:
    """The reporter of a part of a longer run, which is named in its stages and notes."""

    reporter: Watcher
    prefix: str

    def stage(self, text: str) -> None:
        self.reporter.stage(f"{self.prefix}{text}")

    def progress(self, now: Progress) -> None:
        self.reporter.progress(now)

    def note(self, text: str) -> None:
        self.reporter.note(f"{self.prefix}{text}")

    def log(self, text: str) -> None:
        self.reporter.log(f"{self.prefix}{text}")


@dataclass
class Stop:
    """A request to finish the current row and report, set by Ctrl-C."""

    requested: bool = False

    def request(self) -> None:
        self.requested = True


_ADDING = threading.Lock()
"""A lock for seconds: devices count them in threads of their own."""


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


# --- How long something may take, as people write it ----------------------------------------------------------------

_DURATION = re.compile(r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s?)?")
LEAST_BUDGET = 5.0
"""The least budget in seconds: in less nothing can be timed."""


def parse_budget(text: str) -> float:
    """Reads --budget; one too short for any timing is refused."""
    seconds = parse_duration(text)
    if seconds < LEAST_BUDGET:
        raise UsageError(
            f"--budget {text} is too short for any verdict.",
            remedy=f"Give {LEAST_BUDGET:.0f}s at the least; a small problem takes about 30s, a model minutes.",
        )
    return seconds


def parse_duration(text: str) -> float:
    """`90`, `90s`, `10m`, `1h30m` in seconds."""
    match = _DURATION.fullmatch(text.strip().lower())
    if not match or not any(match.groups()):
        raise UsageError(f"--budget {text!r} is not a duration.", remedy="Write it as 90s, 10m or 1h30m.")
    hours, minutes, seconds = (float(part or 0) for part in match.groups())
    total = 3600 * hours + 60 * minutes + seconds
    if total <= 0:
        raise UsageError(f"--budget {text!r} leaves no time.", remedy="Write it as 90s, 10m or 1h30m.")
    return total


# --- How a user ends a run ------------------------------------------------------------------------------------------

INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_STOPPING = "stopping: what is under way is finished and reported; Ctrl-C again stops at once"


@contextmanager
def stopping(stop: Stop, say: Callable[[str], None]) -> Iterator[None]:
    """Handles Ctrl-C, SIGTERM, and SIGHUP of a closed terminal; a signal that is ignored (nohup) stays so."""

    def handle(number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGHUP:
            _leave_terminal()
        if stop.requested:
            process.shut_down()
            raise KeyboardInterrupt
        stop.request()
        with suppress(OSError):  # who watched may be gone
            say(_STOPPING)

    wanted = [number for number in INTERRUPTS if signal.getsignal(number) is not signal.SIG_IGN]
    old = {number: signal.signal(number, handle) for number in wanted}
    try:
        yield
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)


def _leave_terminal() -> None:
    """Redirects output from a closed terminal, where every write would fail."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            if os.isatty(stream.fileno()):
                os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
