"""Runs the epilogue of the Triton kernels in Triton's interpreter, which needs no GPU: a process of its own, for Triton
reads its setting when it is imported.

    python -m tests.support.interpreted NUMBERS.npy RESULTS.npy ACTIVATION FACTOR_BITS
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

os.environ["TRITON_INTERPRET"] = "1"  # before Triton is imported
import triton
import triton.language as tl

sys.path.insert(0, str(Path(__file__).parents[2] / "specs" / "microkernels"))
put = import_module("epilogue").put


class Memory:
    """An array with as much of a tensor as the interpreter asks for."""

    dtype, device = "float32", "cpu"

    def __init__(self, array: npt.NDArray[np.float32]) -> None:
        self.array = array

    def data_ptr(self) -> int:
        return self.array.ctypes.data

    def untyped_storage(self) -> Memory:
        return self

    def cpu(self) -> Memory:
        return self

    def new_empty(self, *_: object, **__: object) -> Memory:
        return Memory(self.array)

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


@triton.jit  # type: ignore[untyped-decorator]
def _end(sums: Any, out: Any, COUNT: tl.constexpr, ACTIVATION: tl.constexpr, FACTOR_BITS: tl.constexpr) -> None:
    at = tl.arange(0, COUNT)
    total = tl.load(sums + at)
    put(
        out, at, at < COUNT, True, total, None, at, at < COUNT, None, False, False, 0, 0, ACTIVATION, FACTOR_BITS
    )  # fmt: skip


def main(numbers: str, results: str, activation: str, factor_bits: str) -> None:
    given = np.load(numbers)
    padded = np.zeros(triton.next_power_of_2(given.size), np.float32)
    padded[: given.size] = given
    out = np.full_like(padded, np.nan)
    _end[(1,)](Memory(padded), Memory(out), padded.size, int(activation), int(factor_bits))
    np.save(results, out[: given.size])


if __name__ == "__main__":
    main(*sys.argv[1:])
