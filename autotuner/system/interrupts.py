"""How a user ends a run: the first signal asks it to finish its row and report, the second ends it at once."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from autotuner.system import process
from autotuner.system.progress import Stop

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
