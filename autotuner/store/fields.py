"""The fields of an export's record: how each is told of a timed candidate, and how it is read from a stranger's file.

One list for `autotune export`, for data frames and for `autotune import`. A field without a check is not read: it
follows from the others, or names a file that is elsewhere.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, get_args

from autotuner.devices.conditions import Conditions, DeviceState, Sample
from autotuner.iree.figures import Isa
from autotuner.store.figures import TOLD, RunFigures, kernel_of
from autotuner.store.rows import Kind, Phase, RunKind, RunRow, Status, TimedRow, TimingRow
from autotuner.system.text import short

_RUN = re.compile(r"\d{8}-\d{6}-[0-9a-f]{6}")
_WORD = re.compile(r"[a-z]+(-[a-z]+){0,3}")
_LONGEST = 1000
"""Characters of a text."""
_MOST_FIELDS = 200
_MOST_TIMINGS = 10_000
_MOST, _MOST_WHOLE = 2**31 - 1, 2**62
"""The largest whole number that every database's columns take, and that every program does."""
_MOST_US = 1e12

Record = Mapping[str, Any]
Check = Callable[[Any, str], Any]


class Refused(ValueError):
    """A field that cannot be what it says."""


# --- one value -------------------------------------------------------------------------------------------------------


def _must(good: bool, value: Any, what: str, be: str) -> Any:
    if not good:
        raise Refused(f"{what} {short(value)} is {be}")
    return value


def _or_none(check: Check) -> Check:
    return lambda value, what: None if value is None else check(value, what)


def _or_empty(check: Check) -> Check:
    return lambda value, what: check(value or "", what)


def _id(value: Any, what: str) -> Any:
    return _must(isinstance(value, str) and bool(_RUN.fullmatch(value)), value, what, "not the name of a run")


def _text(value: Any, what: str) -> Any:
    good = isinstance(value, str) and len(value) <= _LONGEST and value.isprintable()
    return _must(good, value, what, "not a line of text")


def _word(value: Any, what: str) -> Any:
    """Jobs to come have verdicts of their own: any word, but a word."""
    return _must(bool(_WORD.fullmatch(_text(value, what))), value, what, "not a word")


def _one_of(words: Any) -> Check:
    return lambda value, what: _must(isinstance(value, str) and value in get_args(words), value, what, "unknown")


def _number(value: Any, what: str) -> Any:
    good = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(_must(good, value, what, "not a number"))


def _us(value: Any, what: str) -> Any:
    number = _number(value, what)
    _must(0 < number <= _MOST_US, value, what, "no time")
    return number


def _whole(value: Any, what: str, most: int = _MOST_WHOLE) -> Any:
    good = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most
    return _must(good, value, what, "not a whole number")


def _small(value: Any, what: str) -> Any:
    return _whole(value, what, _MOST)


def _when(value: Any, what: str) -> Any:
    try:
        return datetime.fromisoformat(_text(value, what)).astimezone(UTC).isoformat(timespec="microseconds")
    except (ValueError, OverflowError):
        raise Refused(f"{what} {short(value)} is not a date") from None


def _table(value: Any, what: str) -> Record:
    found: Record = _must(isinstance(value, dict) and len(value) <= _MOST_FIELDS, value, what, "not a table")
    return found


