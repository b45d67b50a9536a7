"""The memory of an open device: inputs go there, results come back, and copies are made of what is there."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from iree import runtime

from autotuner.devices.frames import Message

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


class Memory:
    """Buffers on one device, and views of them."""

    def __init__(self, device: Any) -> None:
        self._device = device

    def allocate(self, size: int) -> Any:
        """So many bytes, with anything in them."""
        return self._device.allocator.allocate_buffer(
            memory_type=int(runtime.MemoryType.DEVICE_LOCAL),
            allowed_usage=int(runtime.BufferUsage.DEFAULT),
            allocation_size=size,
        )

    def upload(self, one: Message) -> Any:
        """A view of what a file holds, of the shape and the element type that are named with it."""
        # Not host visible: on GPUs such memory would be another, slower one.
        buffer = self._device.allocator.allocate_buffer_copy(
            memory_type=int(runtime.MemoryType.DEVICE_LOCAL),
            allowed_usage=int(runtime.BufferUsage.DEFAULT),
            device=self._device,
            buffer=np.fromfile(one["file"], np.uint8),
        )
        element = int(getattr(runtime.HalElementType, ELEMENTS[one["element"]]))
        return runtime.HalBufferView(buffer, one["shape"], element)

    def download(self, buffer: Any) -> npt.NDArray[np.uint8]:
        """Its bytes."""
        view = runtime.HalBufferView(buffer, [buffer.byte_length()], int(runtime.HalElementType.UINT_8))
        host: npt.NDArray[np.uint8] = runtime.DeviceArray(self._device, view).to_host()
        return np.ascontiguousarray(host)

    def duplicate(self, view: Any) -> Any:
        """The same in another place."""
        source = view.get_buffer()
        buffer = self.allocate(source.byte_length())
        self.copy(source, buffer)
        return runtime.HalBufferView(buffer, view.shape, view.element_type)

    def copy(self, source: Any, target: Any) -> None:
        """Is over when it is done."""
        before, after = self.fences()
        self._device.queue_copy(source, target, wait_semaphores=before, signal_semaphores=after)
        after.wait()

    def fences(self) -> tuple[Any, Any]:
        """One that is reached, and one that is not yet."""
        semaphore = self._device.create_semaphore(0)
        return runtime.HalFence.create_at(semaphore, 0), runtime.HalFence.create_at(semaphore, 1)
