"""One run as a page tells it: its rows, joined once."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import median

import numpy as np

from autotuner.iree.figures import NO_FIGURES, Isa
from autotuner.measure.blocks import Interval
from autotuner.space.table import ABSENT, Value
from autotuner.store.reader import Reader
from autotuner.store.rows import LEFT_OUT, CandidateRow, Json, RunRow

TUNED = ("codegen", "microkernel")
"""The kinds of candidates that have a configuration."""
LEAST = 8
"""Timed configurations below which no share of the spread is told."""
WHOLE_PARTS = 100
"""Of a run: those that are read with all that is known of them."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A candidate with what is known of its build and its timings."""

    row: CandidateRow
    knobs: Mapping[str, Value]
    """Those that it has; of other parts of the space it has none."""
    applied: int = 0
    binary: str = ""
    isa: Isa = NO_FIGURES
    seconds: float | None = None
    """From the run's beginning to its first timing."""
    us: float | None = field(init=False)
    """Its time; None where it failed, whatever was timed before."""

    def __post_init__(self) -> None:
        time, failed = self.row.us, self.row.state == "failed"  # asked for millions of times
        object.__setattr__(self, "us", time if time and not failed and math.isfinite(time) else None)

    @property
    def name(self) -> str:
        if self.row.kind in ("baseline", "default"):
            return "default"
        named = self.row.kind in ("stock", "library") or self.row.route == "tuned"
        return self.row.route if named else f"c{self.row.ordinal:04d}"

    @property
    def failed(self) -> bool:
        return (self.row.state == "failed" or bool(self.row.failure)) and self.row.failure not in LEFT_OUT

    @property
    def tuned(self) -> bool:
        return self.row.kind in TUNED

    @property
    def part(self) -> tuple[str, Value]:
        """Of the space: its route, and its microkernel where it has one."""
        return self.row.route, self.knobs.get("kernel", "")


@dataclass(frozen=True, slots=True)
class Finalist:
    """One that was timed side by side with the default: how much faster it is, by the blocks that have both."""

    name: str
    phase: str
    median: float
    interval: Interval | None
    """None where there are too few blocks."""
    blocks: int


@dataclass(frozen=True)
class Run:
    """A run, what it came to so far, and the runs that are its parts."""

    row: RunRow
    environment: Json
    document: Json
    """The JSON document that its user was given; empty where it has not come to an end."""
    candidates: tuple[Candidate, ...]
    finalists: tuple[Finalist, ...]
    parts: tuple[Run, ...] = ()
    brief: bool = False
    """One of many parts: read without builds, races and environment."""

    @property
    def name(self) -> str:
        return str(self.row.problem.get("name") or self.row.id)

    @property
    def imported(self) -> bool:
        """It came from a file."""
        return tuple(self.row.command[1:2]) == ("import",) or self.timed_elsewhere

    @property
    def timed_elsewhere(self) -> bool:
        """It came from a bundle: its timings have the moments of the import."""
        return tuple(self.row.command[1:3]) == ("bundle", "import")

    @property
    def verdict(self) -> str:
        return str(self.document.get("verdict") or self.row.status)

    @cached_property
    def timed(self) -> tuple[Candidate, ...]:
        """In the order in which they were asked for; the defaults of a suite's problems compete with nothing."""
        return tuple(c for c in self.candidates if c.us is not None and c.row.kind != "default")

    @cached_property
    def baseline(self) -> Candidate | None:
        return next((candidate for candidate in self.candidates if candidate.row.kind == "baseline"), None)

    @cached_property
    def _first(self) -> Mapping[tuple[str, Value], Candidate]:
        found: dict[tuple[str, Value], Candidate] = {}
        for candidate in self.candidates:
            if candidate.tuned and candidate.knobs:
                found.setdefault(candidate.part, candidate)
        return found

    def default_of(self, candidate: Candidate) -> Candidate:
        """The first of its part of the space: IREE's own configuration or the nearest to it, where a search begins."""
        return self._first.get(candidate.part, candidate)

    @property
    def best(self) -> Candidate | None:
        """The one that the result is of; before there is one, the fastest."""
        named = (self.document.get("best") or {}).get("candidate")
        by_name = {candidate.name: candidate for candidate in self.candidates}
        known = by_name.get("default" if named == "baseline" else str(named)) if named else None
        return known or min(self.timed, key=lambda candidate: candidate.us or math.inf, default=None)

    def speedup(self, candidate: Candidate) -> float | None:
        default = self.baseline.us if self.baseline else None
        return default / candidate.us if default and candidate.us else None


def read(store: Reader, run: str) -> Run:
    """A run with its parts."""
    return _read(store, store.run(run), above=())


def _read_parts(store: Reader, row: RunRow, path: Sequence[str]) -> Iterator[Run]:
    """The first ones whole; a page has no room for the details of more."""
    parts = [part for part in store.parts(row.id) if part.id not in path]
    for place, part in enumerate(parts):
        if place < WHOLE_PARTS:
            yield _read(store, part, above=path)
        else:
            candidates = tuple(Candidate(one, {}) for one in store.candidates(part.id))
            yield Run(part, {}, part.result or {}, candidates, (), brief=True)


