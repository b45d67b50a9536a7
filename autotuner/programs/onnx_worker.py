"""Imports one ONNX file, in a process of its own: `python -m autotuner.programs.onnx_worker MODEL.onnx OUT.mlir`.

It is IREE's own importer, which reads values of some types only as raw bytes. Converters also write them as numbers
(an f16 as its 16 bits in an int32): such tensors become raw bytes first. Older opsets become the one that IREE's
documentation advises, and the graph gets a name that files can have. Sizes that the file computes become numbers where
they are known, by a part of the optimizer that torch's own exporter uses: IREE's importer takes what has no known rank
for a scalar. Torch writes such arithmetic for group norms and attention. What else is written anew: onnx_rewrites.
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

import onnx
from iree.compiler.tools.import_onnx.__main__ import main as import_model
from iree.compiler.tools.import_onnx.__main__ import parse_arguments

from autotuner.programs.onnx_rewrites import DOMAINS, as_defined, fold_norms, in_f32, trim_padding, widen
from autotuner.system.digests import known_digest
from autotuner.system.workspace import is_component

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


def is_older(model: onnx.ModelProto) -> bool:
    """Whether ONNX's converter can bring the model to the newer opset; it drops the model's functions."""
    versions = [one.version for one in model.opset_import if one.domain in DOMAINS]
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
    defined = as_defined(model)
    changed.append(defined is not model)
    model = defined
    if any(node.op_type == "Shape" for node in model.graph.node):
        model = with_known_sizes(model)
        changed.append(True)
    changed += [trim_padding(model), widen(model), in_f32(model), not apart and fold_norms(model)]
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
