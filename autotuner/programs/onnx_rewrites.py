"""Writes parts of ONNX graphs anew that the compiler refuses, or is slow with; each says whether there was any.

Padding that a convolution's only window does not reach is left out: the compiler refuses it where the result has one
place (a detector's last images of 2x2). Convolutions along one axis, as of sound, become those of images of one row,
which routes and kernels take. Batch norms become part of the convolution before them, or one product and one sum: else
the compiler runs a program of its own for each size of channels, at every compile. Operators of the newest opsets
become what ONNX defines them by, and what interpolates computes in f32.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import onnx
import onnx.inliner

DOMAINS = ("", "ai.onnx")
_T = onnx.TensorProto
_ALONG_ONE, _AXES_ARE_INPUTS = 3, 13
"""The rank of the weights of a convolution along one axis; the opset from which Unsqueeze takes axes as an input."""
_FEWEST = 2
"""Axes of what a batch norm takes: those behind the second are places."""
_DEFINED = ("Attention", "RMSNormalization", "RotaryEmbedding")
"""Operators since opset 23 that the compiler has no rule for, and ONNX defines by others."""
_INTERPOLATE = ("Resize", "GridSample")
"""Their rules multiply what they read with weights of f32, whatever its type is."""


def as_defined(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with ONNX's own definition in place of operators that the compiler has no rule for."""
    if not any(node.op_type in _DEFINED and node.domain in DOMAINS for node in _nodes(model.graph.node)):
        return model
    names = [(domain, name) for domain in DOMAINS for name in _DEFINED]
    model = onnx.shape_inference.infer_shapes(model)  # a definition may need types, those of weights among them
    weights = [(one.name, one.data_type, one.dims) for one in model.graph.initializer]
    model.graph.value_info.extend(onnx.helper.make_tensor_value_info(*weight) for weight in weights)
    return onnx.inliner.inline_selected_functions(model, names, inline_schema_functions=True)


def in_f32(model: onnx.ModelProto) -> bool:
    """Lets what interpolates numbers of 16 bits compute in f32."""
    graph = model.graph
    if not any(node.op_type in _INTERPOLATE for node in graph.node):
        return False
    types, nodes = _types(model), list[onnx.NodeProto]()
    for node in graph.node:
        nodes.append(node)
        if node.op_type not in _INTERPOLATE or node.input[0] not in types or _copies(node):
            continue
        kind, reads = types[node.input[0]].elem_type, 2 if node.op_type == "GridSample" else 1
        if kind not in (_T.FLOAT16, _T.BFLOAT16):
            continue
        result = node.output[0]
        for number in range(reads):
            wide = f"{result}_f32_{number}"
            nodes.insert(-1, onnx.helper.make_node("Cast", [node.input[number]], [wide], to=_T.FLOAT))
            node.input[number] = wide
        node.output[0] = f"{result}_f32"
        nodes.append(onnx.helper.make_node("Cast", [node.output[0]], [result], to=kind))
    changed = len(nodes) > len(graph.node)
    _replace_nodes(graph, nodes)
    return changed


def _copies(node: onnx.NodeProto) -> bool:
    """Whether it takes the nearest number as it is; that is a Resize's default, and no GridSample's."""
    mode = next((one.s for one in node.attribute if one.name == "mode"), b"")
    return mode == b"nearest" or (node.op_type == "Resize" and not mode)


def trim_padding(model: onnx.ModelProto) -> bool:
    """Takes padding behind the only window of a convolution away; says whether there was any."""
    convs = [(one, _ints(one)) for one in model.graph.node if one.op_type == "Conv"]
    convs = [(one, ints) for one, ints in convs if max(ints.get("strides", [1])) > 1 and any(ints.get("pads", []))]
    if not convs:
        return False
    types, changed = _types(model), False
    for conv, ints in convs:
        kernel, strides, pads = ints.get("kernel_shape", []), ints["strides"], ints["pads"]
        kind = types.get(conv.input[0])
        sizes = [dim.dim_value for dim in kind.shape.dim][2:] if kind is not None else []
        for axis, (size, width, stride) in enumerate(zip(sizes, kernel, strides, strict=False)):
            end, dilations = len(kernel) + axis, ints.get("dilations", [1] * len(kernel))
            unused = size + pads[axis] + pads[end] - dilations[axis] * (width - 1) - 1
            if size and pads[end] and 0 < unused < stride:
                pads[end] -= min(unused, pads[end])
                changed = True
        next(one for one in conv.attribute if one.name == "pads").ints[:] = pads
    return changed


def widen(model: onnx.ModelProto) -> bool:
    """Makes convolutions along one axis those of images of one row; says whether there were any."""
    graph, version = model.graph, max((one.version for one in model.opset_import if one.domain in DOMAINS), default=0)
    given = {one.name for one in graph.input}
    users = Counter(name for node in graph.node for name in node.input)
    weights = {one.name: one for one in graph.initializer if users[one.name] == 1 and one.name not in given}
    weights = {name: one for name, one in weights.items() if len(one.dims) == _ALONG_ONE}
    nodes, widened = list[onnx.NodeProto](), set[str]()
    for node in graph.node:
        nodes.append(node)
        if node.op_type != "Conv" or node.input[1] not in weights or version < _AXES_ARE_INPUTS:
            continue
        weights[node.input[1]].dims.insert(2, 1)
        for one in node.attribute:
            if one.name in ("kernel_shape", "strides", "dilations"):
                one.ints.insert(0, 1)
            elif one.name == "pads":
                one.ints[:] = [0, one.ints[0], 0, one.ints[1]]
        result = node.output[0]
        axis, image, made = (f"{result}_{what}" for what in ("axis", "image", "rows"))
        graph.initializer.append(onnx.numpy_helper.from_array(np.array([2]), axis))
        nodes.insert(-1, onnx.helper.make_node("Unsqueeze", [node.input[0], axis], [image]))
        nodes.append(onnx.helper.make_node("Squeeze", [made, axis], [result]))
        widened.add(node.input[1])
        node.input[0], node.output[0] = image, made
    for known in [one for one in graph.value_info if one.name in widened]:
        graph.value_info.remove(known)
    _replace_nodes(graph, nodes)
    return bool(widened)


