"""The child of a device that stays open: it opens the device once, then calls and times the modules that it is told of.

A program of its own, started by `resident.py`. It speaks in frames over its pipes, JSON after a length of four bytes;
each request has one answer. A crash or a hang is its parent's to see: here is nothing that could save it.

    open    device                               at first
    load    module                               and lets it go: the driver's own cache has it assembled then
    call    module, call, folder                 one call; a tensor goes to the file of its digest in the folder
    time    module, call, repetitions, seconds   seconds of a call in each repetition, of at least so many seconds;
            sets                                 on so many copies of the inputs in turn
    pairs   module, call, count, sets            seconds of a call on each copy in turn, and of the same call once more
    live    modules, call, storage, rounds,      seconds of single calls in turns, each on inputs that no call has seen;
            seconds, seed, folder                results of some rounds, chosen by the seed, go there as those of a call
    sustain module, call                         is called between the other requests from now on
    lend    busy                                 not until the next request; not `busy`: that settles it anew

`call` is a function with its inputs (each a file of bytes, its shape and its element type) and parameter files.
What stays between requests is on the device: modules, and inputs with a second copy. A module may write to its inputs,
and does to the storage of its result: before each request they are as their files say.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from iree import runtime

from autotuner.devices.child_base import Message, needs_warming, serve, warm_up
from autotuner.devices.live import Party, live_rounds
from autotuner.devices.load import Load, context_of_this_thread
from autotuner.devices.loaded import Kept, Loaded, Memory, mapped
from autotuner.errors import EnvironmentFailure
from autotuner.system.parsing import write_raw

OUT_OF_MEMORY = "RESOURCE_EXHAUSTED"
"""What IREE's runtime says where the device's memory does not suffice."""


class UnusedDeviceError(Exception):
    """An error before the device ran anything: its state is still good."""


@contextlib.contextmanager
def _unused() -> Iterator[None]:
    """A block in which the device runs nothing."""
    try:
        yield
    except Exception as error:
        raise UnusedDeviceError(str(error)) from error


@dataclass(frozen=True)
class Arguments:
    """A call's inputs on the device, and their contents."""

    views: tuple[Any, ...]
    pristine: tuple[Any, ...]


