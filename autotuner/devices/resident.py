"""A device that stays open: a child process that calls and times modules, replaced when it crashes or hangs."""

from __future__ import annotations

import contextlib
import json
import math
import os
import select
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from autotuner.devices import child
from autotuner.devices.cache_size import Rotation, Sizes, sizes_of
from autotuner.devices.child import LENGTH, Message, frame
from autotuner.devices.device import CallPairs, Computed, Conditions, DeviceState, Module, Timing
from autotuner.devices.inputs import Call, read_call
from autotuner.devices.process import ProcessDevice
from autotuner.errors import DeviceError, OutOfTimeError
from autotuner.iree.benchmark import Benchmark
from autotuner.iree.compile import FailureClass
from autotuner.iree.run import Invocation
from autotuner.problems import Array
from autotuner.problems.dtypes import element_type
from autotuner.system import process

OPEN_SECONDS = 120.0
"""A first context on a GPU takes seconds; on a machine that is busy with other compilers many."""
INVOCATION_US = 5_000.0
"""A call from Python costs some 30 µs beside the device's work: of this, little."""
LOAD_SECONDS = 0.002
"""Calls that are shorter keep no device busy: between them it waits."""
BURST_PAUSE = 0.2
"""Idle before each repetition: a GPU that a load has slowed down is at its highest clock again in less."""
_KEPT_RESULTS = 16
"""Results that stay in files: modules that compute the same bits share one."""


class Lost(Exception):
    """The child gave no answer."""

    def __init__(self, failure: FailureClass, detail: str) -> None:
        self.failure: FailureClass = failure
        super().__init__(detail)


class Refused(Exception):
    """The child's answer is why the module does not run."""


