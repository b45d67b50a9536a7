"""attention_triton where heads lie before the tokens, behind them, or in one tensor with all three: by what it computes
in Triton's interpreter."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from autotuner.measure.check import compare
from autotuner.microkernels.instance import shipped_folder
from autotuner.microkernels.loader import FILE, load
from autotuner.problems import Attention

needs_triton = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")
ROOT = Path(__file__).parents[2]


@needs_triton
@pytest.mark.parametrize("layout", Attention.layouts)
@pytest.mark.parametrize(
    ("shape", "dtype", "causal", "parameters"),
    [
        ("2x3x70x70x24", "f16", False, {"bm": 64}),
        ("2x2x64x64x32", "bf16", True, {"bm": 64, "num_warps": 4}),
        ("1x3x16x16x16", "f16", True, {"bm": 16}),
    ],
)
def test_every_layout_gives_the_right_numbers(
    shape: str, dtype: str, causal: bool, parameters: dict[str, int], layout: str, tmp_path: Path
) -> None:
    problem = replace(Attention.parse(shape=shape, dtype=dtype, causal=causal), layout=layout)
    assert_right(problem, parameters, tmp_path)


@needs_triton
@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
def test_few_queries_share_their_keys_in_every_layout(layout: str, tmp_path: Path) -> None:
    problem = replace(Attention.parse(shape="2x2x3x520x16"), layout=layout)
    assert_right(problem, {"bm": 16, "split": 4}, tmp_path)


def assert_right(problem: Attention, parameters: dict[str, int], folder: Path) -> None:
    manifest = load(shipped_folder() / "attention_triton" / FILE)
    numbers = manifest.fit(problem, "sm_90", parameters=parameters)
    grid = [size.evaluate(numbers) for size in manifest.grid]
    (folder / "numbers.json").write_text(json.dumps({**numbers, "grid": grid, "shape": problem.output.shape}))
    inputs = problem.inputs(seed=5)
    query, key, value = (array.view(np.uint16) for array in (*inputs, inputs[0], inputs[0])[:3])
    np.savez(folder / "inputs.npz", query=query, key=key, value=value)
    files = [folder / "inputs.npz", folder / "result.npy"]
    words = [*files, {"f16": "float16", "bf16": "bfloat16"}[problem.dtype], folder / "numbers.json"]
    command = [sys.executable, "-m", "tests.support.interpreted_attention", *map(str, words)]
    subprocess.run(command, check=True, cwd=ROOT, timeout=300)
    result = np.load(folder / "result.npy").view(problem.output.element.numpy)
    reference = problem.reference(inputs)
    verdict = compare(result, reference, problem.bound(inputs, reference))
    assert verdict.ok, verdict
