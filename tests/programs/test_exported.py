"""Programs as exporters write them: every dispatch that has a root is taken out, and can be compiled alone."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from iree.compiler import ir

from autotuner.devices.process import ProcessDevice
from autotuner.iree.tools import Tools
from autotuner.problems.render import problem_mlir
from autotuner.programs.dispatch import DispatchProblem, runs_alone
from autotuner.programs.model import Model, ModelBuilder, call_of
from autotuner.programs.structure import ModelStructure, read_structure
from autotuner.system.cache import Cache
from autotuner.targets import Target
from tests.support.models import EXAMPLES

EXPORTED = EXAMPLES / "exported"
ROOTS = {
    "torch_mlp.mlir": "2 matmul",
    "torch_conv.mlir": "3 conv, 1 matmul",
    "torch_bf16.mlir": "1 matmul",
    "torch_int8.mlir": "1 matmul",
    "torch_int4.mlir": "1 matmul",
    "torch_bert.mlir": "1 attention, 4 matmul",
    "torch_decode.mlir": "1 attention, 2 matmul",
    "torch_mobilenet.mlir": "3 conv, 3 matmul",
    "torch_inception.mlir": "2 conv, 1 matmul",
    "torch_unet.mlir": "2 conv, 1 matmul",
    "torch_functions.mlir": "1 matmul",
    "onnx_llama.onnx": "7 matmul",
    "onnx_lstm.onnx": "1 matmul",
    "onnx_qdq.onnx": "1 conv, 3 matmul",
    "onnx_dynamic_quantized.onnx": "2 matmul",
    "onnx_dynamic.onnx": "1 matmul",
    "onnx_conv_integer.onnx": "",
    "abi_async.mlir": "1 matmul",
}
"""What each has to tune. The zero point of the ConvInteger is an input: no configuration fits such an operation."""
INPUTS = {"torch_bert.mlir": ("1x8xi64",), "onnx_dynamic.onnx": ("4x8xf32",)}
FUNCTIONS = {"torch_functions.mlir": "decode"}
_KINDS = {"contraction": "matmul", "convolution": "conv", "attention": "attention"}


def read(name: str, folder: Path) -> ModelStructure:
    if name.endswith(".onnx"):
        pytest.importorskip("onnx")
    tools, target = Tools.find(), Target.parse("cpu")
    given = INPUTS.get(name, ())
    model = Model(EXPORTED / name, function=FUNCTIONS.get(name), inputs=given)
    builder = ModelBuilder(tools, Cache(folder / "cache"), model.opened(folder=folder / "models", tools=tools))
    return read_structure(builder, list(target.compile_flags), target="cpu", timeout=120)


@pytest.mark.parametrize("name", ROOTS)
def test_every_root_of_an_exported_program_is_a_problem_of_its_own(name: str, tmp_path: Path) -> None:
    structure = read(name, tmp_path)
    kinds = Counter(_KINDS[group.root.kind] for group in structure.groups)
    assert ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items())) == ROOTS[name]
    pieces = [(piece, group.root) for group in structure.groups for piece in group.pieces]
    assert [why for piece, root in pieces if (why := runs_alone(piece, root))] == []
    for piece, root in pieces:
        with ir.Context() as context:
            ir.Module.parse(problem_mlir(DispatchProblem(piece, root, "alone")), context=context)
    # What each is here for.
    has = {
        "torch_inception.mlir": any(len(piece.results) > 1 for piece, _ in pieces),
        "torch_mobilenet.mlir": any(piece.tied != (None,) * len(piece.results) for piece, _ in pieces),
        "torch_bert.mlir": any(root.dynamic for _, root in pieces),
        "torch_functions.mlir": structure.flow.signature.function == "decode",
        "torch_decode.mlir": len(structure.flow.signature.results) == 3,
    }
    assert has.get(name, True)


def test_every_exported_program_is_tried() -> None:
    """Those with masks are read by the tests of patterns."""
    assert set(ROOTS) == {path.name for path in EXPORTED.iterdir()} - {"README.md", "torch_causal.mlir"}


def test_results_that_numpy_has_no_format_for_are_read_too(tmp_path: Path) -> None:
    structure = read("torch_bf16.mlir", tmp_path)
    tools, flags = Tools.find(), list(Target.parse("cpu").compile_flags)
    program = Model(EXPORTED / "torch_bf16.mlir")
    assert structure.flow.signature.results == ("bf16",)
    call, _ = call_of(program, structure.flow.signature, tmp_path / "inputs", seed=0)
    builder = ModelBuilder(tools, Cache(tmp_path / "cache"), program)
    built = builder.build(builder.job(flags, timeout=120))
    (outputs,) = ProcessDevice(tools, "local-sync", tmp_path).check(built.vmfb, [call], timeout=60)
    assert outputs.failure is None, outputs.detail
    (result,) = outputs.arrays
    x, y = (np.fromfile(tmp_path / "inputs" / f"input{n}.bin", ml_dtypes.bfloat16) for n in (0, 1))
    wanted = x.reshape(4, 8).astype(np.float32) @ y.reshape(8, 6).astype(np.float32)
    positive = wanted.ravel() > 0.5  # where GELU is nearly the identity
    np.testing.assert_allclose(result.astype(np.float32)[positive], wanted.ravel()[positive], rtol=0.5)
