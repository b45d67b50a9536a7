"""A route's tuned dispatches in the whole model: proven one by one, right as a whole, and each faster there too."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from autotuner.build.ship import write_parts
from autotuner.carriers.carrier import Parts
from autotuner.carriers.outputs import MODEL, Outputs
from autotuner.devices.device import Timing
from autotuner.iree.benchmark import benchmark_command
from autotuner.iree.compile import Compiled, first_error, shell_line
from autotuner.iree.folder import SPEC
from autotuner.jobs.model.dispatches import Dispatches
from autotuner.jobs.model.entries import Entry, applied, assemble
from autotuner.jobs.model.kernels import KernelEntry
from autotuner.jobs.model.leave_out import E, LeaveOut
from autotuner.jobs.model.routes import RouteOutcome, RouteRace
from autotuner.measure.contest import TimingFailed
from autotuner.measure.schedule import PAIRS
from autotuner.programs.shares import Shares, from_statistics, repeated
from autotuner.programs.structure import ModelStructure
from autotuner.system import process
from autotuner.system.files import write_whole
from autotuner.system.text import count

_READINGS = 3
_FAR = 4.0
"""Times the other's: a model that is so much slower is read once."""
_TURNS = 3
"""How often two models are timed where one of them is taken."""


@dataclass(frozen=True)
class Tuned:
    """What tuning made of a route."""

    tried: RouteOutcome
    name: str
    entries: tuple[Entry, ...]
    parts: Parts
    build: Compiled
    error: float | None
    row: int
    kernels: tuple[KernelEntry, ...] = ()
    us: float | None = None
    """As it was timed last, before any race."""

    @property
    def by_flags(self) -> bool:
        """It is a route as it is: nothing but its flagfile ships."""
        return not (self.entries or self.kernels)

    @property
    def complexity(self) -> int:
        """A spec is a file to keep and to renew; a microkernel is code of one's own."""
        kernels = 100 + len(self.kernels) if self.kernels else 0
        return 100 + len(self.entries) + kernels


