"""A device with a process for each call: iree-run-module, and iree-benchmark-module on modules with repeated
dispatches."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from autotuner.devices.conditions import Conditions, DeviceState, Sample
from autotuner.devices.device import (
    INVOCATION_US,
    NO_DEVICE_HERE,
    CallPairs,
    Computed,
    Device,
    LiveCalls,
    LiveRounds,
    Module,
    Timing,
)
from autotuner.devices.sampling import Sampler, sampled
from autotuner.errors import DeviceError
from autotuner.iree.run import (
    Benchmark,
    DispatchTime,
    Invocation,
    benchmark_command,
    failed_because,
    list_devices,
    read_repetitions,
    read_statistics,
    run_command,
    statistics_command,
)
from autotuner.iree.tools import Tools
from autotuner.problems import Array
from autotuner.problems.dtypes import element_type
from autotuner.system import process
from autotuner.system.execution import done, local_executor
from autotuner.system.parsing import read_npy
from autotuner.targets.backends import backend_on
from autotuner.targets.naming import iree_uri

_FORMAT = dict.fromkeys(("bf16", "f8E4M3FN", "f8E4M3FNUZ"), "bin")
"""numpy types for reading results; types that numpy lacks are written as bare bytes."""
COLD_NEEDS = "a cold cache can only be timed on a device that stays open."
WITHOUT_COLD = "Leave out --cache cold, --isolate and --iree-tools."


def missing(uri: str, why: str) -> DeviceError:
    """The error for a device that does not answer."""
    return DeviceError(
        f"device {uri!r} does not open: {failed_because(why)}",
        remedy=NO_DEVICE_HERE,
    )


def confinement(uri: str, folder: Path) -> Path | None:
    """The folder that a process running kernels is confined to, on a processor. On a GPU kernels cannot write files,
    and the driver keeps its own."""
    backend = backend_on(uri)
    return folder if backend is not None and backend.on_host else None


@dataclass(frozen=True)
class ProcessDevice:
    """A device without a process between calls: whatever a module does, the next call begins anew."""

    tools: Tools
    uri: str
    scratch: Path
    """The folder of results."""
    sampler: Sampler = field(default=Sample, compare=False, repr=False)
    """Samples the device before and after each timing."""
    before: Callable[[], None] = field(default=lambda: None, compare=False, repr=False)
    """Called before each process, to free the device."""

    @property
    def state(self) -> DeviceState:
        return "process"

    @property
    def invocation_us(self) -> float:
        return INVOCATION_US

    @property
    def isolated(self) -> Device:
        return self

    def open(self) -> None:
        """Checks that the driver finds the device; a processor is always there."""
        backend = backend_on(self.uri)
        if backend is not None and backend.on_host:
            return
        found = list_devices(self.tools, self.uri.partition("://")[0])
        if not found.ok or not found.stdout.strip():
            raise missing(self.uri, found.stderr.strip() or "its driver finds none")

    def prepare(self, vmfb: Path) -> Future[None]:
        del vmfb
        return done(None)

    def renew(self) -> None:
        """Nothing stays."""

    def lend(self, *, busy: bool) -> None:
        """It is free between calls."""

    def check(self, vmfb: Path, invocations: Sequence[Invocation], *, timeout: float) -> tuple[Computed, ...]:
        """Checks all inputs at once, as most of a process's time is its start."""
        self.before()
        with local_executor(len(invocations)) as pool:
            runs = [pool.submit(self._call, vmfb, invocation, timeout) for invocation in invocations]
            return tuple(run.result() for run in runs)

    def time(
        self, module: Module, benchmark: Benchmark, *, repetitions: int = 3, give_up_us: float = math.inf
    ) -> Timing:
        del give_up_us  # most of a call is its start
        timed = partial(self._timed, module, benchmark, repetitions)
        return sampled(timed, self.sampler, Conditions(self.state, benchmark.cache, device=self.uri))

    def _timed(self, module: Module, benchmark: Benchmark, repetitions: int) -> Timing:
        if benchmark.cache == "cold":
            raise DeviceError(COLD_NEEDS, remedy=WITHOUT_COLD)
        self.before()
        command = benchmark_command(
            self.tools, module.vmfb, benchmark, device=iree_uri(self.uri), repetitions=repetitions
        )
        done = process.run(command, timeout=benchmark.timeout, writes=confinement(self.uri, self.scratch))
        if done.timed_out:
            return Timing((), "run-timeout", done.why())
        if not done.ok:
            return Timing((), "run-error", done.why())
        try:
            return Timing(tuple(us / module.repeat for us in read_repetitions(done.stdout)))
        except (ValueError, KeyError, TypeError) as error:
            return Timing((), "run-error", f"iree-benchmark-module printed no times ({error}): {done.why()}")

    def call_pairs(self, module: Module, benchmark: Benchmark, *, count: int) -> CallPairs | None:
        del module, benchmark, count
        return None

    def live_calls(self, modules: Sequence[Path], invocation: Invocation, how: LiveRounds) -> LiveCalls | None:
        """Makes these calls on an open device, in Python's runtime."""
        from autotuner.devices.resident import open_resident

        self.before()
        with open_resident(self) as resident:
            return resident.live_calls(modules, invocation, how)

    def dispatch_times(
        self, vmfb: Path, invocation: Invocation, *, timeout: float
    ) -> Mapping[str, DispatchTime] | None:
        self.before()
        command = statistics_command(self.tools, vmfb, invocation, device=iree_uri(self.uri))
        done = process.run(command, timeout=timeout, writes=confinement(self.uri, self.scratch))
        return read_statistics(done.stdout) if done.ok else None

    def _call(self, vmfb: Path, invocation: Invocation, timeout: float) -> Computed:
        with tempfile.TemporaryDirectory(dir=self.scratch) as folder:
            paths = [
                Path(folder) / f"output{number}.{_FORMAT.get(element, 'npy')}"
                for number, element in enumerate(invocation.results)
            ]
            command = run_command(self.tools, vmfb, invocation, device=iree_uri(self.uri), outputs=paths)
            done = process.run(command, timeout=timeout, writes=confinement(self.uri, Path(folder)))
            if done.timed_out:
                return Computed(failure="run-timeout", detail=done.why())
            if not done.ok or not all(path.is_file() for path in paths):
                return Computed(failure="run-error", detail=done.why())
            try:
                return Computed(tuple(map(_read, paths, invocation.results)))
            except ValueError as error:
                return Computed(failure="run-error", detail=f"a result cannot be read: {error}")


def _read(path: Path, element: str) -> Array:
    if path.suffix == ".npy":
        return read_npy(path)
    return np.fromfile(path, element_type(element).numpy)