@dataclass
class ResidentDevice:
    """The parent's side. A child is started when one is needed, and again after it is gone."""

    isolated: ProcessDevice
    """The same device by a process for each call."""
    folder: Path
    """Results, inputs and the child's stderr are here; it goes with the device."""
    state: DeviceState = "sustained"
    under_load: bool = False
    """The device's clock depends on what ran before, so that it is kept busy between timings. Not so a processor: it
    compiles meanwhile, and what warms up a module does for its clock."""
    starts: int = 0
    """Children so far."""
    _child: subprocess.Popen[bytes] | None = field(default=None, repr=False)
    _calls: dict[Invocation, Call | None] = field(default_factory=dict, repr=False)
    _results: OrderedDict[Path, None] = field(default_factory=OrderedDict, repr=False)
    _load: tuple[Path, Call] | None = field(default=None, repr=False)
    """What it is kept busy with: IREE's default, which every command times first."""
    _lock: threading.RLock = field(default_factory=threading.RLock, repr=False)

    @property
    def uri(self) -> str:
        return self.isolated.uri

    @property
    def starts_quickly(self) -> bool:
        return True

    @property
    def invocation_us(self) -> float:
        return INVOCATION_US

    def check(self, vmfb: Path, invocations: Sequence[Invocation], *, timeout: float) -> tuple[Computed, ...]:
        return tuple(self._compute(vmfb, invocation, timeout) for invocation in invocations)

    def time(self, module: Module, benchmark: Benchmark, *, repetitions: int = 3) -> Timing:
        call = self._call(benchmark.invocation)
        if call is None:
            timing = self.isolated.time(module, benchmark, repetitions=repetitions)
            return replace(timing, conditions=Conditions(self.isolated.state))
        asked = {
            "ask": "time",
            "repetitions": repetitions,
            "seconds": benchmark.seconds,
            "sets": self._rotation(call).sets if benchmark.cache == "cold" else 1,
            "pause": BURST_PAUSE if self.state == "burst" else 0.0,
        }
        try:
            answer = self._ask(asked, module.vmfb, call, timeout=benchmark.timeout)
        except Lost as lost:
            return Timing((), lost.failure, str(lost))
        except Refused as refused:
            return Timing((), "run-error", str(refused))
        if self._load is None and min(answer["seconds"]) >= LOAD_SECONDS:
            self._sustain(module.vmfb, call)
        return Timing(tuple(seconds * 1e6 / module.repeat for seconds in answer["seconds"]))

    def call_pairs(self, module: Module, benchmark: Benchmark, *, count: int) -> CallPairs | None:
        call = self._call(benchmark.invocation)
        if call is None:
            return None
        rotation = self._rotation(call)
        asked = {"ask": "pairs", "count": count, "sets": rotation.sets}
        try:
            answer = self._ask(asked, module.vmfb, call, timeout=benchmark.timeout)
        except Lost as lost:
            return CallPairs(failure=lost.failure, detail=str(lost))
        except Refused as refused:
            return CallPairs(failure="run-error", detail=str(refused))
        cold, warm = (tuple(seconds * 1e6 / module.repeat for seconds in answer[name]) for name in ("cold", "warm"))
        return CallPairs(cold, warm, exceeds=rotation.exceeds and answer["sets"] >= rotation.sets)

    def dispatch_us(self, vmfb: Path, invocation: Invocation, *, timeout: float) -> Mapping[str, float] | None:
        return self.isolated.dispatch_us(vmfb, invocation, timeout=timeout)

    def renew(self) -> None:
        self.close()

    def close(self) -> None:
        """Ends the child, whatever it does."""
        with self._lock:
            if self._child is not None:
                process.end(self._child)
            self._child = None

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
        return Computed(arrays, digest=" ".join(one["digest"] for one in results))

    def _call(self, invocation: Invocation) -> Call | None:
        if invocation not in self._calls:
            self._calls[invocation] = read_call(invocation, self.folder)
        return self._calls[invocation]

    def _array(self, result: Mapping[str, Any], element: str) -> Array:
        """Read when it is looked at: most modules compute the very bits that are known."""
        file = self.folder / f"{result['digest']}.bin"
        kind = np.dtype(element_type(element).numpy)
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

    def _sustain(self, vmfb: Path, call: Call) -> None:
        """Keeps the device busy with this from here on, also after a child was lost."""
        if self.under_load and self.state == "sustained":
            self._load = (vmfb, call)
            with contextlib.suppress(Lost, Refused):  # without it timings still go on
                self._ask({"ask": "sustain"}, vmfb, call, timeout=OPEN_SECONDS)

    # --- the child ----------------------------------------------------------------------------------------------

    def _ask(self, request: Message, vmfb: Path, call: Call, *, timeout: float) -> Message:
        """The answer; Refused where there is an error in its place."""
        with self._lock:
            self._open()
            whole = {**request, "module": str(vmfb.absolute()), "call": call.to_json()}
            answer = self._exchange(whole, timeout=timeout)
            if "error" in answer:
                if not answer["usable"]:
                    self.close()
                raise Refused(answer["error"])
            return answer

    def _open(self) -> None:
        """Starts the child unless it runs; DeviceError when the device does not open."""
        if self._child is not None and self._child.poll() is None:
            return
        self.close()
        self.starts += 1
        with self._log.open("wb") as log:
            self._child = process.start([sys.executable, "-P", child.__file__], stderr=log)
        try:
            why = self._exchange({"ask": "open", "device": self.uri}, timeout=OPEN_SECONDS).get("error", "")
        except Lost as lost:
            why = str(lost)
        if why:
            self.close()
            raise DeviceError(
                f"device {self.uri!r} does not open: {process.last_line(why)}",
                remedy="`autotune doctor` lists the devices that answer; --device none only compiles.",
            )
        if self._load is not None:
            self._sustain(*self._load)

    def _exchange(self, request: Message, *, timeout: float) -> Message:
        """One request, one answer; a child that gives none is ended."""
        try:
            left = process.seconds_left()
            end = time.monotonic() + min(timeout, left)
            if left <= 0:
                raise OutOfTimeError
            try:
                return self._answer(request, end)
            except TimeoutError:
                if left < timeout:
                    raise OutOfTimeError from None
                raise Lost("run-timeout", f"killed after {timeout:.0f} s") from None
        except BaseException:
            self.close()
            raise

    def _answer(self, request: Message, end: float) -> Message:
        running = self._child
        if running is None or running.stdin is None or running.stdout is None:
            raise Lost("run-error", "the device's process is gone")
        try:
            running.stdin.write(frame(request))
        except OSError:
            raise Lost("run-error", self._last_words(running)) from None
        head = self._read(running, LENGTH.size, end)
        (size,) = LENGTH.unpack(head)
        answer: Message = json.loads(self._read(running, size, end))
        return answer

    def _read(self, running: subprocess.Popen[bytes], size: int, end: float) -> bytes:
        """Exactly so many bytes, before the end of time."""
        pipe, data = running.stdout, b""
        assert pipe is not None
        while len(data) < size:
            ready, _, _ = select.select([pipe], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                raise TimeoutError
            part = os.read(pipe.fileno(), size - len(data))
            if not part:
                raise Lost("run-error", self._last_words(running))
            data += part
        return data

    @property
    def _log(self) -> Path:
        return self.folder / "stderr.txt"

    def _last_words(self, running: subprocess.Popen[bytes]) -> str:
        """How it ended, in the words for every program."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            running.wait(timeout=5)
        text = self._log.read_text(errors="replace") if self._log.exists() else ""
        return process.Finished(running.returncode or 0, "", text, 0.0, timed_out=False).why()


@contextlib.contextmanager
def open_resident(
    isolated: ProcessDevice, *, state: DeviceState = "sustained", under_load: bool = False
) -> Iterator[ResidentDevice]:
    """The device of a command, closed with it."""
    folder = Path(tempfile.mkdtemp(prefix="device-", dir=isolated.scratch))
    device = ResidentDevice(isolated, folder, state, under_load)
    try:
        yield device
    finally:
        device.close()
        shutil.rmtree(folder, ignore_errors=True)
