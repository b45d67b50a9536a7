"""Triton's interpreter, which needs no GPU. Triton reads its setting when it is imported: import this before it."""

from __future__ import annotations

import os
from typing import Any

import numpy.typing as npt

os.environ["TRITON_INTERPRET"] = "1"


class Memory:
    """An array with as much of a tensor as the interpreter asks for."""

    device = "cpu"

    def __init__(self, array: npt.NDArray[Any], dtype: str = "float32") -> None:
        self.array, self.dtype = array, dtype

    def data_ptr(self) -> int:
        return self.array.ctypes.data

    def untyped_storage(self) -> Memory:
        return self

    def cpu(self) -> Memory:
        return self

    def new_empty(self, *_: object, **__: object) -> Memory:
        return Memory(self.array, self.dtype)

    def set_(self, storage: Memory, *_: object) -> None:
        self.array = storage.array

    def storage_offset(self) -> int:
        return 0

    def size(self) -> tuple[int, ...]:
        return self.array.shape

    def stride(self) -> tuple[int, ...]:
        return (1,)

    def copy_(self, other: Memory) -> None:
        self.array[...] = other.array
