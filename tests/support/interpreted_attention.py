"""Runs attention_triton in Triton's interpreter: a process of its own, as `tests.support.interpreted` is.

    python -m tests.support.interpreted_attention INPUTS.npz RESULT.npy TYPE NUMBERS.json

The inputs and the result have 16 bits a number, as whole ones. NUMBERS has the kernel's numbers and its grid.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from tests.support.interpreter import Memory  # isort: split

import triton.language as tl
from triton.runtime import interpreter

sys.path.insert(0, str(Path(__file__).parents[2] / "specs" / "microkernels" / "attention_triton"))
kernel = import_module("attention").attention_triton

multiply = interpreter.InterpreterBuilder.create_dot


def product(builder: Any, left: Any, right: Any, *more: Any) -> Any:
    """The interpreter has bf16 as whole numbers, and multiplies them as such."""
    if left.dtype.scalar == tl.bfloat16:
        wide = ((x.data.astype(np.uint32) << 16).view(np.float32) for x in (left, right))
        left, right = (interpreter.TensorHandle(data, tl.float32) for data in wide)
    return multiply(builder, left, right, *more)


interpreter.InterpreterBuilder.create_dot = product


def main(inputs: str, result: str, dtype: str, numbers: str) -> None:
    given = json.loads(Path(numbers).read_text())
    with np.load(inputs) as arrays:
        operands = [Memory(np.ascontiguousarray(arrays[name]), dtype) for name in ("query", "key", "value")]
    query, key, value = operands if given["row"] == given["out_row"] else (operands[0], None, None)
    out = np.zeros(given["shape"], np.uint16)
    tiles, split = given["tiles"], given["split"]
    arrived = Memory(np.zeros(tiles, np.int32), "int32")
    parts = Memory(np.zeros(tiles * split * given["bm"] * (given["block_d"] + 2), np.float32))
    constexprs = ["BM", "BN", "WIDTH", "ROW", "OUT_ROW", "BLOCK_D", "CAUSAL", "EVEN_M", "EVEN_N", "SPLIT"]
    kernel[tuple(given["grid"])](
        *(query, key, value, arrived, Memory(out, dtype), parts, given["queries"], given["keys"]),
        **{name: given[name.lower()] for name in constexprs},
    )
    np.save(result, out)


if __name__ == "__main__":
    main(*sys.argv[1:])