def _read(store: Reader, row: RunRow, *, above: Sequence[str]) -> Run:
    builds = {build.candidate: build for build in store.builds(row.id)}
    times = store.first_timed(row.id)

    def candidate(one: CandidateRow) -> Candidate:
        build, at = builds.get(one.id), times.get(one.id)
        knobs = {name: value for name, value in one.config.as_dict().items() if value != ABSENT}
        seconds = (at - row.started).total_seconds() if at else None
        if build is None:
            return Candidate(one, knobs, seconds=seconds)
        return Candidate(one, knobs, build.applied, build.binary, build.isa, seconds)

    path = (*above, row.id)  # a stranger's database may have runs that are parts of themselves
    rows = store.candidates(row.id)
    last = store.verdict(row.id)
    return Run(
        row=row,
        environment=store.environment(row.id),
        document=row.result or (last[1] if last else {}),
        candidates=(candidates := tuple(candidate(one) for one in rows)),
        finalists=_finalists(store, row.id, candidates),
        parts=tuple(_read_parts(store, row, path)),
    )


def _finalists(store: Reader, run: str, candidates: Sequence[Candidate]) -> tuple[Finalist, ...]:
    """Of the race and of the confirmation, each on its own: one chose the winner, the other did not."""
    baseline = next((c.row.id for c in candidates if c.row.kind == "baseline"), None)
    found = []
    for phase in ("race", "confirm"):
        blocks = store.blocks(run, phase)
        against = blocks.get(baseline, {}) if baseline is not None else {}
        for candidate in candidates:
            if candidate.row.id == baseline or not (own := blocks.get(candidate.row.id)):
                continue
            logs = [math.log(against[b] / us) for b, us in own.items() if us > 0 and against.get(b, 0.0) > 0]
            if logs:
                found.append(_finalist(candidate.name, phase, logs))
    return tuple(found)


def _finalist(name: str, phase: str, logs: Sequence[float]) -> Finalist:
    return Finalist(name, phase, math.exp(median(logs)), Interval.of(logs), len(logs))


# --- knobs ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Knob:
    """A knob that took several values among the timed candidates."""

    name: str
    share: float | None
    """Of the spread of log time: what its values explain beyond what as many groups would by chance. None where there
    are too few candidates to tell."""
    values: tuple[Value, ...]
    """In order."""


def varied(run: Run) -> tuple[Knob, ...]:
    """The knobs that were varied, the one that explains most first."""
    timed = [candidate for candidate in run.timed if candidate.tuned]
    names = dict.fromkeys(name for candidate in timed for name in candidate.knobs)
    found = []
    for name in names:
        own = [candidate for candidate in timed if name in candidate.knobs]
        values = ordered([candidate.knobs[name] for candidate in own])
        if len(values) > 1:
            found.append(Knob(name, _share(name, own, len(values)), values))
    return tuple(sorted(found, key=lambda knob: -(knob.share or 0.0)))


def ordered(values: Sequence[Value]) -> tuple[Value, ...]:
    """Each once; numbers by size, before words."""
    return tuple(sorted(set(values), key=lambda v: (isinstance(v, str), "" if isinstance(v, str) else v, str(v))))


def _share(name: str, candidates: Sequence[Candidate], groups: int) -> float | None:
    """Epsilon squared: the correlation ratio, less what chance gives to so many groups."""
    count = len(candidates)
    if count < LEAST or count <= groups:
        return None
    by_value: dict[Value, list[float]] = {}
    for candidate in candidates:
        by_value.setdefault(candidate.knobs[name], []).append(math.log(candidate.us or 1.0))
    arrays = [np.array(times) for times in by_value.values()]
    total = float(count * np.var(np.concatenate(arrays)))
    within = float(sum(len(times) * np.var(times) for times in arrays))
    if total <= 0.0:
        return 0.0
    noise = within / (count - groups)
    return min(1.0, max(0.0, (total - within - (groups - 1) * noise) / total))


def difference(candidate: Candidate, run: Run) -> str:
    """What its spec sets otherwise than IREE's default does on its route: `vector_m 8→6, peel 0→1`."""
    if not candidate.tuned or not candidate.knobs:
        return ""
    default = run.default_of(candidate)
    if default is candidate:
        return "as the default" if _proven(candidate, run) else "nearest to the default"
    both = dict.fromkeys([*default.knobs, *candidate.knobs])
    sides = ((name, default.knobs.get(name, "–"), candidate.knobs.get(name, "–")) for name in both)
    return ", ".join(f"{name} {old}→{new}" for name, old, new in sides if old != new)


def _proven(candidate: Candidate, run: Run) -> bool:
    """It gives the very binary of a route without a configuration."""
    plain = {c.binary for c in run.candidates if c.row.kind in ("baseline", "stock") and c.binary}
    return candidate.binary in plain
