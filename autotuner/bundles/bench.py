"""The candidates of a bundle on a device: checked, timed and judged as any run does it, with modules that are there."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from autotuner.bundles.documents import Entry, Manifest, Taken, Tried
from autotuner.devices.device import INVOCATION_US, Device, Timing, choose_repeat
from autotuner.errors import DeviceError, OutOfTimeError
from autotuner.iree.run import failed_because
from autotuner.measure.cache_timer import NO_TIME, CacheTimer, Modules, cold_seconds, kept_for_cold
from autotuner.measure.caches import Caches
from autotuner.measure.calibrate import Calibration, Calibrator
from autotuner.measure.check import Check, Data
from autotuner.measure.finals import Finals
from autotuner.measure.judge import JudgePhase
from autotuner.measure.judgement import Judgement
from autotuner.measure.schedule import BeginningError, Schedule, beginning, late, longer
from autotuner.measure.screening import DRIFT_EVERY, DriftWatch, Measured, Screened, measure
from autotuner.measure.standing import BASELINE, Kind, Standing
from autotuner.system.progress import LATE_SECONDS, Clock, Reporter, Stop
from autotuner.system.text import count

if TYPE_CHECKING:  # there is no compiler here
    from autotuner.iree.compile import FailureClass

_AHEAD = 8
"""Modules that a driver may assemble before their turn."""
LOOK = "`iree-run-module --list_devices` lists the devices here; --device names one."
"""What a user does whose device does not answer, where there is nothing but IREE's runtime."""
_NOTHING = "the bundle has nothing but IREE's default"


@dataclass(frozen=True)
class Rung:
    """One of a candidate's modules. It was built and proven where the bundle was made."""

    vmfb: Path
    repeat: int
    ok: bool = True
    stderr: str = ""


@dataclass(frozen=True)
class Traveller:
    """A candidate of the bundle, and what became of it."""

    entry: Entry
    tried: Tried

    @property
    def id(self) -> str:
        return self.entry.id

    @property
    def kind(self) -> Kind:
        return self.entry.kind

    @property
    def route_name(self) -> str:
        return self.entry.route

    @property
    def label(self) -> str:
        return self.entry.label

    @property
    def complexity(self) -> int:
        return self.entry.complexity

    @property
    def failure(self) -> FailureClass | None:
        return self.tried.check.failure

    @property
    def duplicate_of(self) -> str | None:
        return None  # nobody's twin travels

    @property
    def error(self) -> float | None:
        return self.tried.check.error if math.isfinite(self.tried.check.error) else None

    @property
    def detail(self) -> str:
        return self.tried.check.detail

    @property
    def us(self) -> float | None:
        return self.tried.taken[0].timing.median if self.tried.taken else None

    @property
    def contends(self) -> bool:
        return self.failure is None and self.us is not None


