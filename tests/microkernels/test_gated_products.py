"""Gates in gemm_triton: by what it computes in Triton's interpreter."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from autotuner.measure.check import compare
from autotuner.microkernels.instance import shipped_folder
from autotuner.microkernels.loader import FILE, load
from autotuner.problems import Gemm

needs_triton = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")
ROOT = Path(__file__).parents[2]


@needs_triton
@pytest.mark.parametrize(
    ("problem", "parameters"),
    [
        (Gemm.parse(shape="40x144x48", out="f16", epilogue="silu,gated"), {"bm": 64, "bn": 64, "num_warps": 4}),
        (
            Gemm.parse(shape="64x128x64", batch=2, layout="nt", out="f16", epilogue="gelu,gated"),
            {"bm": 64, "bn": 64, "num_warps": 4},
        ),
        (Gemm.parse(shape="70x300x32", out="f16", epilogue="silu"), {"bm": 64, "bn": 64, "num_warps": 4}),
    ],
    ids=lambda value: value.name if isinstance(value, Gemm) else "",
)
def test_gates_give_the_right_numbers(problem: Gemm, parameters: dict[str, int], tmp_path: Path) -> None:
    manifest = load(shipped_folder() / "gemm_triton" / FILE)
    numbers = manifest.fit(problem, "sm_90", parameters={**parameters, "tma": 0})
    told = {name.lower(): value for name, value in problem.epilogue.numbers().items()}
    grid = [size.evaluate(numbers) for size in manifest.grid]
    text = json.dumps({**numbers, **told, "grid": grid, "shape": problem.output.shape})
    (tmp_path / "numbers.json").write_text(text)
    inputs = problem.inputs(seed=5)
    np.savez(tmp_path / "inputs.npz", lhs=inputs[0], rhs=inputs[1])
    files = [tmp_path / name for name in ("inputs.npz", "result.npy", "numbers.json")]
    command = [sys.executable, "-m", "tests.support.interpreted_gemm", *map(str, files)]
    subprocess.run(command, check=True, cwd=ROOT, timeout=300)
    reference = problem.reference(inputs)
    verdict = compare(np.load(tmp_path / "result.npy"), reference, problem.bound(inputs, reference))
    assert verdict.ok, verdict
