"""Files that a user's flags name: compiles run in folders of their own, where a relative path leads nowhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from autotuner.errors import UsageError
from autotuner.targets.backends import LIBRARY, TUNING_SPEC

_READ = (
    TUNING_SPEC,
    LIBRARY,
    "--iree-preprocessing-transform-spec-filename",
    "--iree-preprocessing-pdl-spec-filename",
)
"""Flags whose file the compiler reads, some of them late in a compile."""


def with_absolute_files(flag: str) -> str:
    """The flag, with a file of the current folder by its whole path; a word without `/` or `.` stays a word."""
    for before, value in _values(flag):
        if _is_path(value) and _exists(value):
            return f"{before}={Path(value).absolute()}"
    return flag


def words_that_are_files(flags: Sequence[str]) -> list[str]:
    """Values that are taken for words, though files of that name lie in the current folder."""
    return [v for flag in flags for _, v in _values(flag) if v and not _is_path(v) and _exists(v)]


def refuse_missing(flags: Sequence[str]) -> None:
    """A spec that is not there is told at once: the compiler looks for it when it is at the dispatches."""
    for flag in flags:
        name, _, value = flag.partition("=")
        file = value.partition("@")[0] if name == LIBRARY else value
        if name in _READ and file and not _exists(file):
            raise UsageError(f"--flag {name}: there is no file {file}.", remedy="Is the path right?")


def _values(flag: str) -> Iterator[tuple[str, str]]:
    """(what stands before it, value): all after the first `=`, and after a second, as in `NAME=FILE`."""
    name, _, value = flag.partition("=")
    yield name, value
    key, more, inner = value.partition("=")
    if more:
        yield f"{name}={key}", inner


def _is_path(value: str) -> bool:
    return ("/" in value or "." in value) and not Path(value).is_absolute()


def _exists(value: str) -> bool:
    try:
        return Path(value).exists()
    except (OSError, ValueError):
        return False
