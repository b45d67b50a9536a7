"""One problem on all backends: built, compared, then timed in turns, a block of each after the other."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from autotuner.devices.conditions import Sample
from autotuner.devices.device import Timing
from autotuner.devices.resident import BURST_PAUSE
from autotuner.devices.sampling import POWER, Throttle, open_sampler, sizes_of
from autotuner.errors import OutOfTimeError
from autotuner.iree.benchmark import Benchmark
from autotuner.iree.run import failed_because
from autotuner.jobs.bench.backends import HIPBLASLT, IREE
from autotuner.jobs.bench.budget import WARM_SHARE, Turns
from autotuner.jobs.bench.building import Built, Given, Site, input_bytes
from autotuner.jobs.bench.hipblaslt import HipblasltSide, refusal
from autotuner.jobs.bench.library import LibraryProcess, Plan, Ready
from autotuner.jobs.bench.result import UNSUPPORTED, UNTIMED, UNTUNED, BackendRow, ProblemRows
from autotuner.jobs.bench.sides import IreeSide, LibrarySide, Side, lasting_us
from autotuner.measure.check import Check
from autotuner.store.rows import BuildRow, Kind, Phase
from autotuner.system.execution import done
from autotuner.system.text import count
from autotuner.tuning.run import Run

REPETITIONS, ROUNDS = 3, 3
"""Of a block; and of what is timed beside the blocks."""
LONG_US = 100_000.0
"""What takes longer is timed once in a block."""
APART = 0.05
"""Clocks at the beginning of blocks that are further apart are no longer one state."""


@dataclass
class Part:
    """A backend, and how far it came."""

    row: BackendRow
    id: int
    """Of its row in the results database."""
    side: Side | None = None
    check: Future[Check] | None = None
    timings: list[Timing] = field(default_factory=list)
    beside: dict[Phase, list[float]] = field(default_factory=dict)
    """In µs, what was timed beside the blocks."""

    @property
    def alive(self) -> bool:
        return self.side is not None and not self.row.failure

    @property
    def warm_us(self) -> float:
        return median(timing.median for timing in self.timings)

    @property
    def flight(self) -> int:
        return min(timing.flight for timing in self.timings)

    def middle(self, phase: Phase) -> float | None:
        found = self.beside.get(phase)
        return median(found) if found and self.alive and self.timings else None


@dataclass
class ProblemBench:
    """The steps of one problem in order."""

    run: Run
    calls: int
    libraries: Mapping[str, LibraryProcess]
    hipblaslt: Path | None
    """AMD's own program, where it takes part."""
    site: Site
    builds: Mapping[str, Future[Built] | str]
    """IREE's own, by backend; in words, why there is none."""
    given: Future[Given]
    blocks: int
    cold: bool
    throttle: Throttle
    checks: Executor | None
    """Where results are compared while others are prepared; None: here, for the cores are what is timed."""
    seconds: float
    """A repetition, at least."""
    timeout: float
    flight: int = 1
    """Calls of IREE's modules that are in flight at once; with more than one, single calls are timed too."""
    ends: float = math.inf
    """In seconds on the run's clock: no block begins that would last longer."""
    parts: dict[str, Part] = field(default_factory=dict)
    slowed: set[str] = field(default_factory=set)
    _too_short: str = ""

    def go(self) -> ProblemRows | None:
        """None where it was stopped before anything was timed."""
        given = self.given.result()
        self.run.account.stage("preparing")
        steps: list[Callable[[], None]] = [partial(self._prepare_iree, *one, given) for one in self.builds.items()]
        steps += [partial(self._prepare_library, *one, given) for one in self.libraries.items()]
        if self.hipblaslt is not None:
            steps.append(partial(self._prepare_hipblaslt, self.hipblaslt, given))
        for step in (*steps, self._settle_checks):
            if self.run.stopped:
                return None
            step()
        self.run.account.stage(f"timing {', '.join(self._alive())}")
        with self.run.account.clocked("time"):
            self._time_blocks()
            with suppress(OutOfTimeError):
                if self.cold and given.repeated:
                    self._time_beside("cold", lambda side, us: side.time_cold(us))
                if self.flight > 1:
                    self._time_beside("call", lambda side, _: side.time_call())
        return self._rows(given) if self._timed() or not self.run.stopped else None

    # --- preparing ------------------------------------------------------------------------------------------------

    def _prepare_iree(self, name: str, build: Future[Built] | str, given: Given) -> None:
        if isinstance(build, str):
            self._open(name, "codegen", failure=UNTUNED, reason=build)
            return
        with self.run.account.clocked("build"):
            built = build.result()
        recipe, module = built.recipe, built.module
        kernel = recipe is not None and recipe.carrier == "microkernel"
        kind: Kind = "baseline" if name == IREE else "microkernel" if kernel else "codegen"
        spec = str(recipe.flagfile or recipe.spec or "") if recipe else ""
        part = self._open(name, kind, version=str(self.run.environment.get("iree", "")), spec=spec)
        if module is not None:
            applied, command = recipe.applied if recipe else 0, tuple(module.command)
            self.run.session.store.record_build(
                BuildRow(part.id, module.seconds, module.cached, module.binary, applied, command, str(module.vmfb))
            )
        if built.failure is not None or recipe is None or module is None:
            self._fail(part, built.failure or "compile-error", built.detail)
            return
        how = "IREE's default" if name == IREE else f"{recipe.carrier}{_proof(recipe.applied)}"
        part.row = replace(part.row, how=how, applied=recipe.applied)
        benchmark = Benchmark(given.invocation, self.seconds, self.timeout, steady=self._steady, flight=self.flight)
        device = self.run.session.runner
        side = IreeSide(
            device=device,
            once=module,
            benchmark=benchmark,
            elements=given.elements,
            how=how,
            rebuild=lambda repeat: self.site.rebuild(recipe, repeat),
            lasting_us=lasting_us(device, on_host=self.site.target.backend.on_host),
        )
        self._answer(part, side, given)
        if given.repeated and recipe.repeatable:
            rough = side.lengthen()
            if not rough.ok:
                self._fail(part, rough.failure or "run-error", rough.detail)

    def _prepare_library(self, name: str, library: LibraryProcess, given: Given) -> None:
        part = self._open(name, "library", version=library.version)
        self.run.session.runner.lend(busy=False)
        ready = library.prepare(given.task, given.tensors)
        if isinstance(ready, str):
            self._fail(part, UNSUPPORTED, ready)
            return
        if not isinstance(ready, Ready):
            self._fail(part, ready.failure or "run-error", ready.detail)
            return
        part.row = replace(part.row, how=ready.how)
        on_host, burst = self.site.target.backend.on_host, self.run.options.state == "burst"
        plan = Plan(
            seconds=self.seconds,
            warm=self.seconds,
            steady=self._steady,
            pause=BURST_PAUSE if burst and not on_host else 0.0,
            timeout=self.timeout,
        )
        rotation = sizes_of(self.run.session.device).rotation(input_bytes(given))
        side = LibrarySide(library, ready, plan, rotation, partial(self.run.session.runner.lend, busy=True))
        self._answer(part, side, given)

    def _prepare_hipblaslt(self, program: Path, given: Given) -> None:
        part, session = self._open(HIPBLASLT, "library"), self.run.session
        if why := refusal(given.task):
            self._fail(part, UNSUPPORTED, why)
            return
        side = HipblasltSide(
            program=program,
            task=given.task,
            device=session.device,
            timeout=self.timeout,
            state=self.run.options.state,
            sampler=open_sampler(session.device),
            lend=partial(session.runner.lend, busy=True),
        )
        part.row = replace(part.row, how=side.how)
        self._answer(part, side, given)

    def _answer(self, part: Part, side: Side, given: Given) -> None:
        """One call, whose result is compared with what must come out."""
        part.side = side
        elements = side.elements
        part.row = replace(part.row, result=", ".join(dict.fromkeys(elements)))
        if (computed := side.answer()) is None:
            self.run.account.note(f"{part.row.name} does not show its results: they are not compared")
            return
        compare: Callable[[], Check] = lambda: given.check(computed, elements)  # noqa: E731  it is called elsewhere
        part.check = self.checks.submit(compare) if self.checks is not None else done(compare())
        if elements != given.elements:
            wanted = ", ".join(dict.fromkeys(given.elements))
            self.run.account.note(f"{part.row.name} gives {part.row.result}, where {wanted} is wanted")

    def _settle_checks(self) -> None:
        for part in self.parts.values():
            check = part.check.result() if part.check is not None else None
            if check is None:
                continue
            if check.ok:
                part.row = replace(part.row, error=check.error)
                self.run.session.store.record_check(part.id, error=check.error)
            elif not part.row.failure:
                self._fail(part, check.failure or "wrong-result", check.detail)

    # --- timing ---------------------------------------------------------------------------------------------------

    def _time_blocks(self) -> None:
        store = self.run.session.store
        turns, done = Turns(self.run.clock, self._warm_ends()), 0
        with suppress(OutOfTimeError):
            while done < self.blocks and turns.another():
                whole = self._time_block(done)
                done += whole
                if not whole or self.run.stopped:
                    break
        if done < self.blocks:
            had, why = ("fit into --budget", "the time was up before its turn: a longer --budget would do")
            if self.run.stopped:
                had, why = ("were timed before it was stopped", "it was stopped before its turn")
            self._too_short = f"{done} of {self.blocks} blocks {had}"
            for part in self.parts.values():
                if part.alive and not part.timings:
                    self._fail(part, UNTIMED, why)
        for part in self._timed():
            store.set_us(part.id, part.warm_us)

    def _warm_ends(self) -> float:
        """Some of the time is for what is timed beside the blocks."""
        now, more = self.run.clock.elapsed, self.cold or self.flight > 1
        return now + WARM_SHARE * (self.ends - now) if more and math.isfinite(self.ends) else self.ends

    def _time_block(self, block: int) -> bool:
        """Whether all had their turn before it was stopped."""
        for name in _turned(self._alive(), block):
            part = self.parts[name]
            if self.run.stopped:
                return False
            if part.side is None:
                continue
            known = part.timings[0].median if part.timings else 0.0
            timing = part.side.time(repetitions=1 if known > LONG_US else REPETITIONS)
            self.slowed |= self.throttle()
            if not timing.ok:
                self._fail(part, timing.failure or "run-error", timing.detail)
                continue
            part.timings.append(timing)
            self.run.session.store.record_timing(part.id, timing, phase="bench", block=block)
        return True

    def _time_beside(self, phase: Phase, take: Callable[[Side, float], Timing | None]) -> None:
        """Rounds of another timing, which knows how long the blocks took."""
        turns = Turns(self.run.clock, self.ends)
        for block in range(ROUNDS):
            if not turns.another() or self.run.clock.elapsed >= self.ends:
                break
            for name in _turned(self._alive(), block):
                part = self.parts[name]
                if part.side is None or not part.timings or self.run.stopped:
                    continue
                if (timing := take(part.side, part.warm_us)) is not None:
                    part.beside.setdefault(phase, []).append(timing.median)
                    self.run.session.store.record_timing(part.id, timing, phase=phase, block=block)

    # --- the end --------------------------------------------------------------------------------------------------

    def _rows(self, given: Given) -> ProblemRows:
        rows = []
        for part in self.parts.values():
            blocks = tuple(timing.median for timing in part.timings) if part.alive else ()
            seen = [timing.conditions for timing in part.timings if timing.conditions is not None]
            rows.append(
                replace(
                    part.row,
                    blocks_us=blocks,
                    cold_us=part.middle("cold"),
                    call_us=part.middle("call"),
                    how=self._how(part),
                    before=Sample.middle(one.before for one in seen),
                    sample=Sample.middle(one.after for one in seen),
                )
            )
        notes = (*self._warnings(rows), *([self._too_short] if self._too_short else []))
        for note in notes:
            self.run.account.note(note)
        return ProblemRows(given.described, tuple(rows), self.run.id, self.calls, notes)

    def _how(self, part: Part) -> str:
        """Of IREE's modules also how many calls were in flight, where that is not one as ever."""
        if self.flight == 1 or not isinstance(part.side, IreeSide) or not part.timings:
            return part.row.how
        return f"{part.row.how}, {count(part.flight, 'call')} in flight"

    def _fewer(self, part: Part) -> str:
        """That the device idled between calls, and why; empty where it did not."""
        if not isinstance(part.side, IreeSide) or part.flight >= self.flight:
            return ""
        states = {timing.conditions.state for timing in part.timings if timing.conditions is not None}
        why = "IREE's own tools made its calls" if "process" in states else "the device's memory holds no more"
        return f"{part.row.name} had {count(part.flight, 'call')} in flight, not {self.flight}: {why}"

    def _warnings(self, rows: Sequence[BackendRow]) -> list[str]:
        """What must be known of the device before two of the times are compared."""
        found = [f"the device was throttled by {reason}" for reason in sorted(self.slowed - {POWER})]
        if POWER in self.slowed:
            found.append(f"the device was at {POWER}: all were timed in that state")
        found += [note for part in self._timed() if (note := self._fewer(part))]
        began = {row.name: row.before.mhz for row in rows if row.before.mhz and row.blocks_us}
        if began and max(began.values()) > (1 + APART) * min(began.values()):
            clocks = ", ".join(f"{name} {mhz:.0f} MHz" for name, mhz in began.items())
            found.append(f"blocks did not begin in one state: {clocks}")
        return found

    def _open(self, name: str, kind: Kind, *, failure: str = "", reason: str = "", **known: Any) -> Part:
        row = BackendRow(name, **known)
        part = self.parts[name] = Part(row, self.run.candidate(kind, name))
        if failure:
            self._fail(part, failure, reason)
        return part

    def _fail(self, part: Part, failure: str, detail: str) -> None:
        part.row = replace(part.row, failure=failure, reason=failed_because(detail))
        self.run.session.store.record_failure(part.id, failure, stderr=detail)

    @property
    def _steady(self) -> bool:
        """On a GPU under lasting load each block begins with a warm-up of its own to a lasting state."""
        return not self.site.target.backend.on_host and self.run.options.state == "sustained"

    def _alive(self) -> list[str]:
        return [name for name, part in self.parts.items() if part.alive]

    def _timed(self) -> list[Part]:
        return [part for part in self.parts.values() if part.alive and part.timings]


def _proof(applied: int) -> str:
    return f", applied {applied} times" if applied > 1 else ", applied once" if applied else " alone"


def _turned(names: Sequence[str], block: int) -> list[str]:
    """Nobody is always first."""
    start = block % len(names) if names else 0
    return [*names[start:], *names[:start]]
