"""Sizes that an ONNX file computes, told to the importer as numbers.

ONNX's inference of shapes does not follow all arithmetic on sizes: of `Shape` before opset 15 none, of a `Slice` whose
ends were computed and reshaped in no opset. IREE's importer takes what has no known rank for a scalar, and the compiler
refuses what computes with it. Torch writes such arithmetic for group norms and attention. Where sizes are static all of
it is known.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator

Numbers = npt.NDArray[Any]

_MOST = 64
"""Numbers in a tensor that can be a shape, or part of one."""
_ROUNDS = 256
"""Each round knows the shapes behind what the last one has folded: a layer of a transformer, say."""
DOMAINS = ("", "ai.onnx")
_ARITHMETIC = (
    *("Add", "Sub", "Mul", "Div", "Mod", "Neg", "Min", "Max", "Floor", "Ceil", "ReduceProd", "Cast", "Equal", "Where"),
    *("Gather", "Slice", "Concat", "Squeeze", "Unsqueeze", "Reshape", "Transpose", "Identity"),
    *("Range", "ConstantOfShape", "Expand"),
)


def fold_sizes(model: onnx.ModelProto) -> bool:
    """Puts numbers in the place of computed sizes where a rank is not known without; says whether there were any."""
    folded = False
    for _ in range(_ROUNDS):
        shapes = _inferred(model)
        if shapes is None or not _unranked(model.graph.node, shapes):
            break
        found = _computed(model, shapes)
        if not found:
            break
        _put(model.graph, found)
        folded = True
    return folded


def _inferred(model: onnx.ModelProto) -> dict[str, tuple[int | None, ...]] | None:
    """The shapes that are known, by name. Of large weights the shape alone matters, and none is copied.

    None where the model has an error, which the importer tells.
    """
    outline = onnx.ModelProto(ir_version=model.ir_version, opset_import=model.opset_import, functions=model.functions)
    graph = outline.graph
    graph.name = model.graph.name
    graph.node.extend(model.graph.node)
    graph.input.extend(model.graph.input)
    graph.output.extend(model.graph.output)
    given = {value.name for value in model.graph.input}
    for weight in model.graph.initializer:
        if math.prod(weight.dims) <= _MOST and weight.data_location != onnx.TensorProto.EXTERNAL:
            graph.initializer.append(weight)
        elif weight.name not in given:
            graph.input.append(onnx.helper.make_tensor_value_info(weight.name, weight.data_type, weight.dims))
    try:
        graph = onnx.shape_inference.infer_shapes(outline, data_prop=True).graph
    except Exception:
        return None
    return {
        value.name: tuple(
            size.dim_value if size.HasField("dim_value") else None for size in value.type.tensor_type.shape.dim
        )
        for value in (*graph.input, *graph.value_info, *graph.output)
        if value.type.tensor_type.HasField("shape")
    }


def _unranked(nodes: Iterable[onnx.NodeProto], shapes: dict[str, tuple[int | None, ...]]) -> bool:
    return any(name and name not in shapes for node in nodes for name in node.output)


def _computed(model: onnx.ModelProto, shapes: dict[str, tuple[int | None, ...]]) -> dict[str, Numbers]:
    """The results of nodes that compute with sizes alone, by name, where all sizes are known."""
    known = {weight.name: numpy_helper.to_array(weight) for weight in model.graph.initializer if _small(weight)}
    found: dict[str, Numbers] = {}
    for node in model.graph.node:
        if node.domain not in DOMAINS or len(node.output) != 1:
            continue
        if node.op_type == "Constant":
            value = next((one.t for one in node.attribute if one.name == "value"), None)
            if value is not None and _small(value):
                known[node.output[0]] = numpy_helper.to_array(value)
            continue
        result = _result(model, node, known, shapes)
        if result is not None and result.size <= _MOST:
            found[node.output[0]] = known[node.output[0]] = result
    return found


def _small(tensor: onnx.TensorProto) -> bool:
    return math.prod(tensor.dims) <= _MOST and tensor.data_location != onnx.TensorProto.EXTERNAL


def _result(
    model: onnx.ModelProto, node: onnx.NodeProto, known: dict[str, Numbers], shapes: dict[str, tuple[int | None, ...]]
) -> Numbers | None:
    if node.op_type == "Shape":
        shape = shapes.get(node.input[0], (None,))
        ends = {one.name: one.i for one in node.attribute}
        part = shape[ends.get("start", 0) : ends.get("end")]
        return None if None in part else np.array(part, np.int64)
    if node.op_type not in _ARITHMETIC or not all(name in known for name in node.input if name):
        return None
    names = [name for name in node.input if name]
    if not names or _grows(node, [known[name] for name in names]):
        return None
    try:
        (result,) = ReferenceEvaluator(_alone(model, node, names, known)).run(
            None, {name: known[name] for name in names}
        )
    except Exception:
        return None  # an operation of an opset that onnx's own evaluator does not have
    return np.asarray(result)


def _grows(node: onnx.NodeProto, values: list[Numbers]) -> bool:
    """A few numbers can ask for a tensor of any size."""
    if node.op_type in ("ConstantOfShape", "Expand"):
        return math.prod(int(size) for size in values[-1].ravel()) > _MOST
    if node.op_type == "Range":
        first, limit, step = (float(value) for value in values)
        return step == 0 or (limit - first) / step > _MOST
    return False


def _alone(
    model: onnx.ModelProto, node: onnx.NodeProto, names: list[str], known: dict[str, Numbers]
) -> onnx.ModelProto:
    """The node as a model of its own."""
    inputs = [
        onnx.helper.make_tensor_value_info(
            name, onnx.helper.np_dtype_to_tensor_dtype(known[name].dtype), known[name].shape
        )
        for name in dict.fromkeys(names)
    ]
    output = onnx.ValueInfoProto(name=node.output[0])
    graph = onnx.helper.make_graph([node], "alone", inputs, [output])
    return onnx.helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)


def _put(graph: onnx.GraphProto, found: dict[str, Numbers]) -> None:
    """Each result as a constant, in the place of the node that computed it."""
    for node in graph.node:
        if len(node.output) == 1 and node.output[0] in found:
            value = numpy_helper.from_array(found[node.output[0]])
            constant = onnx.helper.make_node("Constant", [], list(node.output), name=node.name, value=value)
            node.CopyFrom(constant)
