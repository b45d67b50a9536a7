"""Ends what a killed autotune leaves behind: a program of its own that waits for the end of a pipe.

`kill -9` gives no chance to tidy up, and PR_SET_PDEATHSIG is tied to the thread that started a child, which may end
before it does. This program is told of every process group that is begun (`+PID`) and ended (`-PID`), and when the pipe
closes, whatever closed it, it kills those that are left. It imports next to nothing: it starts in a few milliseconds.
"""

import contextlib
import os
import signal
import sys
from collections.abc import Iterable


def watch(lines: Iterable[str]) -> set[int]:
    """The groups that have begun and not ended when the lines end."""
    groups: set[int] = set()
    for line in lines:
        change = groups.add if line.startswith("+") else groups.discard
        change(int(line[1:]))
    return groups


def main() -> None:
    for group in watch(sys.stdin):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    main()
