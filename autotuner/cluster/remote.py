"""A device of another machine: each call goes to the worker that has it, and the answer is plain data."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Protocol

import ml_dtypes
import numpy as np

from autotuner.cluster.wire import (
    Message,
    benchmark_to_json,
    content_name,
    dispatches_from_json,
    invocation_to_json,
    pairs_from_json,
    raise_from_json,
    timing_from_json,
)
from autotuner.devices.conditions import DeviceState
from autotuner.devices.connection import OPEN_SECONDS
from autotuner.devices.device import CallPairs, Computed, Device, Module, Timing
from autotuner.errors import DeviceError, OutOfTimeError
from autotuner.iree.benchmark import Benchmark, DispatchTime
from autotuner.iree.run import Invocation
from autotuner.problems import Array
from autotuner.system import process
from autotuner.system.execution import done
from autotuner.targets.naming import TWIN

_KEPT_RESULTS = 16
_ALONG_BYTES = 1 << 20
_SENT_AGAIN = 3
"""How often a file that the worker has lost is sent, for one call."""


class Worker(Protocol):
    """The worker of one device, as far as the device needs it. DeviceError is raised where it does not answer."""

    @property
    def name(self) -> str: ...

    def require(self) -> None:
        """DeviceError where it is known to be lost."""

    def ask(self, request: Message, *, timeout: float, files: Mapping[str, bytes]) -> Message:
        """With files that it does not have yet, by their content's names."""

    def put(self, path: Path, name: str) -> None:
        """Sends a file's bytes."""

    def result(self, digest: str, size: int) -> bytes:
        """The bytes of a result that a check has left there."""


@dataclass(eq=False)
class Channel:
    """What is known of a worker: its answers are errors here where they were there, and it gets each file once."""

    worker: Worker
    session: str
    _sent: set[str] = field(default_factory=set, init=False)
    _results: OrderedDict[str, bytes] = field(default_factory=OrderedDict, init=False)

    def ask(self, request: Message, *, timeout: float, files: Sequence[Path] = ()) -> Message:
        """Sends what is missing there, and asks."""
        for _ in range(_SENT_AGAIN):
            along = self._send(files)
            left = process.seconds_left()
            if left <= 0:
                raise OutOfTimeError
            whole = {**request, "session": self.session, "left": left if math.isfinite(left) else None}
            answer = self.worker.ask(whole, timeout=min(timeout, left), files=along)
            self._sent.update(along)
            raise_from_json(answer, worker=self.worker.name)
            if "missing" not in answer:
                return answer
            if answer["missing"] not in self._sent:
                raise DeviceError(
                    f"worker {self.worker.name} has given its device to another.", remedy="Go on with --resume."
                )
            self._sent.discard(answer["missing"])
        raise DeviceError(f"worker {self.worker.name} loses the files that it is sent.", remedy="Check its disk.")

    def result(self, described: Message) -> bytes:
        """Most modules compute the very bits that are known."""
        digest, size = described["digest"], described["bytes"]
        if digest not in self._results:
            self._results[digest] = self.worker.result(digest, size)
        self._results.move_to_end(digest)
        while len(self._results) > _KEPT_RESULTS:
            self._results.popitem(last=False)
        return self._results[digest]

    def _send(self, files: Sequence[Path]) -> dict[str, bytes]:
        """Sends what is large and missing there; what is small goes along with the question."""
        missing = {name: path for path in files if (name := content_name(path)) not in self._sent}
        along = {name: path.read_bytes() for name, path in missing.items() if path.stat().st_size <= _ALONG_BYTES}
        for name in missing.keys() - along.keys():
            self.worker.put(missing[name], name)
            self._sent.add(name)
        return along


