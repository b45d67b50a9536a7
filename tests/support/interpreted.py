"""Runs the epilogue of the Triton kernels in Triton's interpreter, which needs no GPU: a process of its own, for Triton
reads its setting when it is imported.

    python -m tests.support.interpreted NUMBERS.npy RESULTS.npy ACTIVATION FACTOR_BITS
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from tests.support.interpreter import Memory  # isort: split

import triton
import triton.language as tl

sys.path.insert(0, str(Path(__file__).parents[2] / "specs" / "microkernels"))
put = import_module("epilogue").put


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
