"""Files of others, one problem a line: what can be tuned, and which lines cannot, with the reason."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache
from typing import BinaryIO

from autotuner.errors import UsageError
from autotuner.jobs.suite.workload import Entry, Skipped
from autotuner.problems import Problem
from autotuner.system.text import short

_MAX_LINE = 4096
"""A mapping of the library's takes some 600 bytes."""
_MOST_PROBLEMS, _MOST_REASONS = 100_000, 1000
"""Of one file, so that one of gigabytes does not fill the memory."""
_KEPT = 1 << 14
"""Lines that are known when they come again, as in a log they mostly do: some 20 MB."""

Read = tuple[tuple[Entry, ...], tuple[Skipped, ...]]
"""The problems with their calls, and the lines that are left out."""


def read_lines(file: BinaryIO, read: Callable[[str], Entry | None], *, skip: str = "#", once: bool = False) -> Read:
    """Lines with the same reason are reported once, by the first. Where calls are not counted a problem is `once`."""
    calls: dict[Problem, list[int]] = {}
    skipped: dict[str, Skipped] = {}

    @lru_cache(_KEPT)
    def told(text: str) -> tuple[list[int], int] | str | None:
        """Where a line's calls are counted, and how many they are; a text: why it is left out."""
        try:
            if len(text) > _MAX_LINE:
                raise UsageError(f"longer than {_MAX_LINE} characters")
            entry = read(text)
        except (UsageError, csv.Error) as why:
            return str(why)
        return None if entry is None else (calls.setdefault(entry.problem, [0]), entry.calls)

    for number, text in _lines(file):
        if text.startswith(skip):
            continue
        found = told(text)
        if isinstance(found, str):
            reason = found if len(skipped) < _MOST_REASONS or found in skipped else "other reasons"
            before = skipped.get(reason, Skipped(short(text), reason, number, 0))
            skipped[reason] = replace(before, lines=before.lines + 1)
        elif found is not None:
            counted, more = found
            counted[0] = more + (0 if once else counted[0])
            if len(calls) > _MOST_PROBLEMS:
                raise UsageError(f"it has more than {_MOST_PROBLEMS} different problems.", remedy="Divide it.")
    return tuple(Entry(problem, count) for problem, (count,) in calls.items()), tuple(skipped.values())


def _lines(file: BinaryIO) -> Iterator[tuple[int, str]]:
    """With their numbers, without comments; of a line without an end a part."""
    number, begins = 1, True
    while part := file.readline(1 << 20):
        text = part.decode("utf-8", errors="replace").strip() if begins else ""
        if text and not text.startswith("#") and text not in ("---", "..."):
            yield number, text
        begins = part.endswith(b"\n")
        number += begins
