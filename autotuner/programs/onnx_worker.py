"""Imports one ONNX file, in a process of its own: `python -m autotuner.programs.onnx_worker MODEL.onnx OUT.mlir`.

It is IREE's own importer, which reads values of some types only as raw bytes. Converters also write them as numbers
(an f16 as its 16 bits in an int32): such tensors become raw bytes first. Older opsets become the one that IREE's
documentation advises, and the graph gets a name that files can have. Sizes that the file computes become numbers where
they are known, by a part of the optimizer that torch's own exporter uses: IREE's importer takes what has no known rank
for a scalar. Torch writes such arithmetic for group norms and attention. Padding that a convolution's only window does
not reach is left out: the compiler refuses it where the result has one place (a detector's last images of 2x2).
Convolutions along one axis, as of sound, become those of images of one row, which routes and kernels take. Batch norms
become part of the convolution before them, or one product and one sum: else the compiler runs a program of its own for
each size of channels, at every compile.
"""

from __future__ import annotations

import json
import math
import re
import resource
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from iree.compiler.tools.import_onnx.__main__ import main as import_model
from iree.compiler.tools.import_onnx.__main__ import parse_arguments

from autotuner.system.digests import known_digest
from autotuner.system.workspace import is_component

_DOMAINS = ("", "ai.onnx")
_T = onnx.TensorProto
_READ = (_T.INT32, _T.INT16, _T.INT8, _T.UINT8, _T.BOOL)
"""Types whose values IREE's importer reads from `int32_data`."""
_LONGEST = 250
MEMORY = 8 << 30
"""Bytes that an import may take beside its weights."""
_COPIES = 8
"""Copies of the weights that an import makes."""
_HELD = 2 << 30
"""Bytes of weights beside a model that become constants of the program. Of more each becomes a parameter, which the
program loads from a file when it runs: nobody reads them here. A model without files beside it cannot have more."""
_APART = ("--externalize-params", "--no-save-params", "--large-model")
_FILLED = 1 << 14
"""The most elements of a constant that a shape makes: a mask of windows has some thousand."""
_ALONG_ONE, _AXES_ARE_INPUTS = 3, 13
"""The rank of the weights of a convolution along one axis; the opset from which Unsqueeze takes axes as an input."""
_FEWEST = 2
"""Axes of what a batch norm takes: those behind the second are places."""
_OPSET = 17
"""The opset that models are converted to: in older ones the compiler lacks rules (MaxPool before 12, say)."""


def tensors(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """All tensors of a model: those of its graph, of subgraphs, and of its functions."""
    yield from _of_graph(model.graph)
    for function in model.functions:
        yield from _of_nodes(function.node)


def _of_graph(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    yield from graph.initializer
    yield from _of_nodes(graph.node)


def _of_nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.TensorProto]:
    for node in nodes:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
            if attribute.HasField("g"):
                yield from _of_graph(attribute.g)
            for graph in attribute.graphs:
                yield from _of_graph(graph)


def normalise(tensor: onnx.TensorProto) -> bool:
    """Moves numbers that the importer does not read into raw bytes; says whether it had to."""
    if tensor.data_type in _READ or not tensor.int32_data:
        return False
    tensor.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(tensor), tensor.name))
    return True


def external_files(model: onnx.ModelProto) -> list[str]:
    """The files that hold a model's weights, relative to the model's folder."""
    found = (
        entry.value
        for tensor in tensors(model)
        if tensor.data_location == _T.EXTERNAL
        for entry in tensor.external_data
        if entry.key == "location"
    )
    return list(dict.fromkeys(found))


def rename(graph: onnx.GraphProto) -> bool:
    """Gives the graph a name that functions and files can have; returns whether it had to."""
    if is_component(graph.name):
        return False
    graph.name = re.sub(r"[^A-Za-z0-9_]+", "_", graph.name).strip("_")[:100] or "main"
    return True


