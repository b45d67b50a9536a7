"""How a compile by iree-compile ended, and what that says about the program."""

from __future__ import annotations

import errno
import os
import shlex
from collections.abc import Iterable
from typing import Literal

from autotuner.errors import EnvironmentFailure
from autotuner.system import process

FailureClass = Literal["compile-error", "compile-timeout", "not-applied", "wrong-result", "run-error", "run-timeout"]
FAILURE_CLASSES: tuple[FailureClass, ...] = (
    "compile-error",
    "compile-timeout",
    "not-applied",
    "wrong-result",
    "run-error",
    "run-timeout",
)
_MACHINE = (errno.ENOMEM, errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.EIO, errno.EINTR)
_NOT_THE_PROGRAM = (
    *(os.strerror(number).lower() for number in _MACHINE),
    *("bad_alloc", "out of memory", "killed", "signal"),
    # The linker is a program of its own: its end, too, may be the machine's doing.
    "returned exit code",
)
"""Words of an error that is about the machine."""


class CompilerRefusal(EnvironmentFailure):
    """iree-compile would not take the problem or the flags at all."""

    def __init__(self, stderr: str) -> None:
        self.stderr = stderr
        super().__init__(f"iree-compile refused: {first_error(stderr)}", remedy="Check --flag and --target.")


def compile_failure(done: process.Finished) -> FailureClass | None:
    """What is wrong with a compile that has ended."""
    if done.timed_out:
        return "compile-timeout"
    # Some mistakes (a misspelt pass pipeline) print an error and still give a module and exit code 0.
    return "compile-error" if _says_error(done.stderr) or not done.ok else None


def lasting(done: process.Finished) -> bool:
    """Would this compile end the same way again? Only then is a failure remembered.

    That is so where the compiler ended by itself: without an error, or with one that it printed about the program. A
    time-out and a signal say as much about the machine as about the candidate (SIGKILL ends whoever is nearest when
    memory runs out; a crash may be for want of it too); a shell gives a signal as an exit code above 128. To compile
    once more what fails again costs a second; to take a machine's bad moment for an error costs the candidate for good.
    """
    by_itself = not done.timed_out and 0 <= done.code < 128
    about_the_program = done.ok or _says_error(done.stderr)
    words = done.stderr.lower()
    return by_itself and about_the_program and not any(reason in words for reason in _NOT_THE_PROGRAM)


def _says_error(stderr: str) -> bool:
    return any(": error:" in line or line.startswith("error:") for line in stderr.splitlines())


def first_error(stderr: str) -> str:
    """The line that says what is wrong, for a message of one line."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    return next((line for line in lines if "rror" in line or "nknown" in line), lines[0] if lines else "no message")[
        :300
    ]


def shell_line(command: Iterable[str]) -> str:
    return shlex.join(command)
