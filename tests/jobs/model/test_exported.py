"""Programs as exporters write them: every dispatch that has a root is taken out, and can be compiled alone."""

from __future__ import annotations

import json
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from iree.compiler import ir
from typer.testing import CliRunner

from autotuner.carriers.render import problem_mlir
from autotuner.cli.app import app
from autotuner.devices.process import ProcessDevice
from autotuner.iree.tools import Tools
from autotuner.jobs.model.context import Model, ModelStructure, read_structure
from autotuner.jobs.model.dispatch import DispatchProblem, runs_alone
from autotuner.jobs.model.program import Program, ProgramBuilder, call_of
from autotuner.system.cache import Cache
from autotuner.targets import Target
from tests.support.models import EXAMPLES

EXPORTED = EXAMPLES / "exported"
ROOTS = {
    "torch_mlp.mlir": ["matmul", "matmul"],
    "torch_conv.mlir": ["conv", "conv", "conv", "matmul"],
    "torch_attention.mlir": ["matmul", "attention", "matmul"],
    "torch_dynamic.mlir": ["matmul", "matmul"],
    "torch_results.mlir": ["matmul"],
    "torch_bf16.mlir": ["matmul"],
    "torch_f16.mlir": ["matmul", "matmul"],
    "torch_int8.mlir": ["matmul"],
    "torch_parameters.mlir": ["matmul", "matmul"],
    "torch_onnx_conv.onnx": ["conv", "conv", "conv", "matmul"],
    "onnx_qlinear_conv.onnx": ["conv"],
    "onnx_matmul_integer.onnx": ["matmul"],
    "onnx_dynamic.onnx": ["matmul"],
    "onnx_conv_integer.onnx": [],
    "abi_async.mlir": ["matmul"],
}
"""What each has to tune. The zero point of the ConvInteger is an input: no configuration fits such an operation."""
INPUTS = {"torch_dynamic.mlir": ("4x8xf32",), "onnx_dynamic.onnx": ("4x8xf32",)}
_KINDS = {"contraction": "matmul", "convolution": "conv", "attention": "attention"}


def read(name: str, folder: Path) -> ModelStructure:
    if name.endswith(".onnx"):
        pytest.importorskip("onnx")
    tools, target = Tools.find(), Target.parse("cpu")
    given = INPUTS.get(name, ())
    program = Program.open(EXPORTED / name, folder=folder / "models", tools=tools).called(inputs=given)
    model = Model(EXPORTED / name, inputs=given)
    builder = ProgramBuilder(tools, Cache(folder / "cache"), program)
    return read_structure(builder, model, list(target.compile_flags), target="cpu", timeout=120)


@pytest.mark.parametrize("name", ROOTS)
def test_every_root_of_an_exported_program_is_a_problem_of_its_own(name: str, tmp_path: Path) -> None:
    structure = read(name, tmp_path)
    assert sorted(_KINDS[group.root.kind] for group in structure.groups) == sorted(ROOTS[name])
    for group in structure.groups:
        piece = group.leading({})
        assert runs_alone(piece, group.root) == ""
        with ir.Context() as context:
            ir.Module.parse(problem_mlir(DispatchProblem(piece, group.root, "alone")), context=context)


def test_every_exported_program_is_tried() -> None:
    assert set(ROOTS) == {path.name for path in EXPORTED.iterdir()} - {"README.md"}


@pytest.mark.parametrize(
    ("name", "states"),
    [
        ("torch_mlp", ["estimated", "estimated"]),
        ("torch_conv", ["estimated", "left-out", "left-out", "left-out"]),  # by a substituted executable
    ],
)
def test_a_torch_program_is_tuned_from_end_to_end(name: str, states: list[str], tmp_path: Path) -> None:
    words = [str(EXPORTED / f"{name}.mlir"), "--workspace", str(tmp_path), "--json", "--quiet"]
    limits = ["--target", "cpu", "--device", "none", "--trials", "1", "--top", str(states.count("estimated"))]
    done = CliRunner().invoke(app, ["model", *words, *limits], catch_exceptions=False)
    assert done.exit_code == 0, done.stderr
    document = json.loads(done.stdout)
    # Where the compiler's own choice looks best on this machine there is nothing to gain.
    found = [dispatch["state"] for dispatch in document["dispatches"]]
    assert ["estimated" if state == "no-gain" else state for state in found] == states
    assert [dispatch["applied"] for dispatch in document["dispatches"]] == [int(s == "estimated") for s in found]


def test_results_that_numpy_has_no_format_for_are_read_too(tmp_path: Path) -> None:
    structure = read("torch_bf16.mlir", tmp_path)
    tools, flags = Tools.find(), list(Target.parse("cpu").compile_flags)
    program = Program(EXPORTED / "torch_bf16.mlir", "torch_bf16")
    assert structure.flow.signature.results == ("bf16",)
    call, _ = call_of(program, structure.flow.signature, tmp_path / "inputs", seed=0)
    built = ProgramBuilder(tools, Cache(tmp_path / "cache"), program).build(flags, timeout=120)
    (outputs,) = ProcessDevice(tools, "local-sync", tmp_path).check(built.vmfb, [call], timeout=60)
    assert outputs.failure is None, outputs.detail
    (result,) = outputs.arrays
    x, y = (np.fromfile(tmp_path / "inputs" / f"input{n}.bin", ml_dtypes.bfloat16) for n in (0, 1))
    wanted = x.reshape(4, 8).astype(np.float32) @ y.reshape(8, 6).astype(np.float32)
    positive = wanted.ravel() > 0.5  # where GELU is nearly the identity
    np.testing.assert_allclose(result.astype(np.float32)[positive], wanted.ravel()[positive], rtol=0.5)