def with_known_sizes(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with what it computes of constants, and of shapes, as constants.

    Of the optimizer's parts only this one: its patterns take minutes for the 6,000 nodes of a Swin Transformer.
    """
    from onnxscript import ir, optimizer

    graph = ir.from_proto(model)
    optimizer.inline(graph)
    optimizer.fold_constants(graph, onnx_shape_inference=True, should_fold=_is_small_fill)
    optimizer.remove_unused_nodes(graph)
    return ir.to_proto(graph)


def _is_small_fill(node: Any) -> bool | None:
    """The optimizer leaves all ConstantOfShape as they are, also those that sizes are computed from."""
    if node.op_type != "ConstantOfShape" or node.inputs[0] is None or node.inputs[0].const_value is None:
        return None
    return bool(math.prod(node.inputs[0].const_value.numpy().tolist()) <= _FILLED)


def trim_padding(model: onnx.ModelProto) -> bool:
    """Takes padding behind the only window of a convolution away; says whether there was any."""
    convs = [(one, _ints(one)) for one in model.graph.node if one.op_type == "Conv"]
    convs = [(one, ints) for one, ints in convs if max(ints.get("strides", [1])) > 1 and any(ints.get("pads", []))]
    if not convs:
        return False
    graph = onnx.shape_inference.infer_shapes(model).graph
    found = {one.name: one.type.tensor_type.shape.dim for one in (*graph.input, *graph.value_info)}
    changed = False
    for conv, ints in convs:
        kernel, strides, pads = ints.get("kernel_shape", []), ints["strides"], ints["pads"]
        sizes = [dim.dim_value for dim in found.get(conv.input[0], [])][2:]
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
    graph, version = model.graph, max((one.version for one in model.opset_import if one.domain in _DOMAINS), default=0)
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
    inferred = onnx.shape_inference.infer_shapes(model).graph
    known = {one.name: one.type.tensor_type for one in (*inferred.input, *inferred.value_info)}
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


def is_older(model: onnx.ModelProto) -> bool:
    """Whether ONNX's converter can bring the model to the newer opset; it drops the model's functions."""
    versions = [one.version for one in model.opset_import if one.domain in _DOMAINS]
    return not model.functions and 0 < max(versions, default=0) < _OPSET


def main(source: Path, imported: Path) -> None:
    """Writes `imported`, and beside it (.json) its inputs' names and the digests of the other files read."""
    model = onnx.ModelProto.FromString(source.read_bytes())
    beside = {name: source.parent / name for name in external_files(model)}
    weights = sum(path.stat().st_size for path in beside.values() if path.is_file())
    apart = _APART if weights > _HELD else ()
    _limit_memory(source.stat().st_size + (0 if apart else weights))
    changed = [normalise(tensor) for tensor in tensors(model)]
    changed.append(rename(model.graph))
    if any(node.op_type == "Shape" for node in model.graph.node):
        model = with_known_sizes(model)
        changed.append(True)
    changed += [trim_padding(model), widen(model), not apart and fold_norms(model)]
    given = source
    if any(changed):
        given = imported.with_suffix(".onnx")
        given.write_bytes(model.SerializeToString())
    words = [str(given), "-o", str(imported), "--data-dir", str(source.parent), *apart]
    try:
        if apart or not (is_older(model) and _converted(words)):
            import_model(parse_arguments(words))
    finally:
        if given != source:
            given.unlink()
    known = {tensor.name for tensor in model.graph.initializer}
    takes = [one.name for one in model.graph.input if one.name not in known]
    read = {} if apart else {name: known_digest(path) for name, path in beside.items()}
    imported.with_suffix(".json").write_text(json.dumps({"read": read, "inputs": takes}))


def _limit_memory(held: int) -> None:
    """Limits the process's memory: a file of 200 bytes can ask ONNX's shape inference for a trillion sizes."""
    most = MEMORY + _COPIES * held
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def _converted(words: list[str]) -> bool:
    """The model in the newer opset; where the converter fails, the model as it is."""
    try:
        import_model(parse_arguments([*words, "--opset-version", str(_OPSET)]))
    except Exception:
        return False
    return True


def _message(error: Exception) -> str:
    """An error in one line; an importer's message may hold a whole tensor."""
    words = " ".join(str(error).split()).rstrip(".") or type(error).__name__
    return words if len(words) <= _LONGEST else f"{words[:_LONGEST]} …"


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]), Path(sys.argv[2]))
    except Exception as error:  # Whatever the importer raises, its words are what a user needs.
        sys.exit(_message(error))