@dataclass
class Bench:
    """A bundle's candidates, one after the other."""

    manifest: Manifest
    modules: Mapping[str, Path]
    device: Device
    on_cores: bool
    data: Data
    clock: Clock
    stop: Stop
    reporter: Reporter
    keep: Callable[[], None]
    """Writes down what there is so far."""
    outcomes: dict[str, Traveller] = field(default_factory=dict)
    """What is known already, of an interrupted run."""
    notes: list[str] = field(default_factory=list)
    screened: list[Screened] = field(default_factory=list)
    caches: Caches | None = None
    calibration: Calibration[Rung] = field(init=False)
    first_schedule: Schedule = field(init=False)
    """As it was when the default was timed."""

    @property
    def standing(self) -> Standing[Traveller]:
        return Standing(self.outcomes)

    def judged(self) -> Judgement:
        """All of it, as far as the time and the user let it."""
        try:
            self._calibrate()
        except BeginningError as error:
            raise OutOfTimeError(f"{late(error, self.clock)}.") from error
        try:
            if self.schedule.too_late and len(self.manifest.entries) > 1:
                return self._inconclusive(self.schedule.too_short())
            self._screen()
            if self.stop.requested:
                return self._inconclusive("interrupted before the race")
            self.keep()
            judgement = self._finals().judged()
            self._time_caches(judgement)
        except OutOfTimeError:
            return self._inconclusive(f"the time was up: {longer(2 * self.clock.budget)}")
        return judgement

    def _inconclusive(self, reason: str) -> Judgement:
        stock = self.standing.stock
        return Judgement("inconclusive", reason, stock.id if stock else BASELINE)

    # --- IREE's default -------------------------------------------------------------------------------------------

    def _calibrate(self) -> None:
        """The default says how long modules must be, and what timings take; then it is a candidate like others."""
        manifest, base, left = self.manifest, self.manifest.baseline, self.clock.left
        self.reporter.stage("timing IREE's default")
        calibrator = Calibrator(
            lambda repeat, known: _kept(known, self._rung(base, repeat)),
            self.device,
            self.data,
            manifest,
            {"time": 0.0},
            on_cores=self.on_cores,
            look=LOOK,
            cache="cold" if manifest.cache == "cold" else "warm",
        )
        self.calibration = found = calibrator.calibrated(calibrator.first_build())
        if found.noise is not None:
            self._note(found.noise)
        cold = kept_for_cold(self._cold_seconds, left)
        self.first_schedule = found.schedule(self.clock, manifest, shipping=cold)
        earlier = self.outcomes.pop(BASELINE, None)
        with beginning("timing it", follows=1.0):
            measured = measure(found, found.baseline, best_us=math.inf, drift=False)
        self._settle(base, measured)
        default = self.outcomes[BASELINE]
        if default.us is None:
            raise DeviceError(
                f"the bundle's default cannot be timed on {self.device.uri!r}: {failed_because(default.detail)}",
                remedy=LOOK,
            )
        default.tried.taken.append(Taken.of("drift", 0, found.heard))
        default.tried.taken.extend(earlier.tried.taken if earlier else ())
        if self.standing.words:
            self._note(self.standing.words)

    @property
    def schedule(self) -> Schedule:
        """By what the default takes and the best so far."""
        baseline = self.outcomes[BASELINE].us or 0.0
        return self.first_schedule.ahead(baseline_us=baseline, best_us=self._best_us)

    # --- candidates -----------------------------------------------------------------------------------------------

    def _rung(self, entry: Entry, repeat: int) -> Rung:
        """The shortest module that repeats so often, or the longest there is."""
        known = sorted(entry.modules)
        chosen = next((one for one in known if one >= repeat), known[-1])
        return Rung(self.modules[entry.modules[chosen]], chosen)

    def _screen(self) -> None:
        """Each once, the stock routes first, as long as the end keeps its time."""
        known = len(self.outcomes)
        left, rivals = self.clock.left, [one for one in self.manifest.entries if one.id not in self.outcomes]
        watch, repeat = DriftWatch(), self.calibration.repeat
        rungs = [self._rung(entry, repeat) for entry in rivals]
        for rung in rungs[:_AHEAD]:
            self.device.prepare(rung.vmfb)
        again = f", {known - 1} are known" if known > 1 else ""
        self.reporter.stage(f"timing {count(len(rivals), 'candidate')}{again}")
        for number, (entry, rung) in enumerate(zip(rivals, rungs, strict=True)):
            if self.stop.requested:
                return
            if self._over(left):
                missed = f"{len(rivals) - number} of the bundle's {len(self.manifest.entries) - 1} candidates"
                self._note(f"there was no time for {missed}")
                return
            for ahead in rungs[number + _AHEAD : number + _AHEAD + 1]:
                self.device.prepare(ahead.vmfb)
            self._settle(entry, measure(self.calibration, rung, best_us=self._best_us, drift=watch.due()))
            if (number + 1) % DRIFT_EVERY == 0:
                self.keep()

    def _over(self, left: float) -> bool:
        """With nothing to race against the default, nothing is kept: what is timed late is at least known then."""
        if self.clock.left >= self.schedule.reserve(left):
            return False
        rival = any(one.id != BASELINE for one in self.standing.right)
        return rival or self.clock.left < 0

    @property
    def _best_us(self) -> float:
        return min((one.us or math.inf for one in self.standing.right), default=math.inf)

    def _settle(self, entry: Entry, measured: Measured) -> None:
        """Notes down what the device said; IREE's default is timed, right or wrong."""
        check, timing = measured.check, measured.timing
        if timing is not None and timing.failure is not None:
            check, timing = Check(timing.failure, math.inf, timing.detail), None
        tried = Tried.of(entry.id, check, [Taken.of("screen", 0, timing)] if timing is not None else [])
        self.outcomes[entry.id] = Traveller(entry, tried)
        if timing is not None:
            self.screened.append(Screened(entry.id, timing.median))
        if measured.drift is not None and measured.drift.ok:
            self._settle_drift(measured.drift)

    def _settle_drift(self, timing: Timing) -> None:
        default = self.outcomes[BASELINE]
        self.screened.append(Screened(BASELINE, timing.median))
        default.tried.taken.append(Taken.of("drift", len(self.screened), timing))
        if default.us is not None and (said := DriftWatch.words(timing.median / default.us)) is not None:
            self.reporter.note(said)

    # --- the verdict ----------------------------------------------------------------------------------------------

    def _finals(self) -> Finals[Traveller]:
        def lasting(names: Sequence[str]) -> dict[str, Rung]:
            return {name: self._long(name) for name in names}

        entries = len(self.manifest.entries)
        return Finals(
            self.outcomes,
            self.screened,
            self.calibration,
            self.manifest,
            schedule=self.schedule,
            stop=self.stop,
            seed=self.manifest.seed,
            reporter=self.reporter,
            record=self._record,
            last=lasting,
            whole=len(self.outcomes) == entries,
            missed=entries - len(self.outcomes),
            no_knobs=_NOTHING if entries == 1 else "",
        )

    def _long(self, name: str, invocation_us: float = INVOCATION_US) -> Rung:
        """A module that lasts long enough, and no longer; a cold cache is timed on single calls."""
        outcome = self.outcomes[name]
        cold = self.calibration.benchmark.cache == "cold"
        repeat = 1 if cold else choose_repeat(outcome.us or INVOCATION_US, invocation_us=invocation_us)
        return self._rung(outcome.entry, repeat)

    def _record(self, phase: JudgePhase, name: str, block: int, timing: Timing) -> None:
        self.outcomes[name].tried.taken.append(Taken.of(phase, block, timing))

    # --- a cold cache ---------------------------------------------------------------------------------------------

    @property
    def _cold_seconds(self) -> float:
        wanted = self.manifest.cache != "warm"
        return cold_seconds(self.device, self.calibration.timing_seconds) if wanted else 0.0

    def _time_caches(self, judgement: Judgement) -> None:
        """The default and the best with a warm and with a cold cache, where that is wanted and there is time."""
        if not self._cold_seconds or judgement.verdict == "inconclusive" or self.stop.requested:
            return
        if self.clock.left + LATE_SECONDS < self._cold_seconds:
            self._note(NO_TIME)
            return
        self.reporter.stage("timing with a cold cache")
        base, best = self.standing.base, self.standing.fastest(judgement)
        baseline = base.id if base else BASELINE
        names = dict.fromkeys([baseline, *([best.id] if best else [])])
        modules = {name: self._once_and_often(self.outcomes[name]) for name in names}

        def record(name: str, block: int, timing: Timing) -> None:
            self.outcomes[name].tried.taken.append(Taken.of("cold", block, timing))

        timer = CacheTimer(self.device, self.calibration.benchmark, record)
        self.caches, notes = timer.tell(modules, baseline=baseline, won=judgement.winner is not None)
        for note in notes:
            self._note(note)

    def _once_and_often(self, outcome: Traveller) -> Modules:
        often = choose_repeat(outcome.us or 1.0, invocation_us=2 * self.device.invocation_us)
        return Modules(self._rung(outcome.entry, 1), self._rung(outcome.entry, often))

    def _note(self, text: str) -> None:
        self.notes.append(text)
        self.reporter.note(text)


def _kept(known: Rung | None, found: Rung) -> Rung:
    """What is there, where it is the same: a calibration sees that nothing is longer."""
    return known if known == found else found
