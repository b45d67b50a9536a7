"""stdout and stderr that never end in a traceback: whatever encoding they have, and whoever has stopped to read."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO, cast


class OutputError(Exception):
    """stdout does not take what is written. Not an OSError: those of files mean something else."""

    def __init__(self, cause: OSError) -> None:
        self.cause = cause
        super().__init__(str(cause))


class _Stdout:
    """The stream, whose own errors are told from all others."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except OSError as error:
            raise OutputError(error) from error

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError as error:
            raise OutputError(error) from error


class _Stderr(_Stdout):
    """What goes there is a courtesy: a run goes on when nobody reads it any more."""

    def write(self, text: str) -> int:
        with suppress(OutputError):
            super().write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OutputError):
            super().flush()


@contextmanager
def guarded() -> Iterator[None]:
    """Within, both streams write what their encoding does not have as an escape, and fail only by OutputError."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = _guard(_Stdout, before[0]), _guard(_Stderr, before[1])
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def _guard(kind: type[_Stdout], stream: TextIO | None) -> TextIO:
    if stream is None:  # closed by the caller, as by `>&-`
        stream = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  it lives as long as the process
    with suppress(AttributeError):
        cast(Any, stream).reconfigure(errors="backslashreplace")
    return cast(TextIO, kind(stream))


def give_up_stdout() -> None:
    """Nothing more is written: without this Python tries again at its end, and complains."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
