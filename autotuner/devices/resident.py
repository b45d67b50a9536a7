"""A device that stays open: a child process that calls and times modules, replaced when it crashes or hangs.

Inputs are files of bytes with shape and type; the forms of IREE's tools are converted to that.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import re
import shutil
import tempfile
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np

from autotuner.devices.child_base import STEADY, Message
from autotuner.devices.conditions import Conditions, DeviceState
from autotuner.devices.connection import OPEN_SECONDS, Connection, RequestFailed
from autotuner.devices.device import KEPT_RESULTS, CallPairs, Computed, LiveCalls, LiveRounds, Module, Timing
from autotuner.devices.process import ProcessDevice
from autotuner.devices.sampling import Rotation, Sizes, sampled, sizes_of
from autotuner.errors import DeviceError, OutOfTimeError
from autotuner.iree.run import Benchmark, DispatchTime, Invocation
from autotuner.problems import Array
from autotuner.problems.dtypes import ElementType, element_type, known_type
from autotuner.system.execution import done
from autotuner.system.parsing import read_npy

INVOCATION_US = 3_000.0
"""The shortest invocation: a call from Python costs some 30 µs beside the device's work."""
LOAD_SECONDS = 0.002
"""The shortest call for a load: with shorter ones the device would mostly wait."""
_TYPED = re.compile(r"((?:\d+x)*)([a-zA-Z]\w*)")
_BETWEEN = re.compile(r"[\s,\[\]]+")
_IN_NUMPY = ("f64", "f32", "f16", "i64", "i32", "i16", "i8", "i1")


@dataclass(frozen=True, slots=True)
class Tensor:
    """One input."""

    file: str
    shape: tuple[int, ...]
    element: str

    @property
    def bytes(self) -> int:
        return Path(self.file).stat().st_size


@dataclass(frozen=True, slots=True)
class Call:
    """An invocation as plain data, without forms that only IREE's tools read."""

    function: str
    inputs: tuple[Tensor, ...]
    parameters: tuple[str, ...]


