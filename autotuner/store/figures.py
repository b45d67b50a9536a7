"""Figures of runs: each kernel's time with its interval, for each state of the device."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import median, quantiles
from typing import Any

from autotuner.measure.blocks import Interval
from autotuner.store.listing import owners_of
from autotuner.store.reader import Reader
from autotuner.store.rows import CandidateRow, RunRow, TimingRow
from autotuner.targets import PLAIN
from autotuner.targets.backends import backend_on

CONFIDENCE = 0.95
"""The probability that a figure's interval holds the true median."""
UNKNOWN = "unknown"
"""The state of timings from before states were recorded."""
DEFAULT, BEST = "default", "best"
"""Kernel names: IREE's default, and the best of a run, which may be the default."""
MEASURED = ("us", "low", "high", "spread", "blocks")
"""The fields of a figure that are measured."""
TOLD = (
    *("iree", "iree_runtime", "compiler", "autotune", "python", "host", "machine", "cpu", "cores", "governor"),
    *("kernel", "device", "device_name", "driver"),
)
"""The environment's fields that are compared. Clocks, load and time always differ."""
NO_KNOB = -1
"""The text for a knob that a candidate does not have."""
_SIDE_BY_SIDE = ("race", "confirm")
_ALL_NAMED = ("ab", "bench")
"""Kinds of runs whose candidates all have names of their own."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A kernel's time in one state of a device and of its cache."""

    problem: str
    target: str
    kernel: str
    us: float
    low: float | None = None
    high: float | None = None
    """The upper end of the median's interval; None: too few blocks."""
    spread: float | None = None
    """The interquartile range of all repetitions, relative to the time."""
    blocks: int = 0
    state: str = UNKNOWN
    cache: str = "warm"
    device: str = ""
    run: str = ""
    started: str = ""

    @property
    def key(self) -> tuple[str, str, str]:
        return self.problem, self.target, self.kernel

    @property
    def interval(self) -> tuple[float, float] | None:
        return None if self.low is None or self.high is None else (self.low, self.high)

    @property
    def conditions(self) -> tuple[str, str, str]:
        """The conditions of the measurement: figures are compared only where they agree."""
        return self.state, self.cache, self.device

    @property
    def place(self) -> str:
        """Its state in a word, such as `sustained/warm`."""
        return f"{self.state}/{self.cache}"

    def timed(self) -> dict[str, float | int | None]:
        """The measured fields, for exports."""
        return {name: getattr(self, name) for name in MEASURED}


@dataclass(frozen=True)
class Failure:
    """A problem that a run could not measure."""

    problem: str
    target: str
    reason: str
    run: str
    started: str


@dataclass(frozen=True)
class Measurements:
    """The figures, failures and environments of runs."""

    figures: tuple[Figure, ...] = ()
    failures: tuple[Failure, ...] = ()
    environments: tuple[Mapping[str, Any], ...] = ()


def measurements(store: Reader, run: str | None = None) -> Measurements:
    """The figures of one run with its parts, or of all runs: defaults, best, arms and libraries.

    A model's parts are left out: they are pieces of it, and differ with the route it takes.
    """
    owners = owners_of(store, run)
    models = {owner.id for owner in owners if owner.kind == "model"}
    figures: list[Figure] = []
    failures: list[Failure] = []
    environments: list[Mapping[str, Any]] = []
    with store.intact():
        for owner in owners:
            if owner.parent in models:
                continue
            own = RunFigures.read(store, owner)
            found = [*own.named()]
            figures += found
            if found and own.environment:
                environments.append(own.environment)
            failures += _failures(store, owner)
    return Measurements(tuple(figures), tuple(failures), tuple(environments))


def device_of(environment: Mapping[str, Any], uri: str) -> str:
    """The device's name, which equal machines share."""
    name = str(environment.get("device_name") or uri)
    backend = backend_on(uri)
    cores = environment.get("cores")
    return f"{name}, {cores} cores" if backend is not None and backend.on_host and cores else name