@dataclass(frozen=True)
class RemoteDevice:
    """The coordinator's side of a device."""

    channel: Channel
    described: Message
    """What the worker said when it opened the device: of the one that stays open, and of the isolated one."""
    is_isolated: bool = False

    @classmethod
    def opened(cls, worker: Worker, *, session: str, isolate: bool, state: DeviceState) -> RemoteDevice:
        channel = Channel(worker, session)
        asked = {"ask": "open", "isolate": isolate, "state": state}
        return cls(channel, channel.ask(asked, timeout=2 * OPEN_SECONDS))

    @property
    def worker(self) -> str:
        """The name of its worker."""
        return self.channel.worker.name

    @cached_property
    def uri(self) -> str:
        """With its worker's name: there are many of one URI."""
        return f"{self._own['uri']}{TWIN}{self.worker}"

    @property
    def state(self) -> DeviceState:
        found: DeviceState = self._own["state"]
        return found

    @property
    def starts_quickly(self) -> bool:
        return bool(self._own["starts_quickly"])

    @property
    def invocation_us(self) -> float:
        return float(self._own["invocation_us"])

    @cached_property
    def isolated(self) -> Device:
        return self if self.is_isolated or self.described["same"] else replace(self, is_isolated=True)

    def open(self) -> None:
        """It is open since it was taken; DeviceError where its worker is lost since."""
        self.channel.worker.require()

    def prepare(self, vmfb: Path) -> Future[None]:
        del vmfb
        return done(None)

    def renew(self) -> None:
        self._ask({"ask": "renew"}, timeout=OPEN_SECONDS)

    def lend(self, *, busy: bool) -> None:
        self._ask({"ask": "lend", "busy": busy}, timeout=OPEN_SECONDS)

    def check(self, vmfb: Path, invocations: Sequence[Invocation], *, timeout: float) -> tuple[Computed, ...]:
        files = [vmfb, *(file for one in invocations for file in _files(one))]
        if why := _unreadable(files):
            return tuple(Computed(failure="run-error", detail=why) for _ in invocations)
        asked = {
            "ask": "check",
            "module": content_name(vmfb),
            "invocations": [invocation_to_json(one, content_name) for one in invocations],
            "timeout": timeout,
        }
        answer = self._ask(asked, timeout=len(invocations) * timeout, files=files)
        return tuple(map(self._computed, answer["computed"]))

    def time(
        self, module: Module, benchmark: Benchmark, *, repetitions: int = 3, give_up_us: float = math.inf
    ) -> Timing:
        files = [module.vmfb, *_files(benchmark.invocation)]
        if why := _unreadable(files):
            return Timing((), "run-error", why)
        asked = self._timed("time", module, benchmark) | {
            "repetitions": repetitions,
            "give_up_us": give_up_us if math.isfinite(give_up_us) else None,
        }
        return timing_from_json(self._ask(asked, timeout=benchmark.timeout, files=files))

    def call_pairs(self, module: Module, benchmark: Benchmark, *, count: int) -> CallPairs | None:
        files = [module.vmfb, *_files(benchmark.invocation)]
        if why := _unreadable(files):
            return CallPairs(failure="run-error", detail=why)
        asked = self._timed("pairs", module, benchmark) | {"count": count}
        return pairs_from_json(self._ask(asked, timeout=benchmark.timeout, files=files)["pairs"])

    def dispatch_times(
        self, vmfb: Path, invocation: Invocation, *, timeout: float
    ) -> Mapping[str, DispatchTime] | None:
        files = [vmfb, *_files(invocation)]
        if _unreadable(files):
            return None
        asked = {
            "ask": "dispatches",
            "module": content_name(vmfb),
            "invocation": invocation_to_json(invocation, content_name),
            "timeout": timeout,
        }
        return dispatches_from_json(self._ask(asked, timeout=timeout, files=files)["dispatches"])

    def close(self) -> None:
        """The worker ends the device's process."""
        with process.however_late():
            self._ask({"ask": "close"}, timeout=OPEN_SECONDS)

    @property
    def _own(self) -> Message:
        found: Message = self.described["isolated" if self.is_isolated else "resident"]
        return found

    def _timed(self, ask: str, module: Module, benchmark: Benchmark) -> Message:
        return {
            "ask": ask,
            "module": content_name(module.vmfb),
            "repeat": module.repeat,
            "benchmark": benchmark_to_json(benchmark, content_name),
        }

    def _ask(self, request: Message, *, timeout: float, files: Sequence[Path] = ()) -> Message:
        """A call that a crashed process ends is made once more there, in a new process."""
        longest = 2 * (timeout + OPEN_SECONDS)
        return self.channel.ask({**request, "isolated": self.is_isolated}, timeout=longest, files=files)

    def _computed(self, answer: Message) -> Computed:
        arrays = tuple(_array(self.channel.result(one), one) for one in answer["arrays"])
        return Computed(arrays, answer["failure"], answer["detail"], answer["digest"])


def _files(invocation: Invocation) -> list[Path]:
    """Those that its words name."""
    found: list[Path] = []

    def note(path: Path) -> str:
        found.append(path)
        return ""

    invocation_to_json(invocation, note)
    return found


def _unreadable(files: Sequence[Path]) -> str:
    """Why one of them cannot be sent; empty: all can."""
    for path in files:
        try:
            content_name(path)
        except OSError as error:
            return f"{path} cannot be read: {error.strerror}"
    return ""


def _array(data: bytes, described: Message) -> Array:
    name = described["dtype"]
    kind = np.dtype(getattr(ml_dtypes, name) if hasattr(ml_dtypes, name) else name)
    return np.frombuffer(data, kind).reshape(described["shape"])
