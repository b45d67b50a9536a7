"""Runs gemm_triton in Triton's interpreter, tiles read by pointers.

A process of its own, as `tests.support.interpreted` is.

    python -m tests.support.interpreted_gemm INPUTS.npz RESULT.npy NUMBERS.json

Inputs and result have f16. NUMBERS has the kernel's numbers, its grid and the shape of the result.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path

import numpy as np

from tests.support.interpreter import Memory  # isort: split

for folder in ("", "gemm_triton"):
    sys.path.insert(0, str(Path(__file__).parents[2] / "specs" / "microkernels" / folder))
kernel = import_module("gemm").gemm_triton
_CONSTEXPRS = (
    *("BM", "BN", "MORE", "BK", "GROUP", "TRANSPOSE_LHS", "TRANSPOSE_RHS", "EVEN_M", "EVEN_N", "EVEN_K", "WORKERS"),
    *("SPLIT", "TMA", "CLIP_LOW", "CLIP_HIGH", "LOW_BITS", "HIGH_BITS", "ACTIVATION", "FACTOR_BITS", "GATED"),
)


def main(inputs: str, result: str, numbers: str) -> None:
    given = json.loads(Path(numbers).read_text())
    with np.load(inputs) as arrays:
        lhs, rhs = (Memory(np.ascontiguousarray(arrays[name]), "float16") for name in ("lhs", "rhs"))
    out = np.zeros(given["shape"], np.float16)
    tiles, split = given["tiles"], given["split"]
    counters = Memory(np.zeros(tiles, np.int32), "int32")
    partial = Memory(np.zeros(tiles * split * given["bm"] * given["bn"], np.float32))
    kernel[tuple(given["grid"])](
        *(lhs, rhs, None, None, counters, Memory(out, "float16"), partial, given["m"], given["n"], given["k"]),
        **{name: given[name.lower()] for name in _CONSTEXPRS},
    )
    np.save(result, out)


if __name__ == "__main__":
    main(*sys.argv[1:])