def fold_norms(model: onnx.ModelProto) -> bool:
    """Puts batch norms with known numbers into the convolutions before them; of others a product and a sum are left.
    Says whether there were any."""
    graph = model.graph
    if not any(node.op_type == "BatchNormalization" for node in graph.node):
        return False
    held = {one.name: one for one in graph.initializer if one.data_location != _T.EXTERNAL}
    known = _types(model)
    users = Counter(name for one in _nodes(graph.node) for name in one.input)
    users.update(one.name for one in graph.output)
    makers, nodes = dict[str, onnx.NodeProto](), list[onnx.NodeProto]()

    def constants(**arrays: Any) -> dict[str, str] | None:
        """Their names; None where one is too large for the type."""
        with np.errstate(over="ignore"):
            cast = {name: array.astype(element) for name, array in arrays.items()}
        if not all(np.isfinite(array.astype(np.float64)).all() for array in cast.values()):
            return None
        names = {name: f"{result}_{name}" for name in cast}
        graph.initializer.extend(onnx.numpy_helper.from_array(cast[name], names[name]) for name in cast)
        return names

    for node in graph.node:
        nodes.append(node)
        result, conv, per_channel = node.output[0], makers.get(node.input[0]), _per_channel(node, held)
        makers |= dict.fromkeys(node.output, node)
        kind = known.get(node.input[0])
        if per_channel is None or kind is None or not kind.elem_type or len(kind.shape.dim) < _FEWEST:
            continue
        (scale, shift), element = per_channel, onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
        if conv is not None and _joins(conv, users, held):
            weights, *bias = (_numbers(held[name]) for name in conv.input[1:])
            weights *= scale.reshape(-1, *[1] * (weights.ndim - 1))
            new = constants(weights=weights, bias=shift + scale * (bias[0] if bias else 0.0))
            if new is not None:
                conv.input[1:] = [new["weights"], new["bias"]]
                conv.output[0], makers[result] = result, conv
                nodes.pop()
        else:
            row = (-1, *[1] * (len(kind.shape.dim) - 2))
            new = constants(scale=scale.reshape(row), shift=shift.reshape(row))
            if new is not None:
                product = f"{result}_scaled"
                nodes[-1:] = [
                    onnx.helper.make_node("Mul", [node.input[0], new["scale"]], [product]),
                    onnx.helper.make_node("Add", [product, new["shift"]], [result]),
                ]
    _replace_nodes(graph, nodes)
    used = {name for one in _nodes(graph.node) for name in one.input} | {one.name for one in graph.output}
    kept = [onnx.TensorProto.FromString(one.SerializeToString()) for one in graph.initializer if one.name in used]
    del graph.initializer[:]
    graph.initializer.extend(kept)
    return True


def _types(model: onnx.ModelProto) -> dict[str, Any]:
    """Of inputs and of what is computed, as far as ONNX infers them."""
    graph = onnx.shape_inference.infer_shapes(model).graph
    return {one.name: one.type.tensor_type for one in (*graph.input, *graph.value_info)}


def _joins(conv: onnx.NodeProto, users: Counter[str], held: dict[str, onnx.TensorProto]) -> bool:
    """Whether only what follows has the result of a convolution with known weights."""
    return conv.op_type == "Conv" and users[conv.output[0]] == 1 and held.keys() >= {*conv.input[1:]}


def _per_channel(node: onnx.NodeProto, held: dict[str, onnx.TensorProto]) -> tuple[Any, Any] | None:
    """What a batch norm multiplies with and adds; None where it is none, or not all of it is known."""
    given = {one.name: onnx.helper.get_attribute_value(one) for one in node.attribute}
    trains = given.get("training_mode", 0) or not given.get("spatial", 1) or len([*filter(None, node.output)]) > 1
    if node.op_type != "BatchNormalization" or trains or not held.keys() >= {*node.input[1:]}:
        return None
    factor, bias, mean, variance = (_numbers(held[name]) for name in node.input[1:])
    with np.errstate(all="ignore"):
        scale = factor / np.sqrt(variance + given.get("epsilon", 1e-5))
        shift = bias - mean * scale
    return (scale, shift) if np.isfinite(scale).all() and np.isfinite(shift).all() else None


def _numbers(tensor: onnx.TensorProto) -> Any:
    return onnx.numpy_helper.to_array(tensor).astype(np.float64)


def _nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """All nodes, also of inner graphs."""
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for graph in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                yield from _nodes(graph.node)


def _replace_nodes(graph: onnx.GraphProto, nodes: Iterable[onnx.NodeProto]) -> None:
    copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(copies)


def _ints(node: onnx.NodeProto) -> dict[str, list[int]]:
    """The attributes that are lists of numbers."""
    return {one.name: list(one.ints) for one in node.attribute if one.ints}
