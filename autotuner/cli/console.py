"""Output: a live line on a terminal while a run goes, plain lines elsewhere, tables and documents at the end.

Progress and notes never go to stdout.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from types import TracebackType

from rich.console import Console, ConsoleOptions, RenderableType
from rich.live import Live
from rich.segment import Segment
from rich.text import Text

from autotuner.system.listing import Listing
from autotuner.system.progress import Progress, Reporter, Silent, Stop, stopping
from autotuner.system.text import clean, counted, microseconds, printable

_NO_EDGE = 10_000
"""Columns of a table that goes into a pipe or a file: nothing is cut there."""
_BAR = 12
"""Characters of the bar."""


def _figures(now: Progress) -> list[str]:
    """How far a run is."""
    best = []
    if now.best_us is not None:
        gain = f" ({now.baseline_us / now.best_us:.2f}x)" if now.baseline_us else ""
        best = [f"best {microseconds(now.best_us)}{gain}"]
    counts = [f"timed {now.timed}", f"failed {now.failed}", f"built {now.built}", f"{now.rate:.1f}/s"]
    return [*best, *counts]


def live_line(stage: str, now: Progress | None, *, elapsed: float, left: float | None = None) -> str:
    """Clock, time left, stage, bar and figures in one line, what matters most first: a terminal cuts its end."""
    clock = f"{int(elapsed) // 3600}:{int(elapsed) // 60 % 60:02}:{int(elapsed) % 60:02}"
    parts = [clock if left is None else f"{clock}, {max(left, 0):.0f} s left", stage]
    if now is not None:
        filled = min(_BAR, _BAR * now.asked // max(now.trials, 1))
        parts += ["━" * filled + "─" * (_BAR - filled), *_figures(now)]
    return "  ".join(parts)


class QuietReporter(Silent):
    """Prints nothing."""

    def __enter__(self) -> Reporter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None


class PlainReporter(QuietReporter):
    """One line a phase, the part of a stage before its last colon; a note is said once, whatever its numbers."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._notes: list[str] = []
        self._phase = ""

    def stage(self, text: str) -> None:
        phase = text.rpartition(": ")[0] or text
        if phase != self._phase:
            say(self._console, phase)
        self._phase = phase

    def note(self, text: str) -> None:
        if len(counted([*self._notes, text])) > len(self._notes):
            self._notes.append(text)
            say(self._console, f"note: {text}")


class LiveReporter(PlainReporter):
    """A line that moves, as wide as the terminal."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._stage = "starting"
        self._now: Progress | None = None
        self._began, self._ends = time.monotonic(), math.inf
        self._live = Live(console=console, transient=True, get_renderable=self._line, refresh_per_second=8)

    def _line(self) -> Text:
        elapsed, left = time.monotonic() - self._began, self._ends - time.monotonic()
        text = live_line(printable(self._stage), self._now, elapsed=elapsed, left=left if math.isfinite(left) else None)
        return Text(text, no_wrap=True, overflow="ellipsis")

    def stage(self, text: str) -> None:
        self._stage, self._now = text, None

    def progress(self, now: Progress) -> None:
        self._now, self._ends = now, time.monotonic() + now.seconds_left

    def __enter__(self) -> Reporter:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()


def make_reporter(console: Console, *, quiet: bool) -> QuietReporter:
    if quiet:
        return QuietReporter()
    return LiveReporter(console) if console.is_terminal else PlainReporter(console)


@contextmanager
def watching(*, quiet: bool) -> Iterator[tuple[Reporter, Stop]]:
    """A command's progress on stderr; Ctrl-C asks it to end."""
    stderr, stop = make_console(stderr=True), Stop()
    with make_reporter(stderr, quiet=quiet) as reporter, stopping(stop, partial(say, stderr)):
        yield reporter, stop


class _Clean(Console):
    """A console that shows text as text: text from files, tools and databases can neither steer the terminal nor
    be taken for markup."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(clean(segment.text), segment.style)


def make_console(*, stderr: bool = False) -> Console:
    """A console without colours where NO_COLOR is set, and without an edge where nobody looks at it."""
    console = _Clean(stderr=stderr, markup=False, emoji=False, highlight=False)
    if not console.is_terminal:
        console.width = _NO_EDGE
    return console


def say(console: Console, text: str, *, style: str = "") -> None:
    """A line; the terminal wraps it."""
    console.print(text, style=style, soft_wrap=True)


def note(text: str) -> None:
    """A note on stderr."""
    say(make_console(stderr=True), f"note: {text}")


def show(listing: Listing) -> None:
    """A table, never cut."""
    make_console().print(listing, soft_wrap=True)


def emit(text: str, *, end: str = "\n") -> None:
    """Text on stdout, without control characters."""
    print(clean(text), end=end)


def emit_json(document: object) -> None:
    """A JSON document. (It has no control characters: JSON escapes them.)"""
    print(json.dumps(document, indent=2))
