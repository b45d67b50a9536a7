"""Checks, times and judges the candidates of a bundle as any run does, with modules that are built."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from autotuner.bundles.documents import CandidateRecord, Entry, Manifest, TimingRecord
from autotuner.devices.device import INVOCATION_US, Device, Timing, choose_repeat
from autotuner.errors import DeviceError, OutOfTimeError
from autotuner.iree.run import failed_because
from autotuner.measure.calibrate import Calibration, Calibrator
from autotuner.measure.check import Check, Data
from autotuner.measure.clock import Clock
from autotuner.measure.finals import Finals
from autotuner.measure.judge import JudgePhase
from autotuner.measure.judgement import Judgement
from autotuner.measure.schedule import BeginningError, Schedule, beginning, late
from autotuner.measure.screening import Measured, measure
from autotuner.measure.standing import BASELINE, Standing
from autotuner.system.progress import Reporter, Stop
from autotuner.system.text import count

if TYPE_CHECKING:  # there is no compiler here
    from autotuner.iree.compile import FailureClass

LOOK = "`iree-run-module --list_devices` lists the devices here; --device names one."
"""The advice for a device that does not answer, on a machine with IREE's runtime only."""
_NOTHING = "the bundle has nothing but IREE's default"


@dataclass(frozen=True)
class BundledModule:
    """One of a candidate's modules. It was built and proven where the bundle was made."""

    vmfb: Path
    repeat: int
    ok: bool = True
    stderr: str = ""


@dataclass(frozen=True)
class BundledCandidate(Entry):
    """A candidate of the bundle, with its results."""

    tried: CandidateRecord

    duplicate_of = None
    """A bundle has no duplicates."""

    @property
    def foreign(self) -> bool:
        """Whether it is a microkernel, whose author is unknown here."""
        return self.kind == "microkernel"

    @property
    def route_name(self) -> str:
        return self.route

    @property
    def failure(self) -> FailureClass | None:
        return self.tried.failure

    @property
    def error(self) -> float | None:
        return self.tried.error

    @property
    def us(self) -> float | None:
        return self.tried.taken[0].timing.median if self.tried.taken else None

    @property
    def contends(self) -> bool:
        return self.failure is None and self.us is not None