@dataclass(eq=False)
class ResidentDevice:
    """The parent's side of a device that stays open."""

    alone: ProcessDevice
    """The same device with a process for each call."""
    folder: Path
    """The folder of results, inputs and the child's stderr; it is removed with the device."""
    connection: Connection
    loaders: tuple[Connection, ...] = ()
    """Children that only load modules, so that the driver's cache has them assembled in time."""
    under_load: bool = False
    """Keep the device under load between timings, because its clock depends on what ran before. Not so for a processor:
    it compiles meanwhile, and the warm-up suffices for its clock."""
    _calls: dict[Invocation, Call | None] = field(default_factory=dict, repr=False)
    _results: OrderedDict[Path, None] = field(default_factory=OrderedDict, repr=False)
    _load: tuple[Path, Call] | None = field(default=None, repr=False)
    """The call that keeps it under load: IREE's default, which every command times first."""
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

    @property
    def state(self) -> DeviceState:
        return "sustained"

    @cached_property
    def isolated(self) -> ProcessDevice:
        return replace(self.alone, before=partial(self.lend, busy=False))

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
            return self.isolated.time(module, benchmark, repetitions=repetitions, give_up_us=give_up_us)
        timed = partial(self._timed, module, benchmark, call, repetitions, give_up_us)
        return sampled(timed, self.alone.sampler, Conditions(self.state, benchmark.cache, device=self.uri))

    def _timed(self, module: Module, benchmark: Benchmark, call: Call, repetitions: int, give_up_us: float) -> Timing:
        asked = {
            "ask": "time",
            "repetitions": repetitions,
            "seconds": benchmark.seconds,
            "sets": self._rotation(call).sets if benchmark.cache == "cold" else 1,
            "steady": dict(STEADY) if benchmark.steady else None,
            "give_up": give_up_us * module.repeat / 1e6 if math.isfinite(give_up_us) else None,
        }
        try:
            answer = self._ask(asked, module.vmfb, call, timeout=benchmark.timeout)
            if self._load is None and min(answer["seconds"]) >= LOAD_SECONDS and self._sustain(module.vmfb, call):
                answer = self._ask(asked, module.vmfb, call, timeout=benchmark.timeout)
        except RequestFailed as why:
            return Timing((), why.failure, str(why))
        return Timing(tuple(seconds * 1e6 / module.repeat for seconds in answer["seconds"]))

    def call_pairs(self, module: Module, benchmark: Benchmark, *, count: int) -> CallPairs | None:
        call = self._call(benchmark.invocation)
        if call is None:
            return None
        rotation = self._rotation(call)
        asked = {"ask": "pairs", "count": count, "sets": rotation.sets}
        try:
            answer = self._ask(asked, module.vmfb, call, timeout=benchmark.timeout)
        except RequestFailed as why:
            return CallPairs(failure=why.failure, detail=str(why))
        cold, warm = (tuple(seconds * 1e6 / module.repeat for seconds in answer[name]) for name in ("cold", "warm"))
        return CallPairs(cold, warm, exceeds=rotation.exceeds and answer["sets"] >= rotation.sets)

    def live_calls(self, modules: Sequence[Path], invocation: Invocation, how: LiveRounds) -> LiveCalls | None:
        call = self._call(invocation)
        if call is None:
            return None
        files = [str(vmfb.absolute()) for vmfb in modules]
        asked = {"ask": "live", "modules": files, "folder": str(self.folder), **asdict(how)}
        try:
            answer = self._ask(asked, modules[0], call, timeout=how.timeout)
        except RequestFailed as why:
            return LiveCalls(failure=why.failure, detail=str(why))
        us = tuple(tuple(seconds * 1e6 for seconds in row) for row in answer["seconds"])
        kept = [[self._computed(one, invocation) for one in row] for row in answer["results"]]
        self._forget_old()
        return LiveCalls(us, tuple(map(tuple, kept)), tuple(answer["changed"]))

    def dispatch_times(
        self, vmfb: Path, invocation: Invocation, *, timeout: float
    ) -> Mapping[str, DispatchTime] | None:
        return self.isolated.dispatch_times(vmfb, invocation, timeout=timeout)

    def renew(self) -> None:
        self.connection.close()

    def lend(self, *, busy: bool) -> None:
        """Pauses the load until the next request."""
        if self._load is not None and self.connection.pid is not None:
            with contextlib.suppress(RequestFailed):
                self.connection.ask({"ask": "lend", "busy": busy}, timeout=OPEN_SECONDS)

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
        """Loads a module in a free loader; an error there shows up again in the timing."""
        loader = self._free.get()
        try:
            with contextlib.suppress(RequestFailed, DeviceError, OutOfTimeError):
                loader.ask({"ask": "load", "module": str(vmfb.absolute())}, timeout=OPEN_SECONDS)
        finally:
            self._free.put(loader)

    def _compute(self, vmfb: Path, invocation: Invocation, timeout: float) -> Computed:
        call = self._call(invocation)
        if call is None:
            (computed,) = self.isolated.check(vmfb, [invocation], timeout=timeout)
            return computed
        try:
            answer = self._ask({"ask": "call", "folder": str(self.folder)}, vmfb, call, timeout=timeout)
        except RequestFailed as why:
            return Computed(failure=why.failure, detail=str(why))
        computed = replace(self._computed(answer["results"], invocation), seconds=answer["seconds"])
        self._forget_old()
        return computed

    def _forget_old(self) -> None:
        """Deletes files of old results; mapped ones stay readable."""
        while len(self._results) > KEPT_RESULTS:
            self._results.popitem(last=False)[0].unlink(missing_ok=True)

    def _computed(self, results: Sequence[Message], invocation: Invocation) -> Computed:
        if len(results) != len(invocation.results):
            detail = f"{len(results)} results came out, not {len(invocation.results)}"
            return Computed(failure="run-error", detail=detail)
        arrays = tuple(self._array(one, kind) for one, kind in zip(results, invocation.results, strict=True))
        return Computed(arrays, digest=" ".join(one["digest"] for one in results))

    def _ask(self, request: Message, vmfb: Path, call: Call, *, timeout: float) -> Message:
        whole = {**request, "module": str(vmfb.absolute()), "call": asdict(call)}
        return self.connection.ask(whole, timeout=timeout)

    def _call(self, invocation: Invocation) -> Call | None:
        if invocation not in self._calls:
            self._calls[invocation] = read_call(invocation, self.folder)
        return self._calls[invocation]

    def _array(self, result: Mapping[str, Any], element: str) -> Array:
        """A result that is read on first use: most modules compute bits that are known."""
        kind = np.dtype(element_type(element).numpy)
        if "number" in result:
            return np.asarray(float(result["number"]) if kind.kind == "f" else int(result["number"])).astype(kind)
        file = self.folder / f"{result['digest']}.bin"
        if file.stat().st_size == 0:
            return np.empty(result["shape"], kind)
        array: Array = np.memmap(file, np.uint8, mode="r").view(kind)
        self._results[file] = None
        self._results.move_to_end(file)
        return array.reshape(result["shape"]) if array.size == math.prod(result["shape"]) else array

    @cached_property
    def _sizes(self) -> Sizes:
        return sizes_of(self.uri)

    def _rotation(self, call: Call) -> Rotation:
        """The number of copies of a call's inputs for a cold timing: at least two, or it would be warm."""
        found = self._sizes.rotation(sum(one.bytes for one in call.inputs))
        return replace(found, sets=max(2, found.sets))

    def _load_again(self) -> None:
        if self._load is not None:
            self._sustain(*self._load)

    def _sustain(self, vmfb: Path, call: Call) -> bool:
        """Puts the device under this load from now on, also in a new child; False where that fails."""
        if not self.under_load:
            return False
        self._load = (vmfb, call)
        with contextlib.suppress(RequestFailed):  # without it timings still go on
            self._ask({"ask": "sustain"}, vmfb, call, timeout=OPEN_SECONDS)
        return True


