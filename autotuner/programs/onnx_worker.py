"""Imports one ONNX file, in a process of its own: `python -m autotuner.programs.onnx_worker MODEL.onnx OUT.mlir`.

It is IREE's own importer, which reads values of some types only as raw bytes. Converters also write them as numbers
(an f16 as its 16 bits in an int32): such tensors become raw bytes first. Older opsets become the one that IREE's
documentation advises, and the graph gets a name that files can have.

Sizes that the file computes become numbers. ONNX's inference of shapes does not follow all arithmetic on sizes: of
`Shape` before opset 15 none, of a `Slice` whose ends were computed and reshaped in no opset. IREE's importer takes what
has no known rank for a scalar, and the compiler refuses what computes with it. Torch writes such arithmetic for group
norms and attention. Where sizes are static all of it is known.
"""

from __future__ import annotations

import json
import math
import re
import resource
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from iree.compiler.tools.import_onnx.__main__ import main as import_model
from iree.compiler.tools.import_onnx.__main__ import parse_arguments
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator

from autotuner.system.digests import known_digest
from autotuner.system.names import is_component

Numbers = npt.NDArray[Any]

_MOST = 64
"""Numbers in a tensor that can be a shape, or part of one."""
_ROUNDS = 256
"""Each round knows the shapes behind what the last one has folded: a layer of a transformer, say."""
_DOMAINS = ("", "ai.onnx")
_ARITHMETIC = (
    *("Add", "Sub", "Mul", "Div", "Mod", "Neg", "Min", "Max", "Floor", "Ceil", "ReduceProd", "Cast", "Equal", "Where"),
    *("Gather", "Slice", "Concat", "Squeeze", "Unsqueeze", "Reshape", "Transpose", "Identity"),
    *("Range", "ConstantOfShape", "Expand"),
)
_T = onnx.TensorProto
_BYTES: dict[int, int] = {
    **dict.fromkeys((_T.FLOAT16, _T.BFLOAT16, _T.UINT16), 2),
    **dict.fromkeys((_T.FLOAT8E4M3FN, _T.FLOAT8E4M3FNUZ, _T.FLOAT8E5M2, _T.FLOAT8E5M2FNUZ), 1),
    **dict.fromkeys((_T.INT4, _T.UINT4), 1),
}
"""Types whose values may stand in `int32_data` and are not read from there, with the bytes of each number."""
_LONGEST = 250
MEMORY = 8 << 30
"""Bytes that an import may take beside its weights."""
_COPIES = 8
"""Of the weights, in the forms that they go through."""
_OPSET = 17
"""What the compiler has no rule for in an older opset (MaxPool before 12, say) it has in this one."""


def tensors(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Every tensor of a model: of its graph, of the graphs in it, and of its functions."""
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
    size = _BYTES.get(tensor.data_type)
    if size is None or not tensor.int32_data:
        return False
    numbers = np.array(tensor.int32_data, np.int64)
    tensor.raw_data = (numbers & (256**size - 1)).astype(f"<u{size}").tobytes()
    tensor.ClearField("int32_data")
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
    """The function is called what the graph is, and files after it; says whether that had to change."""
    if is_component(graph.name):
        return False
    graph.name = re.sub(r"[^A-Za-z0-9_]+", "_", graph.name).strip("_")[:100] or "main"
    return True


def is_older(model: onnx.ModelProto) -> bool:
    """ONNX's own converter can bring it to the newer opset; it leaves functions of the model behind."""
    versions = [one.version for one in model.opset_import if one.domain in _DOMAINS]
    return not model.functions and 0 < max(versions, default=0) < _OPSET


def main(source: Path, imported: Path) -> None:
    """Writes `imported`, and beside it (.json) the digests of the other files that were read."""
    model = onnx.ModelProto.FromString(source.read_bytes())
    _limit_memory(model, source)
    changed = [normalise(tensor) for tensor in tensors(model)]
    changed += [rename(model.graph), fold_sizes(model)]
    given = source
    if any(changed):
        given = imported.with_suffix(".onnx")
        given.write_bytes(model.SerializeToString())
    words = [str(given), "-o", str(imported), "--data-dir", str(source.parent)]
    try:
        if not (is_older(model) and _converted(words)):
            import_model(parse_arguments(words))
    finally:
        if given != source:
            given.unlink()
    read = {name: known_digest(source.parent / name) for name in external_files(model)}
    imported.with_suffix(".json").write_text(json.dumps(read))


def _limit_memory(model: onnx.ModelProto, source: Path) -> None:
    """A file of 200 bytes can ask ONNX's inference for a trillion sizes: it must not take the machine with it."""
    beside = (source.parent / name for name in external_files(model))
    most = MEMORY + _COPIES * sum(path.stat().st_size for path in (source, *beside) if path.is_file())
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def _converted(words: list[str]) -> bool:
    """Imported from the newer opset; what the converter does not take is imported as it is."""
    try:
        import_model(parse_arguments([*words, "--opset-version", str(_OPSET)]))
    except Exception:
        return False
    return True


def _message(error: Exception) -> str:
    """In one line; an importer's message may have a whole tensor in it."""
    words = " ".join(str(error).split()).rstrip(".") or type(error).__name__
    return words if len(words) <= _LONGEST else f"{words[:_LONGEST]} …"


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
        if node.domain not in _DOMAINS or len(node.output) != 1:
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


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]), Path(sys.argv[2]))
    except Exception as error:  # Whatever the importer raises, its words are what a user needs.
        sys.exit(_message(error))
