"""What a retuning did with each entry, as a section."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autotuner.report.cells import interval, text, us
from autotuner.report.page import Column, Table
from autotuner.report.reading import Run, number
from autotuner.report.sections import Section


def _entry(one: Mapping[str, Any]) -> str:
    """By its name or its file's, with the problem where that does not tell it."""
    name, problem = text(one.get("entry")) or text(one.get("spec")).rpartition("/")[2], text(one.get("problem"))
    return name if problem in name else f"{name}: {problem}"


def _before(one: Mapping[str, Any]) -> Any:
    """What was raced took so long before; earlier documents have the entry's own time alone."""
    return one["before_us"] if "before_us" in one else (one.get("old") or {}).get("us")


def retuned(run: Run) -> list[Section]:
    """What became of each entry, and why."""
    columns = [
        *(Column("entry"), Column("state", "badge")),
        *(Column(title, "number") for title in ("before µs", "now µs", "default now µs", "speedup")),
        *(Column("why", "long"), Column("race", link="#run-")),
    ]
    entries = [one for one in run.document.get("entries") or [] if isinstance(one, Mapping)]
    rows = [
        (
            _entry(one),
            text(one.get("state")),
            us(number(_before(one))),
            us(number(one.get("us"))),
            us(number(one.get("baseline_us"))),
            interval(one.get("speedup")),
            text(one.get("reason")),
            text(one.get("run")),
        )
        for one in entries
    ]
    first = number(run.document.get("first_seconds"))
    words = (f"The first tuning of all this took {first:.0f} s.",) if first else ()
    return [Section("entries", "Entries", words, tables=(Table("What became of each entry", columns, rows),))]
