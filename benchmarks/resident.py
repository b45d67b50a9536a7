"""The child of a device process: it opens the device once, then runs and times the modules that it is told of.

It speaks in frames over its pipes, JSON after a length of four bytes; every request has one answer. A crash or a hang
is its parent's to see (benchmarks/device_process.py): here is nothing that could save it.

    open   device, arguments            the arguments go to the device; the last is the storage of the result
    check  module, function, output     one call into poisoned storage; gives the result's digest, and the result itself
                                        in the file `output` the first time that this digest comes
    time   samples, seconds             calls of the same module after one to warm up, until there are so many samples
                                        that last so long in all
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
from iree import runtime

Message = dict[str, Any]
LENGTH = struct.Struct("<I")
_ELEMENTS = {
    "f64": "FLOAT_64",
    "f32": "FLOAT_32",
    "f16": "FLOAT_16",
    "bf16": "BFLOAT_16",
    "f8E4M3FN": "FLOAT_8_E4M3_FN",
    "f8E4M3FNUZ": "FLOAT_8_E4M3_FNUZ",
    "i8": "INT_8",
    "i32": "INT_32",
}
"""MLIR's names of types, in the runtime's words."""


def frame(message: Mapping[str, Any]) -> bytes:
    """A message as it goes through the pipe."""
    body = json.dumps(message).encode()
    return LENGTH.pack(len(body)) + body


def read_frame(pipe: BinaryIO) -> Message | None:
    """The next message; None at the pipe's end."""
    head = pipe.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    message: Message = json.loads(pipe.read(*LENGTH.unpack(head)))
    return message


@dataclass(frozen=True)
class Loaded:
    """A module on the device, ready to be called."""

    context: Any
    function: Any

    def call(self, arguments: Sequence[Any]) -> float:
        """One call, in seconds: the function returns when the device is done."""
        given, results = runtime.VmVariantList(len(arguments)), runtime.VmVariantList(1)
        for argument in arguments:
            given.push_ref(argument)
        start = time.perf_counter()
        self.context.invoke(self.function, given, results)
        return time.perf_counter() - start


class Device:
    """A device with a problem's arguments on it."""

    def __init__(self, uri: str, arguments: Sequence[Mapping[str, Any]]) -> None:
        self._device = runtime.get_device(uri)
        self._config = runtime.Config(device=self._device)
        self._arguments = [self._upload(argument) for argument in arguments]
        self._poison = self._upload(arguments[-1]).get_buffer()
        self._seen: set[str] = set()
        self._loaded: Loaded | None = None

    def load(self, module: Path, function: str) -> None:
        """Puts a module in the place of the one before, which is released first."""
        self._loaded = None
        found = runtime.VmModule.mmap(self._config.vm_instance, str(module))
        modules = [*self._config.default_vm_modules, found]
        context = runtime.VmContext(self._config.vm_instance, modules=modules)
        self._loaded = Loaded(context, found.lookup_function(function))

    def check(self, output: Path) -> Message:
        """One call; the result goes to a file unless the same came before."""
        storage = self._arguments[-1].get_buffer()
        self._copy(self._poison, storage)
        seconds = self.loaded.call(self._arguments)
        result = self._download(storage)
        digest = hashlib.sha256(result.data).hexdigest()
        new = digest not in self._seen
        if new:
            self._seen.add(digest)
            result.tofile(output)
        return {"digest": digest, "new": new, "call_s": seconds}

    def time(self, *, samples: int, seconds: float) -> list[float]:
        """Seconds of each call."""
        self.loaded.call(self._arguments)
        taken: list[float] = []
        while len(taken) < samples or sum(taken) < seconds:
            taken.append(self.loaded.call(self._arguments))
        return taken

    @property
    def loaded(self) -> Loaded:
        if self._loaded is None:
            raise ValueError("no module is loaded")
        return self._loaded

    def _upload(self, argument: Mapping[str, Any]) -> Any:
        # Not host visible: on GPUs such memory would be another, slower one.
        buffer = self._device.allocator.allocate_buffer_copy(
            memory_type=int(runtime.MemoryType.DEVICE_LOCAL),
            allowed_usage=int(runtime.BufferUsage.DEFAULT),
            device=self._device,
            buffer=np.fromfile(argument["path"], np.uint8),
        )
        element = int(getattr(runtime.HalElementType, _ELEMENTS[argument["element"]]))
        return runtime.HalBufferView(buffer, argument["shape"], element)

    def _download(self, buffer: Any) -> npt.NDArray[np.uint8]:
        view = runtime.HalBufferView(buffer, [buffer.byte_length()], int(runtime.HalElementType.UINT_8))
        host: npt.NDArray[np.uint8] = runtime.DeviceArray(self._device, view).to_host()
        return np.ascontiguousarray(host)

    def _copy(self, source: Any, target: Any) -> None:
        semaphore = self._device.create_semaphore(0)
        before, after = (runtime.HalFence.create_at(semaphore, value) for value in (0, 1))
        self._device.queue_copy(source, target, wait_semaphores=before, signal_semaphores=after)
        after.wait()


class Server:
    """Answers requests, one after the other."""

    def __init__(self) -> None:
        self._device: Device | None = None
        self._asks: Mapping[str, Callable[[Message], Message]] = {
            "open": self._open,
            "check": self._check,
            "time": self._time,
        }

    def answer(self, request: Message) -> Message:
        """`error` instead of an answer where the runtime refuses; `usable` says whether the device can be trusted yet.

        A module that does not load has not run. After one that failed to run a CUDA device answers nothing more.
        """
        try:
            return self._asks[request["ask"]](request)
        except Exception as error:  # whatever the runtime throws is what became of this candidate
            return {"error": f"{type(error).__name__}: {error}", "usable": isinstance(error, LoadError)}

    def _open(self, request: Message) -> Message:
        self._device = Device(request["device"], request["arguments"])
        return {}

    def _check(self, request: Message) -> Message:
        start = time.perf_counter()
        try:
            self.device.load(Path(request["module"]), request["function"])
        except Exception as error:
            raise LoadError(str(error)) from error
        loaded = time.perf_counter() - start
        return {**self.device.check(Path(request["output"])), "load_s": loaded}

    def _time(self, request: Message) -> Message:
        taken = self.device.time(samples=request["samples"], seconds=request["seconds"])
        return {"calls_s": taken}

    @property
    def device(self) -> Device:
        if self._device is None:
            raise ValueError("no device is open")
        return self._device


class LoadError(Exception):
    """The runtime would not load a module."""


def main() -> None:
    # The pipe of answers is ours alone: what a driver prints to stdout goes to stderr.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    server = Server()
    while (request := read_frame(sys.stdin.buffer)) is not None:
        answers.write(frame(server.answer(request)))
        answers.flush()


if __name__ == "__main__":
    main()
