"""ONNX files that compute sizes, are of old opsets or have odd names: they compile, and compute what ONNX says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autotuner.iree.tools import Tools
from autotuner.programs.imports import import_onnx
from autotuner.system import process
from autotuner.targets import Target

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnx.reference")
T = onnx.TensorProto
node, value = onnx.helper.make_node, onnx.helper.make_tensor_value_info
SHAPE = (1, 4, 8, 8)


def whole(name: str, *numbers: int) -> Any:
    return onnx.numpy_helper.from_array(np.array(numbers, np.int64), name)


def modelled(
    nodes: list[Any], weights: list[Any], *, opset: int, name: str = "main", shape: Any = SHAPE, out: Any
) -> Any:
    graph = onnx.helper.make_graph(
        nodes, name, [value("x", T.FLOAT, shape)], [value("y", T.FLOAT, out)], initializer=weights
    )
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)], ir_version=8)


def group_norm() -> Any:
    """As torch writes it: back to the shape that the input had, which is asked for. What follows needs a rank."""
    nodes = [
        node("Reshape", ["x", "groups"], ["grouped"]),
        node("InstanceNormalization", ["grouped", "one", "zero"], ["normed"]),
        node("Shape", ["x"], ["shape"]),
        node("Reshape", ["normed", "shape"], ["back"]),
        node("MaxPool", ["back"], ["y"], kernel_shape=[2, 2], strides=[2, 2]),
    ]
    one, zero = (onnx.numpy_helper.from_array(np.full(2, v, np.float32), n) for n, v in (("one", 1), ("zero", 0)))
    return modelled(nodes, [whole("groups", 1, 2, -1), one, zero], opset=13, out=(1, 4, 4, 4))


def heads() -> Any:
    """As torch writes the split of a layer's last size into heads: from parts of the shape, cut at a computed place."""
    nodes = [
        node("Shape", ["x"], ["shape"]),
        node("Add", ["two", "one"], ["end"]),
        node("Reshape", ["end", "flat"], ["there"]),
        node("Slice", ["shape", "zero", "there"], ["first"]),
        node("Concat", ["first", "split"], ["wanted"], axis=0),
        node("Reshape", ["x", "wanted"], ["parts"]),
        node("Transpose", ["parts"], ["y"], perm=[3, 0, 1, 2, 4]),
    ]
    weights = [whole("zero", 0), whole("one", 1), whole("two", 2), whole("split", 2, 4), whole("flat", -1)]
    return modelled(nodes, weights, opset=17, out=(2, 1, 4, 8, 4))


def pooled(opset: int, **how: Any) -> Any:
    return modelled(
        [node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], strides=[2, 2])], [], opset=opset, out=(1, 4, 4, 4), **how
    )


@pytest.mark.parametrize(
    ("model", "function"),
    [
        (group_norm(), "main"),
        (heads(), "main"),
        (pooled(11, name="torch/jit\x1bgraph"), "torch_jit_graph"),
    ],
    ids=["shape-before-opset-15", "slice-with-a-computed-end", "opset-11-and-a-name-with-a-slash"],
)
def test_what_torch_exports_compiles_and_computes_what_onnx_says(tmp_path: Path, model: Any, function: str) -> None:
    onnx.save(model, tmp_path / "model.onnx")
    path = import_onnx(tmp_path / "model.onnx", tmp_path / "imported", name="model")
    tools, vmfb, result = Tools.find(), tmp_path / "m.vmfb", tmp_path / "y.npy"
    built = process.run([tools.iree_compile, path, *Target.parse("cpu").compile_flags, "-o", vmfb], timeout=120)
    assert built.ok, built.why()
    given = np.random.default_rng(0).standard_normal(SHAPE).astype(np.float32)
    np.save(tmp_path / "x.npy", given)
    words = [f"--module={vmfb}", "--device=local-sync", f"--function={function}", f"--input=@{tmp_path / 'x.npy'}"]
    assert process.run([tools.iree_run_module, *words, f"--output=@{result}"], timeout=60).ok
    (wanted,) = onnx.reference.ReferenceEvaluator(model).run(None, {"x": given})
    np.testing.assert_allclose(np.load(result), wanted, rtol=1e-5, atol=1e-5)
