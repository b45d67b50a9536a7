"""Ends and removes what a killed autotune leaves behind: a separate program that waits for the end of a pipe.

`kill -9` gives no chance to tidy up, and PR_SET_PDEATHSIG is tied to the thread that started a child, which may end
before it does. When the pipe closes, whatever closed it, all processes that have autotune's mark in their environment
are killed: what it has started, and what that has. What starts while it looks is found by looking again. Then the
temporary files and folders that it was told of by the pipe are removed. It imports next to nothing: it starts in a few
milliseconds.
"""

import contextlib
import os
import signal
import sys
import time

_MARK = "AUTOTUNE_STARTED_BY"
_QUIET, _PAUSE = 3, 0.05
"""Empty scans in a row before it ends, and seconds between them: starting programs show their mark by then."""


def environment(mark: str) -> dict[str, str]:
    """The environment of a program that is to end with its starter."""
    return {**os.environ, _MARK: mark}


def main() -> None:
    paths = sys.stdin.buffer.read().split(b"\0")
    mark, quiet = f"{_MARK}={sys.argv[1]}".encode(), 0
    while quiet < _QUIET:
        quiet = 0 if _killed(mark) else quiet + 1
        time.sleep(_PAUSE)
    import shutil

    for path in filter(None, paths):
        with contextlib.suppress(OSError):
            os.unlink(path)
        shutil.rmtree(os.fsdecode(path), ignore_errors=True)


def _killed(mark: bytes) -> bool:
    """Kills marked programs; returns whether there was one."""
    found = False
    for name in filter(str.isdecimal, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{name}/environ", "rb") as file:
            if mark in file.read().split(b"\0"):
                os.kill(int(name), signal.SIGKILL)
                found = True
    return found


if __name__ == "__main__":
    main()
