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
"""In a run's folder: each stage and each note, with the time."""


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
    """Receives the reports of a run: a terminal, a log, or nothing."""

    def stage(self, text: str) -> None: ...

    def progress(self, now: Progress) -> None: ...

    def note(self, text: str) -> None:
        """What the user can act on."""


class Watcher(Reporter, Protocol):
    """A reporter with a log."""

    def log(self, text: str) -> None:
        """What only the log has."""


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
    """Passes on what a reporter is told, and writes all of it down with the time: in memory until there is a file."""

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
        """From now on in this folder."""
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            self.file = folder / LOG
            with self.file.open("a", encoding="utf-8") as stream:
                stream.writelines(self.lines)


@dataclass(frozen=True)
class Prefixed:
    """A part of a longer run: its stages and notes say which part."""

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
    """A request to finish the row and report: Ctrl-C sets it, the loop looks at it."""

    requested: bool = False

    def request(self) -> None:
        self.requested = True


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


# --- How long something may take, as people write it ----------------------------------------------------------------

_DURATION = re.compile(r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s?)?")
LEAST_BUDGET = 5.0
"""Seconds: in less nothing can be timed, let alone compared."""


def parse_budget(text: str) -> float:
    """The seconds of a run that times; what no verdict can come of is refused at once."""
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
    """Ctrl-C, SIGTERM, and SIGHUP when the terminal is closed; one that the caller has us ignore (nohup) stays so."""

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
    """A terminal that has been closed answers every write with an error."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            if os.isatty(stream.fileno()):
                os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
