"""One problem on all backends: prepared, compared, then timed in turns, a block of each after the other."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median

from autotuner.devices.conditions import Sample
from autotuner.devices.device import Timing
from autotuner.errors import OutOfTimeError
from autotuner.iree.run import failed_because
from autotuner.jobs.bench.given import Given
from autotuner.jobs.bench.result import UNTIMED, BackendRow, ProblemRows
from autotuner.jobs.bench.sides import Backend, IreeBackend, Manner, NoSideError, Side
from autotuner.measure.contest import REPETITIONS, SLOW_US, Pacer, TimingFailed, Turns, take_turns
from autotuner.store.rows import BuildRow, Phase
from autotuner.tuning.run import Run

COLD_ROUNDS = 3
WARM_SHARE = 0.75
"""Of a problem's time, where cold times are taken after it."""


@dataclass
class Part:
    """A backend, and how far it came."""

    row: BackendRow
    id: int
    """Of its row in the results database."""
    side: Side | None = None
    timings: list[Timing] = field(default_factory=list)
    cold: list[float] = field(default_factory=list)

    @property
    def alive(self) -> bool:
        return self.side is not None and not self.row.failure

    @property
    def warm_us(self) -> float:
        return median(timing.median for timing in self.timings)

    def finished(self) -> BackendRow:
        """What is told of it."""
        if not self.alive:
            return self.row
        return replace(
            self.row,
            blocks_us=tuple(timing.median for timing in self.timings),
            cold_us=median(self.cold) if self.cold else None,
            sample=Sample.middle(one.conditions.after for one in self.timings if one.conditions is not None),
        )


@dataclass
class ProblemBench:
    """The steps of one problem in order."""

    run: Run
    calls: int
    backends: Mapping[str, Backend]
    given: Given
    manner: Manner
    blocks: int
    cold: bool
    ends: float = math.inf
    """In seconds on the run's clock: no block begins that would last longer."""
    parts: dict[str, Part] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def go(self) -> ProblemRows | None:
        """None where it was stopped before anything was timed."""
        self.run.account.stage("preparing")
        for name, backend in self.backends.items():
            if self.run.stopped:
                return None
            self._prepare(name, backend)
        alive = [name for name, part in self.parts.items() if part.alive]
        self.run.account.stage(f"timing {', '.join(alive)}")
        with self.run.account.clocked("time"):
            self._time_blocks(alive)
            timed = [name for name in alive if self.parts[name].alive and self.parts[name].timings]
            if self.cold and self.given.repeated:
                self._time_cold(timed)
        if self.run.stopped and not timed:
            return None
        rows = tuple(part.finished() for part in self.parts.values())
        return ProblemRows(self.given.described, rows, self.run.id, self.calls, self.notes)

    # --- preparing ------------------------------------------------------------------------------------------------

    def _prepare(self, name: str, backend: Backend) -> None:
        """Opens its row, and compares the results of one call with what must come out."""
        store = self.run.session.store
        with self.run.account.clocked("build"):
            kind = backend.kind  # of IREE's modules it is known once they are compiled
        part = self.parts[name] = Part(BackendRow(name, version=backend.version), self.run.candidate(kind, name))
        if isinstance(backend, IreeBackend) and (made := backend.made) is not None:
            recipe, module = made
            part.row = replace(part.row, spec=str(recipe.flagfile or recipe.spec or ""), applied=recipe.applied)
            built = (module.binary, recipe.applied, tuple(module.command), str(module.vmfb))
            store.record_build(BuildRow(part.id, module.seconds, module.cached, *built))
        try:
            part.side = side = backend.prepare(self.given, self.manner)
        except NoSideError as error:
            self._fail(part, error.failure, error.detail)
            return
        part.row = replace(part.row, how=side.how, result=", ".join(dict.fromkeys(side.elements)))
        if side.elements != self.given.elements:
            wanted = ", ".join(dict.fromkeys(self.given.elements))
            self.run.account.note(f"{name} gives {part.row.result}, where {wanted} is wanted")
        if (computed := side.answer()) is None:
            self.run.account.note(f"{name} does not show its results: they are not compared")
            return
        check = self.given.check(computed, side.elements)
        if not check.ok:
            self._fail(part, check.failure or "wrong-result", check.detail)
            return
        part.row = replace(part.row, error=check.error)
        store.record_check(part.id, error=check.error)

    # --- timing ---------------------------------------------------------------------------------------------------

    def _time_blocks(self, names: Sequence[str]) -> None:
        """In turns: three repetitions of each in a block, and of what takes long one."""

        def take(part: Part, side: Side) -> Timing:
            known = part.timings[0].median if part.timings else 0.0
            timing = side.time(repetitions=1 if known > SLOW_US else REPETITIONS)
            if timing.ok:
                part.timings.append(timing)
            else:
                self._fail(part, timing.failure or "run-error", timing.detail)
            return timing

        now, ends = self.run.clock.elapsed, self.ends
        ends = now + WARM_SHARE * (ends - now) if self.cold and math.isfinite(ends) else ends
        turns = self._in_turns("bench", names, take, most=self.blocks, ends=ends)
        if names and turns.blocks < self.blocks:
            had, why = ("fit into --budget", "the time was up before its turn: a longer --budget would do")
            if self.run.stopped:
                had, why = ("were timed before it was stopped", "it was stopped before its turn")
            self.notes = (f"{turns.blocks} of {self.blocks} blocks {had}",)
            self.run.account.note(self.notes[0])
            for part in (self.parts[name] for name in names):
                if part.alive and not part.timings:
                    self._fail(part, UNTIMED, why)
        for part in (self.parts[name] for name in names):
            if part.alive:
                self.run.session.store.set_us(part.id, part.warm_us)

    def _time_cold(self, names: Sequence[str]) -> None:
        def take(part: Part, side: Side) -> Timing | None:
            timing = side.time_cold(part.warm_us)
            part.cold += [timing.median] if timing is not None and timing.ok else []
            return timing

        self._in_turns("cold", names, take, most=COLD_ROUNDS, ends=self.ends)

    def _in_turns(
        self, phase: Phase, names: Sequence[str], take: Callable[[Part, Side], Timing | None], *, most: int, ends: float
    ) -> Turns:
        """So many blocks at most; who cannot be timed leaves."""
        pacer = Pacer(lambda: ends - self.run.clock.elapsed)

        def still(turns: Turns) -> Sequence[str]:
            return () if self.run.stopped or turns.blocks >= most or not pacer.fits() else names

        def taken(name: str) -> Timing:
            part = self.parts[name]
            if self.run.stopped:
                raise OutOfTimeError("it was stopped")
            timing = take(part, part.side) if part.side is not None else None
            if timing is None or not timing.ok:
                raise TimingFailed(timing.detail if timing is not None else "it cannot be timed so")
            return timing

        def record(name: str, block: int, timing: Timing) -> None:
            self.run.session.store.record_timing(self.parts[name].id, timing, phase=phase, block=block - 1)

        return take_turns(names, taken, still, seed=self.run.options.seed, record=record)

    def _fail(self, part: Part, failure: str, detail: str) -> None:
        part.row = replace(part.row, failure=failure, reason=failed_because(detail))
        self.run.session.store.record_failure(part.id, failure, stderr=detail)
