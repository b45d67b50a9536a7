"""A bundle on the machine with the device: checked, timed, raced, judged. IREE's runtime and numpy suffice."""

from __future__ import annotations

import platform
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from autotuner.bundles.documents import BASELINE, Entry, Manifest, Report, Taken, Tried
from autotuner.devices.device import INVOCATION_US, Device, Timing, choose_repeat, screen
from autotuner.devices.environment import capture
from autotuner.devices.opening import open_device
from autotuner.devices.process import ProcessDevice
from autotuner.errors import DeviceError, EnvironmentFailure, OutOfTimeError, UsageError, WrongResultError
from autotuner.iree.benchmark import Benchmark
from autotuner.iree.run import failed_because
from autotuner.iree.tools import RuntimeTools
from autotuner.measure.check import Check, Checker, Data
from autotuner.measure.judge import Contest, Judgement, JudgePhase, judge, timed_by
from autotuner.measure.noise import lengthened
from autotuner.measure.race import Entrant, Rules
from autotuner.measure.shortlist import Screened, pick_for_race
from autotuner.measure.timeplan import CALLS, Pace, TimePlan, longer
from autotuner.problems import Problem
from autotuner.problems.named import problem_named
from autotuner.system import process
from autotuner.system.locks import device_lock
from autotuner.system.progress import Clock, Reporter, Stop
from autotuner.system.settings import cache_dir
from autotuner.targets import Target

_LISTENED = 5
"""Repetitions of the baseline against itself."""
_ON_GPU = 0.5
"""Of a repetition's length: a device that nothing else runs on spreads less."""
_DRIFT_EVERY = 10
"""Candidates after which the baseline is timed once more."""


@dataclass(frozen=True)
class Rung:
    """One of a candidate's modules."""

    vmfb: Path
    repeat: int


@dataclass(frozen=True)
class Fit:
    """A bundle that this machine can run."""

    manifest: Manifest
    problem: Problem
    target: Target
    tools: RuntimeTools


def fitting(manifest: Manifest, *, file: Path) -> Fit:
    """The bundle, or a refusal that says what is another here: the runtime, the chip."""
    target = Target.parse(manifest.target)
    tools = RuntimeTools.installed(compiled_by=manifest.iree)
    if tools.runtime_release != manifest.iree:
        raise EnvironmentFailure(
            f"{file} was built by IREE {manifest.iree}, and iree-base-runtime here is {tools.runtime_release}.",
            remedy=f"Install iree-base-runtime=={manifest.iree}, or build the bundle anew.",
        )
    _refuse_chip(manifest, target, tools, file)
    known = problem_named(manifest.problem)
    if known is None:
        raise UsageError(f"{file} is of {manifest.problem!r}, which is no problem.", remedy="Build the bundle anew.")
    problem = target.prepare(known.allowing(manifest.allow or None))
    return Fit(manifest, problem, target, tools)


def _refuse_chip(manifest: Manifest, target: Target, tools: RuntimeTools, file: Path) -> None:
    if target.backend.on_host:
        fits, here = manifest.chip in (tools.processor, platform.machine()), f"this {platform.machine()} processor"
        wanted = "another processor" if manifest.chip.startswith(platform.machine()) else manifest.chip
    else:
        there = target.backend.chip_there()
        fits, here, wanted = there is None or _runs_on(there, target), there or "", target.name
    if not fits:
        raise EnvironmentFailure(
            f"{file} is built for {wanted}, and this machine has {here}.",
            remedy="Run it where that chip is, or build a bundle for this one with --target.",
        )


def _runs_on(chip: str, target: Target) -> bool:
    """The very chip; of those whose driver compiles the code itself, a newer one too."""
    if not target.backend.assembled_on_load:
        return chip == target.name
    prefix = target.backend.chip_prefix
    numbers = [name.removeprefix(prefix) for name in (chip, target.name)]
    return all(text.isdecimal() for text in numbers) and int(numbers[0]) >= int(numbers[1])


def run_bundle(
    fit: Fit,
    modules: dict[str, Path],
    folder: Path,
    *,
    bundle: str,
    device: str | None,
    budget: float | None,
    reporter: Reporter,
) -> Report:
    """All of it: `folder` is where inputs and results are written, and it goes afterwards."""
    clock, stop = Clock(budget or fit.manifest.budget), Stop()
    uri = fit.target.choose_device(device)
    quickly = fit.target.compiles_on_device
    with device_lock(uri, cache_dir(), on_wait=reporter.note):
        clock = replace(clock, started=time.monotonic())
        environment = capture(uri, fit.tools).as_dict()
        alone = ProcessDevice(fit.tools, uri, folder, starts_quickly=quickly)
        with open_device(alone, isolate=False) as opened, process.until(clock.latest):
            opened.open()
            reporter.stage("computing the right answers")
            data = Data.write(fit.problem, folder / "inputs", seed=fit.manifest.seed)
            sitting = _Bench(fit, modules, opened, data, clock, stop, reporter)
            judgement = sitting.judged()
    return Report(
        bundle=bundle,
        device=uri,
        environment=environment,
        tried=tuple(sitting.tried.values()),
        judgement=judgement,
        seconds=round(clock.elapsed, 3),
        notes=tuple(sitting.notes),
    )