@contextlib.contextmanager
def open_resident(alone: ProcessDevice, *, under_load: bool = False, loaders: int = 0) -> Iterator[ResidentDevice]:
    """A device for the length of a command."""
    folder = Path(tempfile.mkdtemp(prefix="device-", dir=alone.scratch))
    connections = [Connection(alone.uri, folder / f"stderr{number}.txt") for number in range(loaders + 1)]
    device = ResidentDevice(alone, folder, connections[0], tuple(connections[1:]), under_load)
    try:
        yield device
    finally:
        device.close()
        shutil.rmtree(folder, ignore_errors=True)


# --- inputs -----------------------------------------------------------------------------------------------------


def read_call(invocation: Invocation, folder: Path) -> Call | None:
    """The call of an invocation; literal values are written to files in the folder.

    None for what only IREE's tools read: scalars, values of rare types, archives.
    """
    if not all(map(known_type, invocation.results)):
        return None
    inputs = [_tensor(text, folder) for text in invocation.inputs]
    found = tuple(one for one in inputs if one is not None)
    if len(found) < len(inputs) or any(Path(text).suffix == ".safetensors" for text in invocation.parameters):
        return None
    return Call(invocation.function, found, invocation.parameters)


def _tensor(text: str, folder: Path) -> Tensor | None:
    words, equals, value = text.partition("=")
    if text.startswith("@"):
        return _numpy_file(Path(text[1:]), folder)
    typed = _TYPED.fullmatch(words)
    if typed is None or not known_type(typed[2]) or not typed[1]:
        return None
    shape, element = tuple(int(size) for size in typed[1].split("x")[:-1]), element_type(typed[2])
    if not value.startswith("@"):
        return _values(value if equals else "0", shape, element, folder)
    file = Path(value[1:])
    wanted = math.prod(shape) * element.bytes
    fits = file.suffix != ".npy" and file.is_file() and file.stat().st_size == wanted
    return Tensor(str(file), shape, element.mlir) if fits else None


def _numpy_file(path: Path, folder: Path) -> Tensor | None:
    try:
        array = read_npy(path)
    except (OSError, ValueError):
        return None
    names = {np.dtype(element_type(name).numpy): name for name in _IN_NUMPY}
    if array.dtype not in names:
        return None
    return _written(array, names[array.dtype], folder)


def _values(text: str, shape: tuple[int, ...], element: ElementType, folder: Path) -> Tensor | None:
    words, size = [word for word in _BETWEEN.split(text) if word], math.prod(shape)
    if len(words) not in (1, size):
        return None
    try:
        numbers = [float(word) if element.is_float else int(word) for word in words]
        array = np.asarray(numbers).astype(element.numpy)
    except (ValueError, OverflowError):
        return None
    if not element.is_float and array.astype(object).tolist() != numbers:
        return None
    whole = array.reshape(shape) if array.size == size else np.full(shape, array[0], array.dtype)
    return _written(whole, element.mlir, folder)


def _written(array: Array, element: str, folder: Path) -> Tensor:
    data = np.ascontiguousarray(array).tobytes()
    file = folder / f"{hashlib.sha256(data).hexdigest()}.bin"
    if not file.exists():
        file.write_bytes(data)
    return Tensor(str(file), array.shape, element)