@dataclass(frozen=True)
class RunFigures:
    """The figures of one run's candidates."""

    run: RunRow
    environment: Mapping[str, Any]
    candidates: tuple[CandidateRow, ...]
    timings: Callable[[int], Sequence[TimingRow]]
    """Reads a candidate's timings on demand: a search may have thousands of candidates."""

    @classmethod
    def read(cls, store: Reader, run: RunRow) -> RunFigures:
        """Reads the candidates that were timed and right."""
        timed = (row for row in store.candidates(run.id) if row.us is not None and row.state != "failed")
        return cls(run, store.environment(run.id), tuple(timed), store.timings_of)

    @cached_property
    def told(self) -> dict[str, Any]:
        """The environment's fields for comparisons."""
        return {name: self.environment[name] for name in TOLD if name in self.environment}

    def named(self) -> Iterator[Figure]:
        """The figures by kernel name: default and best; of experiments and benches, each arm."""
        searched = self.run.kind == "ab" and any(row.config.as_dict() for row in self.candidates)
        named = self.run.kind in _ALL_NAMED and not searched
        for row in self.candidates:
            if named or row.kind in ("baseline", "default"):
                yield from self.of(row)
        if not named and (best := self.best) is not None:
            # Of a microkernel's variants the fastest stands for the kernel: it is not what a search found best.
            kernel = str(best.config.as_dict().get("kernel", DEFAULT)) if searched else BEST
            yield from (replace(figure, kernel=kernel) for figure in self.of(best))

    def of(self, row: CandidateRow) -> Iterator[Figure]:
        """A candidate's figures, one for each state."""
        run, (device, started) = self.run, self._where
        told = (run.result or {}).get("timing") or {}
        for (state, cache), chosen in _states(self.timings(row.id), told).items():
            plain = Figure(
                problem=problem_of(run, row),
                target=run.target,
                kernel=kernel_of(run, row),
                us=0.0,
                state=state,
                cache=cache,
                device=device,
                run=run.id,
                started=started,
            )
            yield summarize(plain, [timing.repetitions_us for timing in chosen])

    @cached_property
    def _where(self) -> tuple[str, str]:
        """The device and the date, shared by all figures of the run."""
        return device_of(self.environment, self.run.device), self.run.started.isoformat(timespec="seconds")

    @property
    def best(self) -> CandidateRow | None:
        """The row of the result's best: by its name, else by its route and nearest time."""
        best = (self.run.result or {}).get("best") or {}
        if best.get("us") is None:
            return None
        name, us = str(best.get("candidate") or ""), float(best["us"])
        for row in self.candidates:
            if name == ("baseline" if row.kind == "baseline" else f"c{row.ordinal:04d}"):
                return row
        rivals = [row for row in self.candidates if row.route == best.get("route") and row.kind != "baseline"]
        return min(rivals, key=lambda row: abs((row.us or 0.0) - us), default=None)


def summarize(figure: Figure, blocks: Sequence[Sequence[float]]) -> Figure:
    """The figure of these blocks: the median of their medians, with interval and spread."""
    middle = [median(block) for block in blocks]
    known = Interval.of([math.log(us) for us in middle if us > 0], alpha=1 - CONFIDENCE)
    low, high = (known.low, known.high) if known else (None, None)
    every = [math.log(us) for block in blocks for us in block if us > 0]
    quarters = quantiles(every, method="inclusive") if len(every) > 1 else None
    spread = quarters[2] - quarters[0] if quarters else None
    return replace(figure, us=median(middle), low=low, high=high, spread=spread, blocks=len(blocks))


def _states(timings: Iterable[TimingRow], told: Mapping[str, Any]) -> Mapping[tuple[str, str], list[TimingRow]]:
    """Timings by state of device and cache; where a candidate raced, those of the search do not count."""
    found: dict[tuple[str, str], list[TimingRow]] = {}
    for timing in timings:
        if not timing.repetitions_us or timing.phase == "call":  # which is another question
            continue
        known = timing.conditions
        state = known.state if known is not None else str(told.get("state", UNKNOWN))
        cache = known.cache if known is not None else "cold" if timing.phase == "cold" else "warm"
        found.setdefault((state, cache), []).append(timing)
    for key, group in found.items():
        found[key] = [one for one in group if one.phase in (*_SIDE_BY_SIDE, "cold")] or group
    return found


def problem_of(run: RunRow, row: CandidateRow) -> str:
    """A suite's own rows are of its problems."""
    return str(row.config.as_dict().get("problem", "") if row.kind == "default" else run.problem.get("name", ""))


def kernel_of(run: RunRow, row: CandidateRow) -> str:
    """A candidate's name across runs; arms and libraries have their own."""
    if run.kind == "ab" and row.route not in ("", PLAIN.name):
        return row.route
    if row.kind in ("baseline", "default"):
        return DEFAULT
    if run.kind == "bench":
        return row.route
    config = row.config.as_dict()
    knobs = " ".join(f"{knob}={config[knob]}" for knob in sorted(config) if config[knob] != NO_KNOB)
    return " ".join(word for word in (row.kind, row.route, knobs) if word)


def _failures(store: Reader, run: RunRow) -> Iterator[Failure]:
    started = run.started.isoformat(timespec="seconds")
    if run.kind == "suite":
        for row in store.candidates(run.id):
            if row.state == "failed":
                yield Failure(problem_of(run, row), run.target, row.stderr or row.failure, run.id, started)
    elif run.status == "failed":
        reason = str((run.result or {}).get("reason", "it failed"))
        yield Failure(str(run.problem.get("name", "")), run.target, reason, run.id, started)
