"""A device that stays open: a child process that calls and times modules, replaced when it crashes or hangs."""

from __future__ import annotations

import contextlib
import math
import shutil
import tempfile
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np

from autotuner.devices.cache_size import Rotation, Sizes, sizes_of
from autotuner.devices.conditions import Conditions, DeviceState
from autotuner.devices.connection import OPEN_SECONDS, Connection, Lost, Refused
from autotuner.devices.device import CallPairs, Computed, Module, Timing
from autotuner.devices.frames import Message
from autotuner.devices.inputs import Call, read_call
from autotuner.devices.process import ProcessDevice
from autotuner.devices.warming import STEADY
from autotuner.errors import DeviceError, OutOfTimeError
from autotuner.iree.benchmark import Benchmark, DispatchTime
from autotuner.iree.run import Invocation
from autotuner.problems import Array
from autotuner.problems.dtypes import element_type
from autotuner.system.execution import done

ASSEMBLE_SECONDS = 20.0
"""The driver assembles most kernels in a tenth of a second, and some in one."""
INVOCATION_US = 3_000.0
"""A call from Python costs some 30 µs beside the device's work: of twice this, which the default lasts, little."""
LOAD_SECONDS = 0.002
"""Calls that are shorter keep no device busy: between them it waits."""
BURST_PAUSE = 0.2
"""Idle before each repetition: a GPU that a load has slowed down is at its highest clock again in less."""
_KEPT_RESULTS = 16
"""Results that stay in files: modules that compute the same bits share one."""


