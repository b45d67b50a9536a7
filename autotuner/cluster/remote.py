"""A remote device: each call goes to its worker, after the files that the worker lacks."""

from __future__ import annotations

import math
import uuid
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from autotuner.devices.conditions import DeviceState
from autotuner.devices.device import (
    INVOCATION_US,
    KEPT_RESULTS,
    CallPairs,
    Computed,
    Device,
    LiveCalls,
    LiveRounds,
    Module,
    Timing,
)
from autotuner.errors import OutOfTimeError
from autotuner.iree.run import Benchmark, DispatchTime, Invocation
from autotuner.problems import Array
from autotuner.system import process
from autotuner.system.digests import known_digest
from autotuner.system.execution import done
from autotuner.targets.naming import TWIN

PROCESS: DeviceState = "process"
PIECE_BYTES = 4 << 20
"""The size of a message with a piece of a file: messages are held in memory, and Dask warns of larger ones."""


@dataclass(frozen=True)
class RemoteModule:
    """A module for a remote device."""

    vmfb: Path
    repeat: int


def moved(value: Any, to: Callable[[Path], Path]) -> Any:
    """A value with all its files moved to other paths."""
    if isinstance(value, Path):
        return to(value)
    if isinstance(value, tuple):
        return tuple(moved(one, to) for one in value)
    if isinstance(value, RemoteModule):
        return replace(value, vmfb=to(value.vmfb))
    if isinstance(value, Benchmark):
        return replace(value, invocation=moved(value.invocation, to))
    if isinstance(value, Invocation):
        inputs = (text.partition("@") for text in value.inputs)
        parameters = (text.rpartition("=") for text in value.parameters)
        return replace(
            value,
            inputs=tuple(f"{before}@{to(Path(file))}" if at else before for before, at, file in inputs),
            parameters=tuple(f"{scope}{equals}{to(Path(file))}" for scope, equals, file in parameters),
        )
    return value


@dataclass(frozen=True, eq=False)
class RemoteDevice:
    """The coordinator's side of a device."""

    worker: str
    """The name of its worker."""
    call: Callable[..., Any] = field(repr=False)
    """Calls a method of the worker; DeviceError where it does not answer."""
    session: str
    """The session that has the device: the last one that opened it."""
    folder: Path
    """The worker's folder of files."""
    uri: str
    """The URI with the worker's name, as URIs repeat."""
    state: DeviceState
    invocation_us: float
    _results: OrderedDict[str, tuple[Array, ...]] = field(default_factory=OrderedDict, repr=False)
    """Known results by digest: most modules compute the same bits."""
    _sent: set[str] = field(default_factory=set, repr=False)

    @classmethod
    def opened(cls, worker: str, call: Callable[..., Any], *, isolate: bool) -> RemoteDevice:
        session = uuid.uuid4().hex
        folder, uri, state, invocation_us = call("open", session, isolate)
        return cls(worker, call, session, folder, f"{uri}{TWIN}{worker}", state, invocation_us)

    @cached_property
    def isolated(self) -> Device:
        return replace(self, state=PROCESS, invocation_us=INVOCATION_US)

    def open(self) -> None:
        """Does nothing: the device was opened when it was taken."""

    def prepare(self, vmfb: Path) -> Future[None]:
        del vmfb
        return done(None)

    def renew(self) -> None:
        self._ask("renew")

    def lend(self, *, busy: bool) -> None:
        self._ask("lend", busy=busy)

    def check(self, vmfb: Path, invocations: Sequence[Invocation], *, timeout: float) -> tuple[Computed, ...]:
        found = self._ask("check", vmfb, tuple(invocations), timeout=timeout)
        return tuple(map(self._with_arrays, found))

    def time(
        self, module: Module, benchmark: Benchmark, *, repetitions: int = 3, give_up_us: float = math.inf
    ) -> Timing:
        how = {"repetitions": repetitions, "give_up_us": give_up_us}
        timing: Timing = self._ask("time", RemoteModule(module.vmfb, module.repeat), benchmark, **how)
        return timing

    def call_pairs(self, module: Module, benchmark: Benchmark, *, count: int) -> CallPairs | None:
        sent = RemoteModule(module.vmfb, module.repeat)
        pairs: CallPairs | None = self._ask("call_pairs", sent, benchmark, count=count)
        return pairs

    def live_calls(self, modules: Sequence[Path], invocation: Invocation, how: LiveRounds) -> LiveCalls | None:
        found: LiveCalls | None = self._ask("live_calls", tuple(modules), invocation, how)
        return found

    def dispatch_times(
        self, vmfb: Path, invocation: Invocation, *, timeout: float
    ) -> Mapping[str, DispatchTime] | None:
        found: dict[str, DispatchTime] | None = self._ask("dispatch_times", vmfb, invocation, timeout=timeout)
        return found

    def close(self) -> None:
        """The worker ends the device's process."""
        self.call("close", self.session)

    def _ask(self, method: str, *words: Any, **named: Any) -> Any:
        """Calls a method of the device, after sending missing files."""
        there = moved(words, self._put)
        if (left := process.seconds_left()) <= 0:
            raise OutOfTimeError
        known = frozenset(self._results)
        return self.call("ask", self.session, method, there, named, self.state == PROCESS, left, known)

    def _with_arrays(self, one: Computed) -> Computed:
        """Completes results whose bytes are known; the most recently used are kept."""
        if not one.digest:
            return one
        arrays = self._results[one.digest] = one.arrays or self._results[one.digest]
        self._results.move_to_end(one.digest)
        while len(self._results) > KEPT_RESULTS:
            self._results.popitem(last=False)
        return replace(one, arrays=arrays)

    def _put(self, path: Path) -> Path:
        """The name of a file on the worker: its digest and suffix. An unreadable one has no digest."""
        try:
            name, size = f"{known_digest(path)}{path.suffix}", path.stat().st_size
        except OSError:
            return self.folder / f"unreadable{path.suffix}"
        if name not in self._sent:
            with path.open("rb") as file:
                for offset in range(0, max(size, 1), PIECE_BYTES):
                    self.call("put", name, offset, file.read(PIECE_BYTES), offset + PIECE_BYTES >= size)
            self._sent.add(name)
        return self.folder / name
