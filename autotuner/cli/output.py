"""stdout and stderr that never end in a traceback, whatever their encoding, also when the reader is gone."""

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


class _Guarded:
    """A stream whose errors become OutputError. Errors of stderr are dropped: a run goes on when nobody reads it."""

    def __init__(self, stream: TextIO, *, optional: bool) -> None:
        self._stream = stream
        self._optional = optional

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        with self._caught():
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with self._caught():
            self._stream.flush()

    @contextmanager
    def _caught(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if not self._optional:
                raise OutputError(error) from error


@contextmanager
def guarded() -> Iterator[None]:
    """Within, both streams escape what their encoding lacks, and fail only by OutputError."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = _guard(before[0], optional=False), _guard(before[1], optional=True)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def _guard(stream: TextIO | None, *, optional: bool) -> TextIO:
    if stream is None:  # closed by the caller, as by `>&-`
        stream = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  it lives as long as the process
    with suppress(AttributeError):
        cast(Any, stream).reconfigure(errors="backslashreplace")
    return cast(TextIO, _Guarded(stream, optional=optional))


def give_up_stdout() -> None:
    """Nothing more is written: without this Python tries again at its end, and complains."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