class Device:
    """An open device with its recent modules and inputs. Each public method answers a request."""

    def __init__(self, uri: str) -> None:
        device = runtime.get_device(uri)
        self._config = runtime.Config(device=device)
        self._memory = Memory(device)
        self._between: Load | None = None
        self.forget()

    def forget(self) -> None:
        """Frees the device's memory."""
        self._modules: Kept[Loaded] = Kept()
        self._calls: Kept[Arguments] = Kept()
        self._copied: tuple[Arguments, list[tuple[Any, ...]]] | None = None
        self._last: Loaded | None = None

    def load(self, request: Message) -> Message:
        """Loads a module and releases it."""
        with _unused():
            self._load(Path(request["module"]), [])
        return {}

    def call(self, request: Message) -> Message:
        """Makes one call; each result is written to a file unless it is there already."""
        with self._ready(request) as (loaded, function, arguments):
            seconds, results = loaded.call(function, arguments.views)
            found = [self._memory.result(results.get_variant(index)) for index in range(len(results))]
        return {"seconds": seconds, "results": _told(found, Path(request["folder"]))}

    def time(self, request: Message) -> Message:
        """Times repetitions that each last long enough, after a warm-up of the same length. There is none if the module
        has just run, or its calls are so long that it would change nothing."""
        with self._ready(request, settled=True) as (loaded, function, arguments):
            sets = self._copies(request["sets"], arguments)
            turns = cycle(sets)
            seconds = _repetitions(request, loaded, lambda: loaded.call(function, next(turns))[0])
            return {"seconds": seconds, "sets": len(sets)}

    def pairs(self, request: Message) -> Message:
        """Times calls on the inputs in turn (cold), and each once more at once (warm)."""
        cold, warm = [], []
        with self._ready(request, settled=True) as (loaded, function, arguments):
            sets = self._copies(request["sets"], arguments)
            for views in sets:
                loaded.call(function, views)
            for _, views in zip(range(request["count"]), cycle(sets), strict=False):
                cold.append(loaded.call(function, views)[0])
                warm.append(loaded.call(function, views)[0])
        return {"cold": cold, "warm": warm, "sets": len(sets)}

    def live(self, request: Message) -> Message:
        """Makes single calls of modules in turns, on inputs that change."""
        call, folder = request["call"], Path(request["folder"])
        with self._ready(request, settled=True) as (_, _, arguments):
            parties = [self._party(Path(module), call) for module in request["modules"]]
            given = [self._memory.download(buffer) for buffer in arguments.pristine]
            found = live_rounds(self._memory, parties, call["inputs"], given, request)
        self._last = None
        return {
            "seconds": [one.seconds for one in found],
            "results": [[_told(results, folder) for results in one.results] for one in found],
            "changed": [one.changed for one in found],
        }

    def _party(self, module: Path, call: Message) -> Party:
        with _unused():
            loaded = self.loaded(module, call["parameters"])
            return Party(loaded, _function(loaded, call["function"]))

    def sustain(self, request: Message) -> Message:
        """Puts the device under this load between other requests, from now on."""
        with self._ready(request) as (loaded, function, arguments):
            own = Loaded(loaded.context, loaded.module)
        self.end()
        self._between = Load(lambda: own.call(function, arguments.views)[0], begin=context_of_this_thread())
        return {}

    def lend(self, request: Message) -> Message:
        """Leaves the device to another process until the next request; `busy`: that one keeps it under load."""
        if self._between is not None:
            self._between.rest(settled=request["busy"])
        self._last = None  # whatever ran last here, another has run since
        return {}

    def end(self) -> None:
        """Ends the load between requests."""
        if self._between is not None:
            self._between.end()
        self._between = None

    @contextlib.contextmanager
    def _ready(self, request: Message, *, settled: bool = False) -> Iterator[tuple[Loaded, Any, Arguments]]:
        """A loaded module with its inputs, while the load is paused."""
        with _unused():
            loaded = self.loaded(Path(request["module"]), request["call"]["parameters"])
        with self._between.paused(settled=settled) if self._between else contextlib.nullcontext():
            self._last = loaded
            yield loaded, *self._prepare(loaded, request["call"])

    def loaded(self, module: Path, parameters: Iterable[str] = ()) -> Loaded:
        """Loads a module from a file."""
        named = list(parameters)
        found = self._modules.get(json.dumps([_version(module), named]), lambda: self._load(module, named))
        if found is not self._last:
            found.busy_s = 0.0
        return found

    def _prepare(self, loaded: Loaded, call: Message) -> tuple[Any, Arguments]:
        with _unused():
            exported = _function(loaded, call["function"])
            names = [[_version(Path(one["file"])), one["shape"], one["element"]] for one in call["inputs"]]
            arguments = self._calls.get(json.dumps(names), lambda: self._upload_all(call["inputs"]))
        for view, pristine in zip(arguments.views, arguments.pristine, strict=True):
            self._memory.copy(pristine, view.get_buffer())
        return exported, arguments

    def _copies(self, count: int, arguments: Arguments) -> list[tuple[Any, ...]]:
        """The inputs and copies of them, as many as are asked for and fit in memory."""
        if count == 1:
            return [arguments.views]
        if self._copied is None or self._copied[0] is not arguments:
            self._copied = (arguments, [arguments.views])
        sets = self._copied[1]
        try:
            while len(sets) < count:
                sets.append(tuple(self._memory.duplicate(view) for view in arguments.views))
        except Exception as error:
            if OUT_OF_MEMORY not in str(error):
                raise
        return sets[:count]

    def _load(self, module: Path, parameters: list[str]) -> tuple[Loaded, int]:
        found = mapped(self._config.vm_instance, module)
        return Loaded(self._context(found, parameters), found), module.stat().st_size

    def _context(self, module: Any, parameters: list[str]) -> Any:
        """The module's context, with parameters from files as in `--parameters=[SCOPE=]FILE`."""
        instance, scopes = self._config.vm_instance, dict[str, Any]()
        for text in parameters:
            scope, _, file = text.rpartition("=")
            scopes.setdefault(scope, runtime.ParameterIndex()).load(file)
        providers = [index.create_provider(scope=scope) for scope, index in scopes.items()]
        beside = [runtime.create_io_parameters_module(instance, *providers)] if providers else []
        return runtime.VmContext(instance, modules=[*self._config.default_vm_modules, *beside, module])

    def _upload_all(self, inputs: list[Message]) -> tuple[Arguments, int]:
        views = tuple(self._memory.upload(one) for one in inputs)
        pristine = tuple(self._memory.upload(one).get_buffer() for one in inputs)
        return Arguments(views, pristine), 2 * sum(buffer.byte_length() for buffer in pristine)