@dataclass(eq=False)
class ResidentDevice:
    """The parent's side. A child is started when one is needed, and again after it is gone."""

    alone: ProcessDevice
    """The same device by a process for each call."""
    folder: Path
    """Results, inputs and the child's stderr are here; it goes with the device."""
    connection: Connection
    loaders: tuple[Connection, ...] = ()
    """Children that only load modules, so that the driver's cache has them assembled when they are asked for."""
    state: DeviceState = "sustained"
    under_load: bool = False
    """The device's clock depends on what ran before, so that it is kept busy between timings. Not so a processor: it
    compiles meanwhile, and what warms up a module does for its clock."""
    _calls: dict[Invocation, Call | None] = field(default_factory=dict, repr=False)
    _results: OrderedDict[Path, None] = field(default_factory=OrderedDict, repr=False)
    _load: tuple[Path, Call] | None = field(default=None, repr=False)
    """What it is kept busy with: IREE's default, which every command times first."""
    _pool: ThreadPoolExecutor | None = field(default=None, init=False, repr=False)
    _free: SimpleQueue[Connection] = field(default_factory=SimpleQueue, init=False, repr=False)

    def __post_init__(self) -> None:
        self.connection.on_open = self._load_again
        if self.loaders:
            self._pool = ThreadPoolExecutor(len(self.loaders), thread_name_prefix="assemble")
        for loader in self.loaders:
            self._free.put(loader)

    @property
    def uri(self) -> str:
        return self.alone.uri

    @cached_property
    def isolated(self) -> ProcessDevice:
        return replace(self.alone, before=partial(self.lend, busy=False))

    @property
    def starts_quickly(self) -> bool:
        return True

    @property
    def invocation_us(self) -> float:
        return INVOCATION_US

    def open(self) -> None:
        self.connection.open()

    def check(self, vmfb: Path, invocations: Sequence[Invocation], *, timeout: float) -> tuple[Computed, ...]:
        return tuple(self._compute(vmfb, invocation, timeout) for invocation in invocations)

    def time(
        self, module: Module, benchmark: Benchmark, *, repetitions: int = 3, give_up_us: float = math.inf
    ) -> Timing:
        call = self._call(benchmark.invocation)
        if call is None:
            timing = self.isolated.time(module, benchmark, repetitions=repetitions, give_up_us=give_up_us)
            return replace(timing, conditions=Conditions(self.isolated.state))
        asked = {
            "ask": "time",
            "repetitions": repetitions,
            "seconds": benchmark.seconds,
            "sets": self._rotation(call).sets if benchmark.cache == "cold" else 1,
            "pause": BURST_PAUSE if self.state == "burst" else 0.0,
            "steady": dict(STEADY) if benchmark.steady else None,
            "flight": benchmark.flight,
            "give_up": give_up_us * module.repeat / 1e6 if math.isfinite(give_up_us) else None,
        }
        try:
            answer = self._ask(asked, module.vmfb, call, timeout=benchmark.timeout)
            if self._load is None and min(answer["seconds"]) >= LOAD_SECONDS and self._sustain(module.vmfb, call):
                answer = self._ask(asked, module.vmfb, call, timeout=benchmark.timeout)
        except Lost as lost:
            return Timing((), lost.failure, str(lost))
        except Refused as refused:
            return Timing((), "run-error", str(refused))
        us = tuple(seconds * 1e6 / module.repeat for seconds in answer["seconds"])
        return Timing(us, aborted=len(us) < repetitions, flight=answer["flight"])

    def call_pairs(self, module: Module, benchmark: Benchmark, *, count: int) -> CallPairs | None:
        call = self._call(benchmark.invocation)
        if call is None:
            return None
        rotation = Rotation(1, exceeds=True) if benchmark.emptied else self._rotation(call)
        asked = {"ask": "pairs", "count": count, "sets": rotation.sets}
        if benchmark.emptied:
            asked["empty"] = self._sizes.emptying
        try:
            answer = self._ask(asked, module.vmfb, call, timeout=benchmark.timeout)
        except Lost as lost:
            return CallPairs(failure=lost.failure, detail=str(lost))
        except Refused as refused:
            return CallPairs(failure="run-error", detail=str(refused))
        cold, warm = (tuple(seconds * 1e6 / module.repeat for seconds in answer[name]) for name in ("cold", "warm"))
        return CallPairs(cold, warm, exceeds=rotation.exceeds and answer["sets"] >= rotation.sets)

    def dispatch_times(
        self, vmfb: Path, invocation: Invocation, *, timeout: float
    ) -> Mapping[str, DispatchTime] | None:
        return self.isolated.dispatch_times(vmfb, invocation, timeout=timeout)

    def renew(self) -> None:
        self.connection.close()

    def lend(self, *, busy: bool) -> None:
        """The load rests until this one is asked again."""
        if self._load is not None and self.connection.pid is not None:
            with contextlib.suppress(Lost, Refused):
                self.connection.ask({"ask": "lend" if busy else "rest"}, timeout=OPEN_SECONDS)

    def prepare(self, vmfb: Path) -> Future[None]:
        if self._pool is None:
            return done(None)
        return self._pool.submit(self._assemble, vmfb)

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
        for one in (self.connection, *self.loaders):
            one.close()

    def _assemble(self, vmfb: Path) -> None:
        """In whichever loader is free; what goes wrong there goes wrong again where it counts."""
        loader = self._free.get()
        try:
            with contextlib.suppress(Lost, Refused, DeviceError, OutOfTimeError):
                loader.ask({"ask": "load", "module": str(vmfb.absolute())}, timeout=ASSEMBLE_SECONDS)
        finally:
            self._free.put(loader)

    def _compute(self, vmfb: Path, invocation: Invocation, timeout: float) -> Computed:
        call = self._call(invocation)
        if call is None:
            (computed,) = self.isolated.check(vmfb, [invocation], timeout=timeout)
            return computed
        try:
            answer = self._ask({"ask": "call", "folder": str(self.folder)}, vmfb, call, timeout=timeout)
        except Lost as lost:
            return Computed(failure=lost.failure, detail=str(lost))
        except Refused as refused:
            return Computed(failure="run-error", detail=str(refused))
        results = answer["results"]
        if len(results) != len(invocation.results):
            detail = f"{len(results)} results came out, not {len(invocation.results)}"
            return Computed(failure="run-error", detail=detail)
        arrays = tuple(self._array(one, kind) for one, kind in zip(results, invocation.results, strict=True))
        return Computed(arrays, digest=" ".join(one["digest"] for one in results), seconds=answer["seconds"])

    def _ask(self, request: Message, vmfb: Path, call: Call, *, timeout: float) -> Message:
        whole = {**request, "module": str(vmfb.absolute()), "call": call.to_json()}
        return self.connection.ask(whole, timeout=timeout)

    def _call(self, invocation: Invocation) -> Call | None:
        if invocation not in self._calls:
            self._calls[invocation] = read_call(invocation, self.folder)
        return self._calls[invocation]

    def _array(self, result: Mapping[str, Any], element: str) -> Array:
        """Read when it is looked at: most modules compute the very bits that are known."""
        kind = np.dtype(element_type(element).numpy)
        if "number" in result:
            return np.asarray(float(result["number"]) if kind.kind == "f" else int(result["number"])).astype(kind)
        file = self.folder / f"{result['digest']}.bin"
        if file.stat().st_size == 0:
            return np.empty(result["shape"], kind)
        array: Array = np.memmap(file, np.uint8, mode="r").view(kind)
        self._results[file] = None
        self._results.move_to_end(file)
        while len(self._results) > _KEPT_RESULTS:
            self._results.popitem(last=False)[0].unlink(missing_ok=True)
        return array.reshape(result["shape"]) if array.size == math.prod(result["shape"]) else array

    @cached_property
    def _sizes(self) -> Sizes:
        return sizes_of(self.uri)

    def _rotation(self, call: Call) -> Rotation:
        """Over how many copies of a call's inputs a cold timing goes: two at the least, or it would be a warm one."""
        found = self._sizes.rotation(sum(one.file.stat().st_size for one in call.inputs))
        return replace(found, sets=max(2, found.sets))

    def _load_again(self) -> None:
        if self._load is not None:
            self._sustain(*self._load)

    def _sustain(self, vmfb: Path, call: Call) -> bool:
        """Keeps the device busy with this from here on, also after a child was lost; False where it is not."""
        if not self.under_load or self.state != "sustained":
            return False
        self._load = (vmfb, call)
        with contextlib.suppress(Lost, Refused):  # without it timings still go on
            self._ask({"ask": "sustain"}, vmfb, call, timeout=OPEN_SECONDS)
        return True


@contextlib.contextmanager
def open_resident(
    alone: ProcessDevice, *, state: DeviceState = "sustained", under_load: bool = False, loaders: int = 0
) -> Iterator[ResidentDevice]:
    """The device of a command, closed with it."""
    folder = Path(tempfile.mkdtemp(prefix="device-", dir=alone.scratch))
    connections = [Connection(alone.uri, folder / f"stderr{number}.txt") for number in range(loaders + 1)]
    device = ResidentDevice(alone, folder, connections[0], tuple(connections[1:]), state, under_load)
    try:
        yield device
    finally:
        device.close()
        shutil.rmtree(folder, ignore_errors=True)