@dataclass
class WholeModel:
    """Puts entries into the model and takes out again what does not hold up there."""

    dispatches: Dispatches
    tried: RouteOutcome
    race: RouteRace | None
    """How outputs are compared; None without a device."""
    racing: float = 0.0
    """Seconds that are kept for the race."""

    def make(self, entries: Sequence[Entry]) -> Tuned | None:
        """The tuned model, or None when nothing of it is left."""
        context = self.dispatches.context
        name = f"tuned-{self.tried.route.name}"
        context.stage(f"compiling the model with {count(len(entries), 'entry')} on route {self.tried.route.name}")
        kept, row = list(entries), context.row("codegen", self.tried.route)
        while kept:
            parts, build = self.build(kept, name)
            if not build.ok:
                context.session.store.record_failure(row, build.failure or "", stderr=build.stderr)
                self._drop(kept, f"the model does not compile with it: {first_error(build.stderr, most=160)}")
                return None
            left_out = self._unproven(kept, build) or self._slower(kept, build)
            if not left_out:
                error, wrong = self.check(build, row)
                if wrong:
                    self._drop(kept, wrong)
                    return None
                return Tuned(self.tried, name, tuple(kept), parts, build, error, row)
            kept = [entry for entry in kept if entry.label not in left_out]
        context.session.store.record_failure(row, "not-applied", stderr="no entry was left")
        return None

    def build(
        self,
        entries: Sequence[Entry],
        name: str,
        *,
        structure: ModelStructure | None = None,
        kernels: Parts | None = None,
    ) -> tuple[Parts, Compiled]:
        """The model with these entries, and with microkernels where `structure` is the model's with these."""
        context = self.dispatches.context
        folder = context.folder / name
        parts = assemble(
            entries,
            (structure or self.dispatches.structure).configured,
            tools=context.session.tools,
            command=self.command,
            spec_flag=context.target.spec_flag,
        )
        if kernels is not None:
            parts = parts.with_kernels(kernels)
        flags = [*context.flags(self.tried.route), *write_parts(self.files(name), parts)]
        with context.clocked("build"):
            build = context.builder.build_fresh(flags, folder=folder, timeout=context.compile_timeout)
        lines = [shell_line(context.builder.command(flags, vmfb=build.vmfb))]
        if self.race is not None:
            session, benchmark = context.session, self.race.benchmark
            lines.append(shell_line(benchmark_command(session.tools, build.vmfb, benchmark, device=session.device)))
        write_whole(folder / "command.txt", "\n".join(lines) + "\n")
        write_whole(folder / "stderr.txt", build.stderr)
        return parts, build

    def files(self, name: str) -> Outputs:
        """Those of a model that is tried, in a folder of its own."""
        folder = self.dispatches.context.folder / name
        return Outputs(folder / SPEC, MODEL, folder / "written.json")

    @property
    def command(self) -> str:
        return shell_line(["autotune", *self.dispatches.context.options.command[1:]])

    def _unproven(self, entries: Sequence[Entry], build: Compiled) -> set[str]:
        """Entries that are nowhere in the compiled model."""
        out = set()
        for entry in entries:
            count, why = applied(build, entry)
            self.dispatches.set_row(entry.label, applied=count)
            if not count:
                out.add(entry.label)
                self._drop([entry], f"it does not apply in the model: {why}")
        return out

    def _slower(self, entries: Sequence[Entry], build: Compiled) -> set[str]:
        """Entries whose dispatches take longer within the model than without them, where the runtime can tell."""
        before, after = self.readings(self.tried.build, build)
        if before is None or after is None:
            return self._losing(entries, build)
        out = set()
        for entry in entries:
            exports = [piece.export for piece in entry.group.pieces]
            old, new = (sum(reading.us.get(name, 0.0) for name in exports) for reading in (before, after))
            if new >= old > 0:
                out.add(entry.label)
                self._drop([entry], f"within the model it takes {new:.1f} µs, without it {old:.1f} µs")
        return out

    def _losing(self, entries: Sequence[Entry], build: Compiled) -> set[str]:
        """The same where the runtime tells nothing: entries without which the whole model is faster."""
        context, race, untuned = self.dispatches.context, self.race, self.tried.build
        if race is None or untuned is None:
            return set()
        context.stage("looking for entries that lose inside the model")
        name = f"without-{self.tried.route.name}"
        lost = self.losers(entries, build, untuned, lambda some: self.build(some, name)[1])
        shutil.rmtree(context.folder / name, ignore_errors=True)
        for entry in entries:
            if entry.label in lost:
                self._drop([entry], lost[entry.label])
        return {*lost}

    def has_time(self, compiling: float) -> bool:
        """For a compile that takes so many seconds, before the race begins."""
        return self.race is None or self.dispatches.context.clock.left - self.racing > compiling

    def losers(
        self, members: Sequence[E], tuned: Compiled, without: Compiled, build: Callable[[Sequence[E]], Compiled]
    ) -> dict[str, str]:
        """Those without which the whole model is faster, and why; `without` is the model with none of them."""
        context, race = self.dispatches.context, self.race
        if race is None:
            return {}
        benchmark = race.benchmark

        def timed(module: Compiled) -> Timing:
            with context.clocked("time"):
                timing = context.session.runner.time(module, benchmark)
            if not timing.ok:
                raise TimingFailed(timing.detail)
            return timing

        def has_time(compiling: float) -> bool:
            needed = 2 * compiling + 2 * PAIRS * context.timing_seconds
            return not context.session.stop.requested and context.clock.left - self.racing > needed

        return LeaveOut(without, build, timed, has_time, context.options.seed).losers(members, tuned)

    def readings(self, untuned: Compiled | None, build: Compiled) -> tuple[Shares | None, Shares | None]:
        """The dispatches of a model without and with what was tuned, read in turns.

        Where the one without is far slower, its first reading tells as much: of a ResNet-50 on route `plain` each
        takes seconds.
        """
        context = self.dispatches.context
        if self.race is None or untuned is None:
            return None, None
        old: list[Shares] = []
        new: list[Shares] = []
        for _ in range(_READINGS):
            for module, readings in ((untuned, old), (build, new)):
                if readings is old and old and old[0].total > _FAR * new[0].total:
                    continue
                found = from_statistics(context.statistics(module.vmfb, self.race.call))
                if found is None:
                    return None, None
                readings.append(found)
        return repeated(old), repeated(new)

    def timed(self, made: Tuned) -> Tuned:
        """With its time, as far as it can be compared with those of the routes.

        They were timed when the machine was busier, or less busy: what counts is how it does in turns with the best.
        """
        race = self.race
        if race is None:
            return made
        best = min((t for t in race.tried if t.ok and t.build), key=lambda t: t.us or math.inf, default=None)
        beside = best.build if best is not None and best.build is not None else made.build
        own, others = self._in_turns(made.build, beside)
        if own is None or others is None:
            return made
        self.dispatches.context.session.store.record_timing(made.row, own, phase="screen", block=0)
        now = own.median / others.median
        return replace(made, us=now * best.us if best is not None and best.us is not None else own.median)

    def faster(self, one: Compiled, other: Compiled) -> Compiled:
        """Of two models, by the least of a few timings in turns; without a device the other."""
        with process.however_late():
            own, others = self._in_turns(one, other)
        us, other_us = (timing.median if timing is not None else math.inf for timing in (own, others))
        return one if us < other_us else other

    def _in_turns(self, one: Compiled, other: Compiled) -> tuple[Timing | None, Timing | None]:
        """The least of a few timings of each; None where it cannot be timed."""
        context, race = self.dispatches.context, self.race
        found: dict[Path, Timing] = {}
        if race is None:
            return None, None
        with context.clocked("time"):
            for module in (one, other) * _TURNS:
                timing = context.session.runner.time(module, race.benchmark)
                least = found.get(module.vmfb, timing)
                if timing.ok and timing.median <= least.median:
                    found[module.vmfb] = timing
        return found.get(one.vmfb), found.get(other.vmfb)

    def check(self, build: Compiled, row: int) -> tuple[float | None, str]:
        """How far the outputs are from the untuned model's, and what is wrong with them."""
        if self.race is None:
            return None, ""
        store = self.dispatches.context.session.store
        check = self.race.check(build)
        if check.failure is not None:
            store.record_failure(row, check.failure, stderr=check.detail)
            return None, f"the model's outputs are not the untuned one's: {check.detail}"
        store.record_check(row, error=check.error)
        return check.error if math.isfinite(check.error) else None, ""

    def _drop(self, entries: Sequence[Entry], why: str) -> None:
        for entry in entries:
            self.dispatches.set_row(entry.label, state="dropped", reason=why)
            self.dispatches.context.note(f"{entry.label} is left out: {why}")