@dataclass
class Bench:
    """Runs a bundle's candidates, one after the other."""

    manifest: Manifest
    modules: Mapping[str, Path]
    device: Device
    on_cores: bool
    data: Data
    clock: Clock
    stop: Stop
    reporter: Reporter
    outcomes: dict[str, BundledCandidate] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    calibration: Calibration[BundledModule] = field(init=False)
    first_schedule: Schedule = field(init=False)
    """The schedule when the default was timed."""

    @property
    def standing(self) -> Standing[BundledCandidate]:
        return Standing(self.outcomes)

    def judged(self) -> Judgement:
        """Checks, times and judges as far as the time allows; KeyboardInterrupt where the user ends it."""
        try:
            self._calibrate()
        except BeginningError as error:
            raise OutOfTimeError(f"{late(error, self.clock)}.") from error
        try:
            if self.schedule.too_late() and len(self.manifest.entries) > 1:
                return self._inconclusive(self.schedule.too_short())
            self._screen()
            judgement = self._finals().judged()
        except OutOfTimeError:
            return self._inconclusive(f"ran out of time. {self.clock.longer()}")
        if self.stop.requested:
            raise KeyboardInterrupt
        return judgement

    def _inconclusive(self, reason: str) -> Judgement:
        stock = self.standing.stock
        return Judgement("inconclusive", reason, stock.id if stock else BASELINE)

    # --- IREE's default -------------------------------------------------------------------------------------------

    def _calibrate(self) -> None:
        """Times IREE's default, which gives the repeats and the length of timings."""
        manifest, base = self.manifest, self.manifest.baseline
        self.reporter.stage("timing IREE's default")
        calibrator = Calibrator(
            lambda repeat, known: _kept(known, self._module(base, repeat)),
            self.device,
            self.data,
            manifest,
            {"time": 0.0},
            on_cores=self.on_cores,
            look=LOOK,
        )
        self.calibration = found = calibrator.calibrated(calibrator.first_build())
        self.first_schedule = found.schedule(self.clock, manifest)
        with beginning("timing it"):
            measured = measure(found, found.baseline, best_us=math.inf)
        self._settle(base, measured)
        default = self.outcomes[BASELINE]
        if default.us is None:
            raise DeviceError(
                f"the bundle's default cannot be timed on {self.device.uri!r}: {failed_because(default.tried.detail)}",
                remedy=LOOK,
            )
        default.tried.taken.append(TimingRecord.of("drift", 0, found.heard))
        if self.standing.words:
            self._note(self.standing.words)

    @property
    def schedule(self) -> Schedule:
        """The schedule, by the times of the default and the best so far."""
        baseline = self.outcomes[BASELINE].us or 0.0
        return self.first_schedule.ahead(baseline_us=baseline, best_us=self._best_us)

    # --- candidates -----------------------------------------------------------------------------------------------

    def _module(self, entry: Entry, repeat: int) -> BundledModule:
        """The module with at least so many repeats, or the one with most."""
        known = sorted(entry.modules)
        chosen = next((one for one in known if one >= repeat), known[-1])
        return BundledModule(self.modules[entry.modules[chosen]], chosen)

    def _screen(self) -> None:
        """Times each candidate once, the stock routes first, while the time for a verdict is kept."""
        rivals = self.manifest.rivals
        self.first_schedule = self.schedule.opened()
        self.reporter.stage(f"timing {count(len(rivals), 'candidate')}")
        for number, entry in enumerate(rivals):
            if self.stop.requested:
                raise KeyboardInterrupt
            rival = any(one.id != BASELINE for one in self.standing.right)
            if not self.clock.fits(0.0, before=self.schedule.search_ends(rival=rival, awaited=False)):
                self._note(f"there was no time for {len(rivals) - number} of the bundle's {len(rivals)} candidates")
                return
            module = self._module(entry, self.calibration.repeat)
            self._settle(entry, measure(self.calibration, module, best_us=self._best_us))

    @property
    def _best_us(self) -> float:
        return min((one.us or math.inf for one in self.standing.right), default=math.inf)

    def _settle(self, entry: Entry, measured: Measured) -> None:
        """Records the check and the timing; IREE's default is timed, right or wrong."""
        check, timing = measured.check, measured.timing
        if timing is not None and timing.failure is not None:
            check, timing = Check(timing.failure, math.inf, timing.detail), None
        tried = CandidateRecord.of(
            entry.id, check, [TimingRecord.of("screen", 0, timing)] if timing is not None else []
        )
        self.outcomes[entry.id] = BundledCandidate(**vars(entry), tried=tried)

    # --- the verdict ----------------------------------------------------------------------------------------------

    def _finals(self) -> Finals[BundledCandidate]:
        entries = len(self.manifest.entries)
        return Finals(
            self.outcomes,
            self.calibration,
            self.manifest,
            schedule=self.schedule,
            stop=self.stop,
            seed=self.manifest.seed,
            reporter=self.reporter,
            record=self._record,
            last=lambda names: {name: self._long(self.outcomes[name]) for name in names},
            once=lambda names: {name: self._module(self.outcomes[name], 1) for name in names},
            whole=len(self.outcomes) == entries,
            missed=entries - len(self.outcomes),
            no_knobs=_NOTHING if entries == 1 else "",
        )

    def _long(self, one: BundledCandidate) -> BundledModule:
        """A module that lasts long enough, and no longer."""
        return self._module(one, choose_repeat(one.us or INVOCATION_US))

    def _record(self, phase: JudgePhase, name: str, block: int, timing: Timing) -> None:
        self.outcomes[name].tried.taken.append(TimingRecord.of(phase, block, timing))

    def _note(self, text: str) -> None:
        self.notes.append(text)
        self.reporter.note(text)


def _kept(known: BundledModule | None, found: BundledModule) -> BundledModule:
    """The known module where both are equal, so that the calibration sees that none is longer."""
    return known if known == found else found
