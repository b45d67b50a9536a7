"""Modules on a device that stays open, its memory, and what of both is kept."""

from __future__ import annotations

import mmap
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
from iree import runtime

from autotuner.devices.child_base import Message

ELEMENTS = {
    "f64": "FLOAT_64",
    "f32": "FLOAT_32",
    "f16": "FLOAT_16",
    "bf16": "BFLOAT_16",
    "f8E4M3FN": "FLOAT_8_E4M3_FN",
    "f8E4M3FNUZ": "FLOAT_8_E4M3_FNUZ",
    "i64": "INT_64",
    "i32": "INT_32",
    "i16": "INT_16",
    "i8": "INT_8",
    "i1": "BOOL_8",
}
"""MLIR's names of types, in the runtime's words."""
T = TypeVar("T")


def mapped(instance: Any, module: Path) -> Any:
    """The module of a file, in pages of its own that may be written to.

    On a processor, results may be computed in the place of a constant (`util.unfoldable_constant`). That is memory as
    iree-run-module loads a module, and a crash in the read-only pages of `VmModule.mmap`.
    """
    with module.open("rb") as file:
        pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    return runtime.VmModule.wrap_buffer(instance, pages)


@dataclass
class Loaded:
    """A module on the device, ready to be called."""

    context: Any
    module: Any
    busy_s: float = 0.0
    """Seconds that it has run since another module did."""
    call_s: float = 0.0
    """Seconds of its last call."""

    def call(self, function: Any, inputs: Iterable[Any]) -> tuple[float, Any]:
        """One call, in seconds, and its results: it ends when the device is done."""
        given, out = runtime.VmVariantList(8), runtime.VmVariantList(1)
        for view in inputs:
            given.push_ref(view)
        start = time.perf_counter()
        self.context.invoke(function, given, out)
        seconds = time.perf_counter() - start
        self.busy_s += seconds
        self.call_s = seconds
        return seconds, out


class Memory:
    """Buffers on one device, and views of them."""

    def __init__(self, device: Any) -> None:
        self._device = device

    def allocate(self, size: int) -> Any:
        """So many bytes, with anything in them."""
        return self._device.allocator.allocate_buffer(**_kind(), allocation_size=size)

    def upload(self, one: Message) -> Any:
        """A view of what a file holds, of the shape and the element type that are named with it."""
        return self.view(np.fromfile(one["file"], np.uint8), one)

    def view(self, data: npt.NDArray[np.uint8], one: Message) -> Any:
        """The same of bytes, in a buffer of its own."""
        buffer = self._device.allocator.allocate_buffer_copy(**_kind(), device=self._device, buffer=data)
        element = int(getattr(runtime.HalElementType, ELEMENTS[one["element"]]))
        return runtime.HalBufferView(buffer, one["shape"], element)

    def download(self, buffer: Any) -> npt.NDArray[np.uint8]:
        """Its bytes."""
        view = runtime.HalBufferView(buffer, [buffer.byte_length()], int(runtime.HalElementType.UINT_8))
        host: npt.NDArray[np.uint8] = runtime.DeviceArray(self._device, view).to_host()
        return np.ascontiguousarray(host)

    def result(self, value: Any) -> tuple[Any, Any]:
        """Of a call: a tensor's view with its bytes, or no view and a number."""
        if isinstance(value, int | float):
            return None, value
        view = value.deref(runtime.HalBufferView)
        return view, self.download(view.get_buffer())

    def duplicate(self, view: Any) -> Any:
        """The same in another place."""
        source = view.get_buffer()
        buffer = self.allocate(source.byte_length())
        self.copy(source, buffer)
        return runtime.HalBufferView(buffer, view.shape, view.element_type)

    def copy(self, source: Any, target: Any) -> None:
        """Is over when it is done."""
        self._done(partial(self._device.queue_copy, source, target))

    def turn(self, source: Any, target: Any, by: int) -> None:
        """The same so many bytes further on; what goes beyond the end comes first."""
        commands, size = runtime.HalCommandBuffer(self._device), source.byte_length()
        for start, to, length in ((0, by, size - by), (size - by, 0, by)):
            if length:
                commands.copy(source, target, start, to, length)
        commands.end()
        self._done(partial(self._device.queue_execute, commands))

    def _done(self, begin: Callable[..., None]) -> None:
        semaphore = self._device.create_semaphore(0)
        before, after = (runtime.HalFence.create_at(semaphore, moment) for moment in (0, 1))
        begin(wait_semaphores=before, signal_semaphores=after)
        after.wait()


def _kind() -> dict[str, int]:
    """Not host visible: on GPUs such memory would be another, slower one."""
    return {
        "memory_type": int(runtime.MemoryType.DEVICE_LOCAL),
        "allowed_usage": int(runtime.BufferUsage.DEFAULT),
    }


@dataclass
class Kept(Generic[T]):
    """What was used last: as many things, and as many bytes, as may stay. A race has about a dozen modules; one of a
    model may hold all its weights."""

    count: int = 32
    bytes: int = 1 << 30
    items: OrderedDict[str, tuple[T, int]] = field(default_factory=OrderedDict)
    """Each with its bytes."""

    def get(self, key: str, make: Callable[[], tuple[T, int]]) -> T:
        if key not in self.items:
            self.items[key] = make()
            while len(self.items) > 1 and (len(self.items) > self.count or self._size() > self.bytes):
                self.items.popitem(last=False)
        self.items.move_to_end(key)
        return self.items[key][0]

    def _size(self) -> int:
        return sum(size for _, size in self.items.values())