def _scalar(value: Any, what: str) -> Any:
    """A word, a number, or neither."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return _must(abs(value) < _MOST_WHOLE, value, what, "not a whole number")
    return _number(value, what) if isinstance(value, float) else _text(value, what)


def _scalars(value: Any, what: str) -> dict[str, Any]:
    """Words and numbers by name."""
    return {_text(name, what): _scalar(one, f"{what}.{name}") for name, one in _table(value or {}, what).items()}


def _environment(value: Any, what: str) -> dict[str, Any]:
    return _scalars({name: one for name, one in _table(value or {}, what).items() if name in TOLD}, what)


def _isa(value: Any, what: str) -> Any:
    return Isa.from_json(_scalars(value, what)).to_json()


def _several(check: Check) -> Check:
    """A list of these, a None being an empty one."""

    def all_of(value: Any, what: str) -> Any:
        good = value is None or (isinstance(value, list) and len(value) <= _MOST_TIMINGS)
        return [check(one, what) for one in _must(good, value, what, "not a list of them") or []]

    return all_of


def _repetitions(value: Any, what: str) -> Any:
    return _several(_us)(_must(bool(value), value, what, "not a list of numbers"), what)


def _conditions(value: Any, what: str) -> Any:
    table = _table(value, what)
    samples = (_table(table.get(when) or {}, when) for when in ("before", "after"))
    before, after = (
        Sample(*(_or_none(_number)(one.get(name), name) for name in ("mhz", "watts", "celsius"))) for one in samples
    )
    state = _one_of(DeviceState)(table["state"], "state")
    cache = _must(table["cache"] in ("warm", "cold"), table["cache"], "cache", "unknown")
    return Conditions(state, cache, before, after).to_json()


# --- the fields --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Field:
    """One field: its name, how it is told, and how it is checked where it is read."""

    name: str
    tell: Callable[[Any], Any]
    check: Check | None = None
    needed: bool = False
    """A record without it is refused."""


@dataclass(frozen=True, slots=True)
class Told:
    """What the fields of a record are told of."""

    row: TimedRow
    figures: RunFigures
    best: bool
    facts: Record
    """Of the run, the same for all its candidates."""

    @property
    def run(self) -> RunRow:
        return self.row.run


def tell(fields: Sequence[Field], thing: Any) -> dict[str, Any]:
    """The record of a thing."""
    return {field.name: field.tell(thing) for field in fields}


def read(fields: Sequence[Field], record: Record) -> dict[str, Any]:
    """What a record says, each field checked; what is not in the list of fields is left out."""
    return {
        field.name: field.check(record[field.name] if field.needed else record.get(field.name), field.name)
        for field in fields
        if field.check is not None
    }


def _finite(value: float | None) -> float | None:
    """JSON knows neither NaN nor infinity."""
    return value if value is not None and math.isfinite(value) else None


def _of_result(run: RunRow, part: str, name: str) -> Any:
    return ((run.result or {}).get(part) or {}).get(name)


FACTS = (
    Field("kind", lambda run: run.kind, lambda value, what: _one_of(RunKind)(value or "single", what)),
    Field("status", lambda run: run.status, lambda value, what: _one_of(Status)(value or "finished", what)),
    Field("seed", lambda run: run.seed, lambda value, what: _small(value or 0, what)),
    Field("ended", lambda run: run.ended and run.ended.isoformat(timespec="seconds"), _or_none(_when)),
    Field("space_size", lambda run: run.space_size, _or_none(_small)),
    Field("flops", lambda run: run.problem.get("flops"), _or_none(_whole)),
    Field("bytes", lambda run: run.problem.get("bytes"), _or_none(_whole)),
    Field("verdict", lambda run: (run.result or {}).get("verdict"), _or_none(_word)),
    Field("baseline_us", lambda run: _of_result(run, "baseline", "us"), _or_none(_us)),
    Field("best_us", lambda run: _of_result(run, "best", "us"), _or_none(_us)),
    Field("speedup_median", lambda run: _of_result(run, "speedup", "median"), _or_none(_us)),
    Field("speedup_low", lambda run: _of_result(run, "speedup", "low"), _or_none(_us)),
    Field("speedup_high", lambda run: _of_result(run, "speedup", "high"), _or_none(_us)),
    Field("speedup_confidence", lambda run: _of_result(run, "speedup", "confidence"), _or_none(_us)),
)
"""What a run is and came to, the same in each of its records: it makes the run again when it is imported."""
TIMING = (
    Field("phase", lambda timing: timing.phase, _one_of(Phase), needed=True),
    Field("block", lambda timing: timing.block, _small, needed=True),
    Field("us", lambda timing: list(timing.repetitions_us), _repetitions, needed=True),
    Field("time", lambda timing: timing.time.isoformat(timespec="microseconds"), _when, needed=True),
    Field("conditions", lambda timing: timing.conditions and timing.conditions.to_json(), _or_none(_conditions)),
)
"""One measurement."""


def _timing(timing: TimingRow) -> Record:
    return {name: value for name, value in tell(TIMING, timing).items() if value is not None}


FIELDS = (
    Field("run", lambda t: t.run.id, _id, needed=True),
    Field("parent", lambda t: t.run.parent, _or_none(_id)),
    Field("started", lambda t: t.run.started.isoformat(timespec="seconds"), _when, needed=True),
    Field("problem", lambda t: t.run.problem.get("name", ""), _text, needed=True),
    Field("op", lambda t: t.run.problem.get("op", ""), _text, needed=True),
    Field("target", lambda t: t.run.target, _text, needed=True),
    Field("device", lambda t: t.run.device, _text, needed=True),
    Field("ordinal", lambda t: t.row.candidate.ordinal, _small, needed=True),
    Field("kind", lambda t: t.row.candidate.kind, _one_of(Kind), needed=True),
    Field("route", lambda t: t.row.candidate.route, _or_empty(_text)),
    Field("config", lambda t: t.row.candidate.config.as_dict(), _scalars),
    Field("us", lambda t: _finite(t.row.us), _us, needed=True),
    Field("speedup", lambda t: _finite(t.row.speedup)),
    Field("error", lambda t: _finite(t.row.candidate.error), _or_none(_number)),
    Field("failure", lambda t: t.row.candidate.failure, _or_empty(_text)),
    Field("spec", lambda t: t.row.candidate.spec),
    Field("isa", lambda t: t.row.isa.to_json(), _isa),
    Field("cold_us", lambda t: _finite(t.row.cold_us)),
    Field("device_state", lambda t: t.row.sample.to_json()),
    Field("kernel", lambda t: kernel_of(t.run, t.row.candidate)),
    Field("best", lambda t: t.best, lambda value, _: value is True),
    Field("figures", lambda t: {one.place: one.timed() for one in t.figures.of(t.row.candidate)}),
    Field("environment", lambda t: t.figures.told, _environment),
    Field("run_facts", lambda t: t.facts, lambda value, what: read(FACTS, _table(value or {}, what))),
    Field(
        "timings",
        lambda t: [_timing(one) for one in t.row.timings],
        _several(lambda value, what: read(TIMING, _table(value, what))),
    ),
)
"""A timed candidate, as `autotune export` has it."""
