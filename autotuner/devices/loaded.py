"""Loaded modules and memory of an open device, and the cache of both."""

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
    "f8E8M0FNU": "FLOAT_8_E8M0_FNU",
    "i64": "INT_64",
    "i32": "INT_32",
    "i16": "INT_16",
    "i8": "INT_8",
    "i1": "BOOL_8",
}
"""The runtime's element types by MLIR's names."""
T = TypeVar("T")


def mapped(instance: Any, module: Path) -> Any:
    """Loads a file as a module in private, writable pages.

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
    """Seconds that it has run since another module ran."""
    call_s: float = 0.0
    """Seconds of the last call."""

    def call(self, function: Any, inputs: Iterable[Any]) -> tuple[float, Any]:
        """Makes one call; gives its seconds and results once the device is done."""
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
        """An uninitialised buffer."""
        return self._device.allocator.allocate_buffer(**_kind(), allocation_size=size)

    def upload(self, one: Message) -> Any:
        """A view of a file's contents, with the given shape and element type."""
        return self.view(np.fromfile(one["file"], np.uint8), one)

    def view(self, data: npt.NDArray[np.uint8], one: Message) -> Any:
        """A view of bytes in a new buffer."""
        buffer = self._device.allocator.allocate_buffer_copy(**_kind(), device=self._device, buffer=data)
        element = int(getattr(runtime.HalElementType, ELEMENTS[one["element"]]))
        return runtime.HalBufferView(buffer, one["shape"], element)

    def download(self, buffer: Any) -> npt.NDArray[np.uint8]:
        """The bytes of a buffer."""
        view = runtime.HalBufferView(buffer, [buffer.byte_length()], int(runtime.HalElementType.UINT_8))
        host: npt.NDArray[np.uint8] = runtime.DeviceArray(self._device, view).to_host()
        return np.ascontiguousarray(host)

    def result(self, value: Any) -> tuple[Any, Any]:
        """A call's result: a tensor's view with its bytes, or None and a number."""
        if isinstance(value, int | float):
            return None, value
        view = value.deref(runtime.HalBufferView)
        return view, self.download(view.get_buffer())

    def duplicate(self, view: Any) -> Any:
        """A copy of a view in another buffer."""
        source = view.get_buffer()
        buffer = self.allocate(source.byte_length())
        self.copy(source, buffer)
        return runtime.HalBufferView(buffer, view.shape, view.element_type)

    def copy(self, source: Any, target: Any) -> None:
        """Copies a buffer, and waits for it."""
        self._done(partial(self._device.queue_copy, source, target))

    def turn(self, source: Any, target: Any, by: int) -> None:
        """Copies a buffer rotated by so many bytes."""
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
    """The memory type: not host visible, which would be slower on GPUs."""
    return {
        "memory_type": int(runtime.MemoryType.DEVICE_LOCAL),
        "allowed_usage": int(runtime.BufferUsage.DEFAULT),
    }


@dataclass
class Kept(Generic[T]):
    """A cache of the most recently used, limited in number and bytes. A race has about a dozen modules; that of a model
    may hold all its weights."""

    count: int = 32
    bytes: int = 1 << 30
    items: OrderedDict[str, tuple[T, int]] = field(default_factory=OrderedDict)
    """The items with their bytes."""

    def get(self, key: str, make: Callable[[], tuple[T, int]]) -> T:
        if key not in self.items:
            self.items[key] = make()
            while len(self.items) > 1 and (len(self.items) > self.count or self._size() > self.bytes):
                self.items.popitem(last=False)
        self.items.move_to_end(key)
        return self.items[key][0]

    def _size(self) -> int:
        return sum(size for _, size in self.items.values())
