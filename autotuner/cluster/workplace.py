"""What a worker does: it builds, keeps files by content, and has a device checked and timed for one coordinator."""

from __future__ import annotations

import hashlib
import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from autotuner.build.builder import Builder
from autotuner.build.jobs import Document, work
from autotuner.cluster.wire import (
    NAME,
    Message,
    benchmark_from_json,
    error_to_json,
    invocation_from_json,
    pairs_to_json,
    timing_to_json,
)
from autotuner.devices.device import Computed, Device
from autotuner.devices.opening import open_device
from autotuner.devices.process import ProcessDevice
from autotuner.errors import AutotuneError
from autotuner.problems import Array
from autotuner.system import process
from autotuner.system.locks import device_lock
from autotuner.targets.backends import backend_on

LOCK_SECONDS = 20.0
"""How long a run of this very machine is waited for that has the device."""
PIECE_BYTES = 4 << 20
"""Files travel in pieces: a message is held in memory on its way, and Dask warns of larger ones."""
_KEPT_RESULTS = 16


class MissingFile(Exception):
    """A file that a request names is not here: it must be sent again."""


@dataclass(frozen=True)
class SentModule:
    """A module that came from the coordinator."""

    vmfb: Path
    repeat: int


@dataclass(eq=False)
class Workplace:
    """A worker's builder, its files and its device."""

    builder: Builder
    folder: Path
    """Where files that were sent lie; it goes with the worker."""
    cache: Path
    """Where the locks of this machine's devices are."""
    uri: str = ""
    """Of the device; empty: there is none."""
    _results: OrderedDict[str, Array] = field(default_factory=OrderedDict, init=False, repr=False)
    _open: ExitStack = field(default_factory=ExitStack, init=False, repr=False)
    _device: Device | None = field(default=None, init=False, repr=False)
    _for: str = field(default="", init=False, repr=False)
    """The coordinator that has the device."""
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)

    # --- builds -------------------------------------------------------------------------------------------------

    def build(self, job: Document, *, left: float | None) -> Message:
        """The answer to a build, or what was raised; `left` are the seconds of the coordinator's time."""
        return self._guarded(lambda: dict(work(job, self.builder)), left)

    # --- files --------------------------------------------------------------------------------------------------

    def put(self, name: str, offset: int, data: bytes, *, last: bool) -> None:
        """A piece of a file. With its last piece it is kept, if it is what its name says."""
        final = self._path(name)
        part = final.with_name(f"{final.name}.part")
        with part.open("r+b" if offset else "wb") as file:
            file.seek(offset)
            file.write(data)
        if not last:
            return
        with part.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if digest != name[:64]:
            part.unlink()
            raise ValueError(f"{name} arrived damaged")
        part.rename(final)

    def result(self, digest: str, offset: int) -> bytes:
        """A piece of a result that a check has left here."""
        if digest not in self._results:
            raise MissingFile(digest)
        flat = self._results[digest].reshape(-1).view(np.uint8)
        return flat[offset : offset + PIECE_BYTES].tobytes()

    def _path(self, name: str) -> Path:
        """Names are digests with an ending, so that nothing is written elsewhere."""
        if not NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no name of a file's content")
        return self.folder / name

    def _file(self, name: str) -> Path:
        path = self._path(name)
        if not path.is_file():
            raise MissingFile(name)
        return path

    # --- the device ---------------------------------------------------------------------------------------------

    def ask(self, request: Message) -> Message:
        """One request to the device, after the other."""
        asks: Mapping[str, Callable[[Message], Message]] = {
            "open": self._opened,
            "close": self._closed,
            "check": self._check,
            "time": self._time,
            "pairs": self._pairs,
            "dispatches": self._dispatches,
            "renew": self._renew,
            "lend": self._lend,
        }
        with self._lock:
            try:
                return self._guarded(lambda: asks[request["ask"]](request), request["left"])
            except MissingFile as missing:
                return {"missing": str(missing)}

    def close(self) -> None:
        """Ends the device's process."""
        with self._lock:
            self._let_go()

    def _guarded(self, do: Callable[[], Message], left: float | None) -> Message:
        moment = math.inf if left is None else time.monotonic() + left
        try:
            with process.until(moment):
                return do()
        except AutotuneError as error:
            return error_to_json(error)

    def _opened(self, request: Message) -> Message:
        """For a coordinator: it has taken the device's lease, so whoever had it before is gone."""
        self._let_go()
        tools, backend = self.builder.tools, backend_on(self.uri)
        on_host = backend is not None and backend.on_host
        with ExitStack() as stack:
            stack.enter_context(device_lock(self.uri, self.cache, timeout=LOCK_SECONDS))
            scratch = stack.enter_context(self.builder.cache.scratch())
            alone = ProcessDevice(tools, self.uri, scratch, starts_quickly=on_host)
            device = stack.enter_context(open_device(alone, isolate=request["isolate"], state=request["state"]))
            device.open()
            self._open = stack.pop_all()
        self._device, self._for = device, request["session"]
        both = {"resident": device, "isolated": device.isolated}
        return {name: _described(one) for name, one in both.items()} | {"same": device.isolated is device}

    def _closed(self, request: Message) -> Message:
        if self._for == request["session"]:
            self._let_go()
        return {}

    def _let_go(self) -> None:
        self._device, self._for = None, ""
        self._results.clear()
        self._open.close()

    def _chosen(self, request: Message) -> Device:
        if self._device is None or self._for != request["session"]:
            raise MissingFile("device")
        return self._device.isolated if request["isolated"] else self._device

    def _check(self, request: Message) -> Message:
        device, module = self._chosen(request), self._file(request["module"])
        invocations = [invocation_from_json(one, self._file) for one in request["invocations"]]
        computed = device.check(module, invocations, timeout=request["timeout"])
        return {"computed": [self._kept(one) for one in computed]}

    def _kept(self, computed: Computed) -> Message:
        """Results stay here until they are asked for: most are known to the coordinator by their digest."""
        digests = computed.digest.split() or [hashlib.sha256(_bytes(one).data).hexdigest() for one in computed.arrays]
        for digest, array in zip(digests, computed.arrays, strict=True):
            self._results[digest] = _bytes(array)
            self._results.move_to_end(digest)
        while len(self._results) > _KEPT_RESULTS:
            self._results.popitem(last=False)
        arrays = [
            {"digest": digest, "shape": list(array.shape), "dtype": array.dtype.name, "bytes": array.nbytes}
            for digest, array in zip(digests, computed.arrays, strict=True)
        ]
        return {"failure": computed.failure, "detail": computed.detail, "digest": computed.digest, "arrays": arrays}

    def _time(self, request: Message) -> Message:
        give_up = math.inf if request["give_up_us"] is None else request["give_up_us"]
        timing = self._chosen(request).time(
            self._module(request),
            benchmark_from_json(request["benchmark"], self._file),
            repetitions=request["repetitions"],
            give_up_us=give_up,
        )
        return timing_to_json(timing)

    def _pairs(self, request: Message) -> Message:
        benchmark = benchmark_from_json(request["benchmark"], self._file)
        found = self._chosen(request).call_pairs(self._module(request), benchmark, count=request["count"])
        return {"pairs": pairs_to_json(found)}

    def _dispatches(self, request: Message) -> Message:
        invocation = invocation_from_json(request["invocation"], self._file)
        module = self._file(request["module"])
        found = self._chosen(request).dispatch_times(module, invocation, timeout=request["timeout"])
        return {"dispatches": None if found is None else {name: asdict(one) for name, one in found.items()}}

    def _module(self, request: Message) -> SentModule:
        return SentModule(self._file(request["module"]), request["repeat"])

    def _renew(self, request: Message) -> Message:
        self._chosen(request).renew()
        return {}

    def _lend(self, request: Message) -> Message:
        self._chosen(request).lend(busy=request["busy"])
        return {}


def _described(device: Device) -> dict[str, Any]:
    return {name: getattr(device, name) for name in ("uri", "state", "starts_quickly", "invocation_us")}


def _bytes(array: Array) -> Array:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
