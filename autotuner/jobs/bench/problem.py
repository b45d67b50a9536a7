"""One problem on all backends: prepared, compared, then timed in turns, a block of each after the other."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from autotuner.devices.conditions import Sample
from autotuner.devices.device import Timing
from autotuner.errors import OutOfTimeError
from autotuner.iree.run import failed_because
from autotuner.jobs.bench.backends import IREE, LIBRARIES
from autotuner.jobs.bench.given import Given
from autotuner.jobs.bench.result import UNTIMED, BackendRow
from autotuner.jobs.bench.sides import Backend, Manner, NoSideError, Side
from autotuner.measure.cache_timer import ROUNDS
from autotuner.measure.contest import REPETITIONS, SLOW_US, Pacer, TimingFailed, Turns, take_turns
from autotuner.store.rows import BuildRow, Kind, Phase
from autotuner.tuning.run import Run

Take = Callable[["Part", Side], Timing | None]
"""None where it cannot be timed so."""


@dataclass
class Part:
    """A backend and its state."""

    row: BackendRow
    id: int
    """Of its row in the results database."""
    side: Side | None
    """None where it is not timed, or no more."""
    samples: list[Sample] = field(default_factory=list)
    slow: bool = False
    """One call is a measurement by itself."""


@dataclass
class ProblemBench:
    """The steps of one problem in order."""

    run: Run
    backends: Mapping[str, Backend]
    given: Given
    manner: Manner
    blocks: int
    cold: bool
    parts: dict[str, Part] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def go(self) -> tuple[BackendRow, ...]:
        """The rows; none where it was stopped before anything was timed."""
        self.run.account.stage("preparing")
        for name, backend in self.backends.items():
            if self.run.stopped:
                return ()
            self._prepare(name, backend)
        self.run.account.stage(f"timing {', '.join(self._alive)}")
        with self.run.account.clocked("time"):
            blocks = self._time_blocks()
            if self.cold and self.given.repeated:
                self._time_cold()
        if self.run.stopped and not blocks:
            return ()
        return tuple(part.row for part in self.parts.values())

    @property
    def _alive(self) -> list[str]:
        return [name for name, part in self.parts.items() if part.side is not None]

    # --- preparing ------------------------------------------------------------------------------------------------

    def _prepare(self, name: str, backend: Backend) -> None:
        """Opens its row, and compares the results of one call with what must come out."""
        store, row = self.run.session.store, BackendRow(name, version=backend.version)
        kind: Kind = "baseline" if name == IREE else "library" if name in LIBRARIES else "codegen"
        try:
            with self.run.account.clocked("build"):
                side = backend.prepare(self.given, self.manner)
        except NoSideError as error:
            part = self.parts[name] = Part(row, self.run.candidate(kind, name), None)
            self._fail(part, error.failure, error.detail)
            return
        row = replace(row, how=side.how, result=", ".join(dict.fromkeys(side.elements)))
        recipe, module = side.recipe, side.once
        if recipe is not None:
            row = replace(row, spec=str(recipe.flagfile or recipe.spec or ""), applied=recipe.applied)
            kind = "microkernel" if recipe.carrier == "microkernel" else kind
        part = self.parts[name] = Part(row, self.run.candidate(kind, name), side)
        if recipe is not None and module is not None:
            built = (module.binary, recipe.applied, tuple(module.command), str(module.vmfb))
            store.record_build(BuildRow(part.id, module.seconds, module.cached, *built))
        if name in LIBRARIES and LIBRARIES[name].anchor:
            return
        if side.elements != self.given.elements:
            wanted = ", ".join(dict.fromkeys(self.given.elements))
            self.run.account.note(f"{name} gives {row.result}, where {wanted} is wanted")
        check = self.given.check(side.computed, side.elements)
        if not check.ok:
            self._fail(part, check.failure or "wrong-result", check.detail)
            return
        part.row = replace(row, error=check.error)
        store.record_check(part.id, error=check.error)

    # --- timing ---------------------------------------------------------------------------------------------------

    def _time_blocks(self) -> int:
        """In turns: three repetitions of each in a block, and of what takes long one. How many blocks there are."""

        def take(part: Part, side: Side) -> Timing:
            timing = side.time(1 if part.slow else REPETITIONS)
            if not timing.ok:
                self._fail(part, timing.failure or "run-error", timing.detail)
                return timing
            part.slow = timing.median > SLOW_US
            part.samples += [timing.conditions.after] if timing.conditions is not None else []
            return timing

        names = self._alive
        turns = self._in_turns("bench", take, most=self.blocks)
        if names and turns.blocks < self.blocks:
            had = "were timed before it was stopped" if self.run.stopped else "fit into --budget"
            self.notes = (f"{turns.blocks} of {self.blocks} blocks {had}",)
            self.run.account.note(self.notes[0])
        for name in self._alive:
            part, blocks = self.parts[name], tuple(us for us in turns.times[name] if us is not None)
            if not blocks:
                if not self.run.stopped:
                    self._fail(part, UNTIMED, "ran out of time before its turn")
                continue
            part.row = replace(part.row, blocks_us=blocks, sample=Sample.middle(part.samples))
            self.run.session.store.set_us(part.id, part.row.us or math.nan)
        return turns.blocks

    def _time_cold(self) -> None:
        """In what is left of the time."""
        turns = self._in_turns("cold", lambda part, side: side.time_cold(part.row.us or 0.0), most=ROUNDS)
        for name, us in turns.medians.items():
            self.parts[name].row = replace(self.parts[name].row, cold_us=us)

    def _in_turns(self, phase: Phase, take: Take, *, most: int) -> Turns:
        """This many blocks at most; an entrant that cannot be timed leaves."""
        pacer, names = Pacer(lambda: self.run.clock.left), self._alive

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
        part.row, part.side = replace(part.row, failure=failure, reason=failed_because(detail)), None
        self.run.session.store.record_failure(part.id, failure, stderr=detail)