@dataclass
class _Bench:
    """The candidates of a bundle on a device, one after the other."""

    fit: Fit
    modules: dict[str, Path]
    device: Device
    data: Data
    clock: Clock
    stop: Stop
    reporter: Reporter
    tried: dict[str, Tried] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    screened: list[Screened] = field(default_factory=list)
    benchmark: Benchmark = field(init=False)
    checker: Checker = field(init=False)
    us: dict[str, float] = field(default_factory=dict)
    """Of those that are right and timed."""

    @property
    def manifest(self) -> Manifest:
        return self.fit.manifest

    def judged(self) -> Judgement:
        plan = self._calibrated()
        try:
            self._screen(plan)
            return self._judge(plan)
        except OutOfTimeError:
            return Judgement("inconclusive", f"the time was up: {longer(2 * self.clock.budget)}", BASELINE)

    # --- IREE's default -------------------------------------------------------------------------------------------

    def _calibrated(self) -> TimePlan:
        """The default must run and be right; it says how long modules must be, and what timings take."""
        manifest, device, base = self.manifest, self.device, self.manifest.baseline
        self.reporter.stage("timing IREE's default")
        lasting = manifest.repetition_seconds * (1.0 if self.fit.target.compiles_on_device else _ON_GPU)
        self.benchmark = Benchmark(self.data.invocation(), lasting, manifest.run_timeout)
        self.checker = self.data.checker(device, timeout=manifest.run_timeout)
        rung = self._rung(base, 1)
        check = self._default_is_right(rung)
        heard = self._heard(rung, repetitions=1)
        # What a single call takes is mostly overhead: how often to repeat shows only when it is repeated.
        while (longer_one := self._lasting(base, heard.median, 2 * device.invocation_us)).repeat > rung.repeat:
            rung = longer_one
            heard = self._heard(rung, repetitions=1)
        began = self.clock.elapsed
        heard = self._heard(rung, repetitions=_LISTENED)
        seconds = self.clock.elapsed - began
        self.benchmark, noise = lengthened(self.benchmark, heard, smallest_gain=manifest.smallest_gain)
        if noise:
            self._note(noise)
        self.tried[BASELINE] = Tried(BASELINE, check)
        self._settle(base, heard)
        began = self.clock.elapsed
        device.isolated.time(self._lasting(base, heard.median, INVOCATION_US), self.benchmark)
        confirm = self.clock.elapsed - began
        race = seconds + CALLS * INVOCATION_US / 1e6
        return TimePlan(
            Pace(race, race),
            Pace(confirm, confirm),
            rivals=manifest.race_entrants,
            screens=True,
            blocks=manifest.confirm_blocks,
            stock=any(one.kind == "stock" for one in manifest.entries),
        )

    def _default_is_right(self, rung: Rung) -> Check:
        check = self.checker.check(rung.vmfb)
        if check.failure in ("run-error", "run-timeout"):
            raise DeviceError(
                f"device {self.device.uri!r} does not run the bundle's default: {failed_because(check.detail)}",
                remedy=f"Is it a {self.manifest.target}? `iree-run-module --list_devices` lists the devices here.",
            )
        if check.failure is not None:
            raise WrongResultError(
                f"IREE's default already computes wrong results here ({check.detail}).",
                remedy="Nothing can be tuned against it: please report it to IREE.",
            )
        return check

    def _heard(self, rung: Rung, *, repetitions: int) -> Timing:
        timing = self.device.time(rung, self.benchmark, repetitions=repetitions)
        if not timing.ok:
            raise DeviceError(
                f"the bundle's default cannot be timed on {self.device.uri!r}: {failed_because(timing.detail)}",
                remedy="`iree-run-module --list_devices` lists the devices here.",
            )
        return timing

    # --- candidates -----------------------------------------------------------------------------------------------

    def _rung(self, entry: Entry, repeat: int) -> Rung:
        """The shortest module that repeats so often, or the longest there is."""
        known = sorted(entry.modules)
        chosen = next((one for one in known if one >= repeat), known[-1])
        return Rung(self.modules[entry.modules[chosen]], chosen)

    def _lasting(self, entry: Entry, us: float, invocation_us: float) -> Rung:
        return self._rung(entry, choose_repeat(us, invocation_us=invocation_us))

    def _screen(self, plan: TimePlan) -> None:
        """Each once, the stock routes first, as long as the end keeps its time."""
        rivals = [one for one in self.manifest.entries if one.id != BASELINE]
        kept = plan.reserve(self.clock.left)
        self.reporter.stage(f"timing {len(rivals)} candidates")
        for number, entry in enumerate(rivals, start=1):
            if self.clock.left < kept:
                self._note(f"there was no time for {len(rivals) - number + 1} of the bundle's {len(rivals)} candidates")
                return
            self._measure(entry)
            if number % _DRIFT_EVERY == 0:
                base = self.manifest.baseline
                timing = self.device.time(self._lasting(base, self.us[BASELINE], self._twice), self.benchmark)
                if timing.ok:
                    self.screened.append(Screened(BASELINE, timing.median))
                    self.tried[BASELINE].taken.append(Taken("drift", number, timing))

    @property
    def _twice(self) -> float:
        """Twice the shortest invocation: a candidate of twice the baseline's speed still lasts long enough."""
        return 2 * self.device.invocation_us

    def _measure(self, entry: Entry) -> None:
        rung = self._lasting(entry, self.us[BASELINE], self._twice)
        check = self.checker.check(rung.vmfb)
        self.tried[entry.id] = Tried(entry.id, check)
        if not check.ok:
            return
        timing = screen(self.device, rung, self.benchmark, best_us=min(self.us.values()))
        if timing.failure is not None:
            self.tried[entry.id] = Tried(entry.id, Check(timing.failure, check.error, timing.detail))
            return
        self._settle(entry, timing)

    def _settle(self, entry: Entry, timing: Timing) -> None:
        self.us[entry.id] = timing.median
        self.screened.append(Screened(entry.id, timing.median))
        self.tried[entry.id].taken.append(Taken("screen", 0, timing))

    # --- the verdict ----------------------------------------------------------------------------------------------

    def _judge(self, plan: TimePlan) -> Judgement:
        manifest, clock = self.manifest, self.clock
        entries = {one.id: one for one in manifest.entries if one.id in self.us}
        stock = min((name for name, e in entries.items() if e.kind != "codegen"), key=lambda name: self.us[name])
        if len(entries) == 1:
            return self._alone()
        ending = plan.ending(clock.left)
        if ending is None:
            return Judgement("inconclusive", plan.too_short(clock), stock)
        picked = pick_for_race(self.screened, baseline=BASELINE, count=max(2 * ending.rivals, 1))
        names = dict.fromkeys([BASELINE, stock, *picked])
        contest = Contest(
            entrants=tuple(Entrant(name, entries[name].complexity) for name in names),
            baseline=BASELINE,
            stock=stock,
            rules=Rules(smallest_gain=manifest.smallest_gain),
            confirm_blocks=manifest.confirm_blocks,
            seed=manifest.seed,
            screened=tuple(one for one in self.screened if one.id in names),
            places=ending.rivals,
            labels={name: entries[name].label for name in names},
        )
        finalists = {name: self._lasting(entries[name], self.us[name], INVOCATION_US) for name in names}
        takes = timed_by(self.device, self.benchmark, finalists)
        report = self.reporter
        return judge(contest, takes, clock=clock, stop=self.stop, plan=plan, record=self._record, stage=report.stage)

    def _record(self, phase: JudgePhase, name: str, block: int, timing: Timing) -> None:
        self.tried[name].taken.append(Taken(phase, block, timing))

    def _alone(self) -> Judgement:
        """Nothing but the default can be timed."""
        failed = [one for one in self.tried.values() if one.check.failure is not None]
        if len(self.manifest.entries) == 1:
            return Judgement("no-winner", "the bundle has nothing but IREE's default", BASELINE)
        if len(failed) < len(self.manifest.entries) - 1:
            reason = f"the time was up before any candidate was timed: {longer(2 * self.clock.budget)}"
            return Judgement("inconclusive", reason, BASELINE)
        return Judgement("no-winner", f"nothing but the default works here: all {len(failed)} fail", BASELINE)

    def _note(self, text: str) -> None:
        self.notes.append(text)
        self.reporter.note(text)


@contextmanager
def scratch(beside: Path) -> Iterator[Path]:
    """The one folder that a bundle is unpacked into; it goes with the command."""
    with tempfile.TemporaryDirectory(prefix="autotune-bundle-", dir=beside) as folder:
        yield Path(folder)