def _function(loaded: Loaded, name: str) -> Any:
    exported = loaded.module.lookup_function(name)
    if exported is None:
        raise KeyError(f"the module has no function {name!r}")
    if exported.reflection.get("iree.abi.model") == "coarse-fences":
        raise ValueError(f"{name} takes fences: only synchronous functions are called")
    return exported


def _repetitions(request: Message, loaded: Loaded, call: Callable[[], float]) -> list[float]:
    """Seconds of a call in each repetition, after a warm-up; time between calls is not counted."""
    repetitions: list[float] = []
    seconds, steady = request["seconds"], request.get("steady")
    least = seconds - loaded.busy_s if needs_warming(loaded.call_s, seconds) else 0.0
    warm_up(lambda: (call(), 1), least=least, steady=steady)
    for _ in range(request["repetitions"]):
        spent, count = call(), 1
        while spent < seconds:
            spent, count = spent + call(), count + 1
        repetitions.append(spent / count)
        if request["give_up"] is not None and repetitions[0] > request["give_up"]:
            break
    return repetitions


class Server:
    """Answers requests with the device."""

    def __init__(self) -> None:
        self.device: Device | None = None

    def answer(self, request: Message) -> Message:
        """`error` where the runtime refuses; `usable` says whether the device can be trusted afterwards.

        What does not load has not run. After a call that failed a CUDA device answers nothing more. With a `remedy` it
        is this machine's fault, not the module's.
        """
        try:
            try:
                return self._answer(request)
            except Exception as error:
                if OUT_OF_MEMORY not in str(error) or self.device is None:
                    raise
                self.device.forget()  # what stays on the device must not be what a module lacks
            return self._answer(request)
        except EnvironmentFailure as error:
            return {"error": error.message, "remedy": error.remedy, "usable": True}
        except Exception as error:  # whatever the runtime throws is what became of this module
            usable = isinstance(error, UnusedDeviceError)
            return {"error": str(error) if usable else f"{type(error).__name__}: {error}", "usable": usable}

    def _answer(self, request: Message) -> Message:
        if request["ask"] == "open":
            self.device = Device(request["device"])
            return {}
        answer: Message = getattr(self.device, request["ask"])(request)
        return answer


def _told(results: Iterable[tuple[Any, Any]], folder: Path) -> list[Message]:
    return [_number(data) if view is None else _written(data, view, folder) for view, data in results]


def _written(data: npt.NDArray[np.uint8], view: Any, folder: Path) -> Message:
    """Writes a result to the file of its digest, whole or not at all, unless it is there."""
    digest = hashlib.sha256(data.data).hexdigest()
    file = folder / f"{digest}.bin"
    if not file.exists():
        part = file.with_suffix(".part")
        write_raw(data, part)
        part.replace(file)
    return {"digest": digest, "shape": list(view.shape)}


def _number(value: float) -> Message:
    """A scalar result as JSON, which has no words for numbers that are not finite."""
    return {"digest": repr(value), "number": repr(value)}


def _version(path: Path) -> list[str | int]:
    """The file's identity: a rewritten file has another."""
    found = path.stat()
    return [str(path), found.st_ino, found.st_size, found.st_mtime_ns]


def main() -> None:
    server = Server()
    serve(lambda: server.answer)
    if server.device is not None:
        server.device.end()


if __name__ == "__main__":
    main()
