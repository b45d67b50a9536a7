"""Kernels in Triton by what they compute in Triton's interpreter: no GPU is needed."""

from __future__ import annotations

import importlib.util
import json
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from autotuner.measure.check import compare
from autotuner.microkernels.instance import shipped_folder
from autotuner.microkernels.loader import FILE, load
from autotuner.problems import Array, Gemm
from autotuner.problems.attention import Attention
from autotuner.problems.epilogue import ACTIVATIONS
from autotuner.problems.operations import OPERATIONS
from tests.microkernels.test_c_kernels import WIDE, assert_activated
from tests.support.kernels import request

pytestmark = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")
ROOT = Path(__file__).parents[2]


Interpret = Callable[..., None]


@pytest.fixture(scope="module")
def interpret() -> Iterator[Interpret]:
    """Has the one interpreter of all tests here compute something."""
    command = [sys.executable, "-m", "tests.microkernels.interpreter"]
    with subprocess.Popen(command, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        asked, answers = child.stdin, child.stdout

        def one(*words: object) -> None:
            asked.write(json.dumps([str(word) for word in words]) + "\n")
            asked.flush()
            assert answers.readline() == "done\n"

        yield one
        asked.close()


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_an_activation_is_right_for_all_numbers(name: str, interpret: Interpret, tmp_path: Path) -> None:
    activation = ACTIVATIONS[name]
    given, out = tmp_path / "given.npy", tmp_path / "out.npy"
    np.save(given, WIDE)
    (bits,) = struct.unpack("<I", struct.pack("<f", activation.factor))
    interpret("epilogue", given, out, activation.number, bits)
    assert_activated(np.load(out), name)


def assert_right(
    interpret: Interpret,
    kernel: str,
    problem: Gemm | Attention,
    parameters: dict[str, int],
    inputs: dict[str, Array],
    folder: Path,
    *words: str,
) -> None:
    """The kernel in the interpreter gives what the problem's reference gives."""
    wanted = request(load(shipped_folder() / kernel / FILE, OPERATIONS), problem, "sm_90", parameters)
    grid = [size.evaluate(wanted.numbers) for size in wanted.manifest.grid]
    numbers = {**wanted.numbers, **wanted.source_numbers(), "grid": grid, "shape": problem.output.shape}
    (folder / "numbers.json").write_text(json.dumps(numbers))
    np.savez(folder / "inputs.npz", allow_pickle=False, **inputs)
    files = folder / "inputs.npz", folder / "result.npy"
    interpret(problem.op, *files, *words, folder / "numbers.json")
    result = np.load(folder / "result.npy").view(problem.output.element.numpy)
    given = problem.inputs(seed=5)
    reference = problem.reference(given)
    verdict = compare(result, reference, problem.bound(given, reference))
    assert verdict.ok, verdict


@pytest.mark.parametrize(
    "problem",
    [
        Gemm.parse(shape="40x144x48", out="f16", epilogue="silu,gated"),
        Gemm.parse(shape="64x128x64", batch=2, layout="nt", out="f16", epilogue="gelu,gated"),
        Gemm.parse(shape="70x300x32", out="f16", epilogue="silu"),
    ],
    ids=lambda problem: problem.name,
)
def test_gates_of_products_give_the_right_numbers(problem: Gemm, interpret: Interpret, tmp_path: Path) -> None:
    lhs, rhs = problem.inputs(seed=5)
    parameters = {"bm": 64, "bn": 64, "num_warps": 4, "tma": 0}
    assert_right(interpret, "gemm_triton", problem, parameters, {"lhs": lhs, "rhs": rhs}, tmp_path)


SPLIT = ("2x2x3x520x16", "f16", False, {"bm": 16, "split": 4})
"""Few queries, which share their keys."""


@pytest.mark.parametrize(
    ("shape", "dtype", "causal", "parameters", "layout"),
    [
        ("2x3x70x70x24", "f16", False, {"bm": 64}, "bhsd"),
        *(("2x2x64x64x32", "bf16", True, {"bm": 64, "num_warps": 4}, layout) for layout in Attention.layouts),
        ("1x2x70x40x40", "f16", True, {"bm": 64}, "bshd"),  # in two blocks of columns
        (*SPLIT, "bshd"),
    ],
)
def test_attention_gives_the_right_numbers_in_every_layout(
    shape: str,
    dtype: str,
    causal: bool,
    parameters: dict[str, int],
    layout: str,
    interpret: Interpret,
    tmp_path: Path,
) -> None:
    """Heads lie before the tokens, behind them, or in one tensor with all three."""
    problem = replace(Attention.parse(shape=shape, dtype=dtype, causal=causal), layout=layout)
    given = problem.inputs(seed=5)
    query, key, value = (array.view(np.uint16) for array in (*given, given[0], given[0])[:3])
    inputs, element = {"query": query, "key": key, "value": value}, {"f16": "float16", "bf16": "bfloat16"}[dtype]
    assert_right(interpret, "attention_triton", problem, parameters, inputs, tmp_path, element)
