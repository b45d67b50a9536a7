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

ROUNDS = 3
"""Of what is timed beside the blocks."""
WARM_SHARE = 0.75
"""Of a problem's time, where something is timed beside them."""
APART = 0.05
"""Clocks at the beginning of blocks that are further apart are no longer one state."""


@dataclass
class Part:
    """A backend, and how far it came."""

    row: BackendRow
    id: int
    """Of its row in the results database."""
    side: Side | None = None
    timings: list[Timing] = field(default_factory=list)
    beside: dict[Phase, list[float]] = field(default_factory=dict)
    """In µs, what was timed beside the blocks."""

    @property
    def alive(self) -> bool:
        return self.side is not None and not self.row.failure

    @property
    def warm_us(self) -> float:
        return median(timing.median for timing in self.timings)

    def middle(self, phase: Phase) -> float | None:
        found = self.beside.get(phase)
        return median(found) if found and self.alive and self.timings else None

    def finished(self) -> BackendRow:
        """What is told of it."""
        seen = [timing.conditions for timing in self.timings if timing.conditions is not None]
        return replace(
            self.row,
            blocks_us=tuple(timing.median for timing in self.timings) if self.alive else (),
            cold_us=self.middle("cold"),
            before=Sample.middle(one.before for one in seen),
            sample=Sample.middle(one.after for one in seen),
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
    _too_short: str = ""

    def go(self) -> ProblemRows | None:
        """None where it was stopped before anything was timed."""
        self.run.account.stage("preparing")
        for name, backend in self.backends.items():
            if self.run.stopped:
                return None
            self._prepare(name, backend)
        self.run.account.stage(f"timing {', '.join(self._alive())}")
        with self.run.account.clocked("time"):
            self._time_blocks()
            if self.cold and self.given.repeated:
                self._time_beside("cold", lambda side, us: side.time_cold(us))
        return self._rows() if self._timed() or not self.run.stopped else None

    # --- preparing ------------------------------------------------------------------------------------------------

    def _prepare(self, name: str, backend: Backend) -> None:
        """Opens its row, and compares the results of one call with what must come out."""
        with self.run.account.clocked("build"):
            kind = backend.kind  # of IREE's modules it is known once they are compiled
        part = self.parts[name] = Part(BackendRow(name, version=backend.version), self.run.candidate(kind, name))
        if isinstance(backend, IreeBackend) and (made := backend.made) is not None:
            recipe, module = made.recipe, made.module
            spec = str(recipe.flagfile or recipe.spec or "")
            part.row = replace(part.row, spec=spec, applied=recipe.applied)
            built = (module.binary, recipe.applied, tuple(module.command), str(module.vmfb))
            self.run.session.store.record_build(BuildRow(part.id, module.seconds, module.cached, *built))
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
        self.run.session.store.record_check(part.id, error=check.error)

    # --- timing ---------------------------------------------------------------------------------------------------

    def _time_blocks(self) -> None:
        """In turns: three repetitions of each in a block, and of what takes long one."""

        def take(part: Part, side: Side) -> Timing:
            known = part.timings[0].median if part.timings else 0.0
            timing = side.time(repetitions=1 if known > SLOW_US else REPETITIONS)
            if not timing.ok:
                self._fail(part, timing.failure or "run-error", timing.detail)
            return timing

        turns = self._in_turns("bench", self._alive(), take, most=self.blocks, ends=self._warm_ends())
        if turns.blocks < self.blocks:
            had, why = ("fit into --budget", "the time was up before its turn: a longer --budget would do")
            if self.run.stopped:
                had, why = ("were timed before it was stopped", "it was stopped before its turn")
            self._too_short = f"{turns.blocks} of {self.blocks} blocks {had}"
            for part in self.parts.values():
                if part.alive and not part.timings:
                    self._fail(part, UNTIMED, why)
        for part in self._timed():
            self.run.session.store.set_us(part.id, part.warm_us)

    def _time_beside(self, phase: Phase, take: Callable[[Side, float], Timing | None]) -> None:
        """Rounds of another timing, which knows how long the blocks took."""
        names = [part.row.name for part in self._timed()]
        self._in_turns(phase, names, lambda part, side: take(side, part.warm_us), most=ROUNDS, ends=self.ends)

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
            part = self.parts[name]
            part.timings += [timing] if phase == "bench" else []
            part.beside.setdefault(phase, []).append(timing.median)
            self.run.session.store.record_timing(part.id, timing, phase=phase, block=block - 1)

        return take_turns(names, taken, still, seed=self.run.options.seed, record=record)

    def _warm_ends(self) -> float:
        """Some of the time is for what is timed beside the blocks."""
        now, more = self.run.clock.elapsed, self.cold
        return now + WARM_SHARE * (self.ends - now) if more and math.isfinite(self.ends) else self.ends

    # --- the end --------------------------------------------------------------------------------------------------

    def _rows(self) -> ProblemRows:
        rows = [part.finished() for part in self.parts.values()]
        notes = (*self._warnings(rows), *([self._too_short] if self._too_short else []))
        for note in notes:
            self.run.account.note(note)
        return ProblemRows(self.given.described, tuple(rows), self.run.id, self.calls, notes)

    def _warnings(self, rows: Sequence[BackendRow]) -> list[str]:
        """What must be known of the device before two of the times are compared."""
        found = []
        began = {row.name: row.before.mhz for row in rows if row.before.mhz and row.blocks_us}
        if began and max(began.values()) > (1 + APART) * min(began.values()):
            clocks = ", ".join(f"{name} {mhz:.0f} MHz" for name, mhz in began.items())
            found.append(f"blocks did not begin in one state: {clocks}")
        return found

    def _fail(self, part: Part, failure: str, detail: str) -> None:
        part.row = replace(part.row, failure=failure, reason=failed_because(detail))
        self.run.session.store.record_failure(part.id, failure, stderr=detail)

    def _alive(self) -> list[str]:
        return [name for name, part in self.parts.items() if part.alive]

    def _timed(self) -> list[Part]:
        return [part for part in self.parts.values() if part.alive and part.timings]
