"""One run as a page tells it: its rows, joined once."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median, pvariance

from autotuner.iree.figures import NO_FIGURES, Isa
from autotuner.measure.blocks import Interval
from autotuner.space.table import ABSENT, Value
from autotuner.store.reader import Reader
from autotuner.store.rows import LEFT_OUT, CandidateRow, Json, RunRow

TUNED = ("codegen", "microkernel")
"""The kinds of candidates that have a configuration."""
LEAST = 8
"""Timed configurations below which no share of the spread is told."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A candidate with what is known of its build and its timings."""

    row: CandidateRow
    knobs: Mapping[str, Value]
    """Those that it has; of other parts of the space it has none."""
    applied: int = 0
    isa: Isa = NO_FIGURES

    @property
    def us(self) -> float | None:
        """Its time; None where it failed, whatever was timed before."""
        time, failed = self.row.us, self.row.state == "failed"
        return time if time and not failed and math.isfinite(time) else None

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
    """A run, and what it came to so far."""

    row: RunRow
    environment: Json
    document: Json
    """The JSON document that its user was given; empty where it has not come to an end."""
    candidates: tuple[Candidate, ...]
    finalists: tuple[Finalist, ...]
    parts: tuple[RunRow, ...] = ()
    counts: tuple[int, int, int] = (0, 0, 0)
    """Asked, timed and failed, with those of its parts."""

    @property
    def name(self) -> str:
        return str(self.row.problem.get("name") or self.row.id)

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

    def difference(self, candidate: Candidate) -> str:
        """What it sets otherwise than the first of its part of the space, where a search begins: IREE's own
        configuration or the nearest to it. Such as `vector_m 8→6, peel 0→1`."""
        if not candidate.tuned or not candidate.knobs:
            return ""
        default = self._first.get(candidate.part, candidate)
        if default is candidate:
            return "nearest to the default"
        both = dict.fromkeys([*default.knobs, *candidate.knobs])
        sides = ((name, default.knobs.get(name, "–"), candidate.knobs.get(name, "–")) for name in both)
        return ", ".join(f"{name} {old}→{new}" for name, old, new in sides if old != new)


def read(store: Reader, run: str) -> Run:
    """A run; of its parts, of which a suite has hundreds, only their rows."""
    row = store.run(run)
    builds = {build.candidate: build for build in store.builds(run)}

    def candidate(one: CandidateRow) -> Candidate:
        build = builds.get(one.id)
        knobs = {name: value for name, value in one.config.as_dict().items() if value != ABSENT}
        if build is None:
            return Candidate(one, knobs)
        return Candidate(one, knobs, build.applied, build.isa)

    candidates = tuple(candidate(one) for one in store.candidates(run))
    whole = {run, *(part.id for parts in store.below([run]).values() for part in parts)}
    tallies = store.tallies(whole).values()
    return Run(
        row=row,
        environment=store.environment(run),
        document=row.result or {},
        candidates=candidates,
        finalists=_finalists(store, run, candidates),
        parts=tuple(part for part in store.parts(run) if part.id != run),
        counts=(sum(t.asked for t in tallies), sum(t.timed for t in tallies), sum(t.failed for t in tallies)),
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
                middle = math.exp(median(logs))
                found.append(Finalist(candidate.name, phase, middle, Interval.of(logs), len(logs)))
    return tuple(found)


def varied(run: Run) -> dict[str, float | None]:
    """The knobs that took several values among the timed candidates, the one that explains most of the spread of log
    time first. None where there are too few candidates to tell."""
    found: dict[str, float | None] = {}
    timed = [candidate for candidate in run.timed if candidate.tuned]
    for name in dict.fromkeys(name for candidate in timed for name in candidate.knobs):
        groups: dict[Value, list[float]] = {}
        for candidate in timed:
            if name in candidate.knobs:
                groups.setdefault(candidate.knobs[name], []).append(math.log(candidate.us or 1.0))
        if len(groups) > 1:
            found[name] = _share(list(groups.values()))
    return dict(sorted(found.items(), key=lambda one: -(one[1] or 0.0)))


def _share(groups: Sequence[Sequence[float]]) -> float | None:
    """Epsilon squared: the correlation ratio, less what chance gives to so many groups."""
    every = [time for group in groups for time in group]
    if len(every) < LEAST or len(every) <= len(groups):
        return None
    total = len(every) * pvariance(every)
    within = sum(len(group) * pvariance(group) for group in groups)
    noise = within / (len(every) - len(groups))
    return min(1.0, max(0.0, (total - within - (len(groups) - 1) * noise) / total)) if total > 0.0 else 0.0
