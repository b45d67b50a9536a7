"""Makes the benchmark models: the architectures that the onnx wheel ships, with seeded random weights.

Their own weights are splats, which the compiler folds into something that is not the network any more.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper, version_converter

OPSET = 17
IR_VERSION = 8
"""What IREE 3.13's importer and the runtimes to compare with all read."""


_ELEMENTS = {"f32": (np.float32, onnx.TensorProto.FLOAT), "f16": (np.float16, onnx.TensorProto.FLOAT16)}


def make(name: str, path: Path, *, seed: int = 0, dtype: str = "f32") -> Path:
    """Writes `light_NAME.onnx` of the onnx wheel with real weights; the network's input is its only input left."""
    source = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light" / f"light_{name}.onnx"
    model = version_converter.convert_version(onnx.load(source), OPSET)
    model.ir_version = IR_VERSION
    graph = model.graph
    rng = np.random.default_rng(seed)
    element, code = _ELEMENTS[dtype]
    weights = {name: array.astype(element) for name, array in _weights(graph, rng).items()}
    kept = [t for t in graph.initializer if t.name not in weights and not t.name.endswith("__SHAPE")]
    nodes = [n for n in graph.node if n.op_type != "ConstantOfShape"]
    used = {name for node in nodes for name in node.input}
    inputs = [
        i for i in graph.input if i.name in used and i.name not in weights and i.name not in {t.name for t in kept}
    ]
    for field, values in (("initializer", kept), ("node", nodes), ("input", inputs)):
        graph.ClearField(field)
        getattr(graph, field).extend(values)
    graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in weights.items())
    for value in (*graph.input, *graph.output):
        value.type.tensor_type.elem_type = code
    del graph.value_info[:]
    graph.name = name
    onnx.checker.check_model(model)
    onnx.save(model, path)
    return path


def _weights(graph: Any, rng: np.random.Generator) -> dict[str, np.ndarray[Any, Any]]:
    """An array for each parameter of a convolution, product or normalisation: signals keep their size on the way."""
    shapes = {t.name: tuple(t.dims) for t in graph.initializer}
    for node in graph.node:
        if node.op_type == "ConstantOfShape":
            wanted = next(t for t in graph.initializer if t.name == node.input[0])
            shapes[node.output[0]] = tuple(int(size) for size in numpy_helper.to_array(wanted))
    reshaped = {node.output[0]: node.input[0] for node in graph.node if node.op_type == "Reshape"}
    weights: dict[str, np.ndarray[Any, Any]] = {}
    for node in graph.node:
        if node.op_type in ("Conv", "Gemm"):
            weight = reshaped.get(node.input[1], node.input[1])
            shape = shapes[weight]
            # A reshaped weight has ones before its sizes.
            deviation = math.sqrt(2.0 / math.prod(shape[1:] if weight == node.input[1] else shape[-1:]))
            weights[weight] = rng.normal(0.0, deviation, shape)
            if len(node.input) > 2:
                weights[node.input[2]] = rng.normal(0.0, 0.1, shapes[node.input[2]])
        elif node.op_type == "BatchNormalization":
            scale, bias, mean, variance = node.input[1:5]
            weights[scale] = rng.uniform(0.5, 1.0, shapes[scale])
            weights[bias] = rng.normal(0.0, 0.1, shapes[bias])
            weights[mean] = rng.normal(0.0, 0.1, shapes[mean])
            weights[variance] = rng.uniform(0.8, 1.2, shapes[variance])
    return weights
