"""Files that become a program in MLIR first: ONNX by IREE's own importer, and dispatches that iree-compile has dumped.

A dispatch is what `--iree-hal-dump-executable-benchmarks-to` writes: one configured executable and the code that runs
it on buffers. The program has the executable's own operations on tensors: what was loaded from a buffer is an argument,
what was stored into one is a result. The configuration that the compiler had chosen is taken away.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from iree.compiler import ir

from autotuner.errors import EnvironmentFailure, UsageError
from autotuner.iree import versions
from autotuner.iree.mlir import parse, walk
from autotuner.specfiles.entries import DEEPEST
from autotuner.system import process
from autotuner.system.cache import Cache
from autotuner.system.digests import known_digest
from autotuner.system.files import write_whole
from autotuner.system.text import nesting
from autotuner.system.workspace import refuse_endless

ENDING = "_benchmark.mlir"
_LOADS = ("iree_codegen.load_from_buffer", "iree_tensor_ext.dispatch.tensor.load")
_STORES = ("iree_codegen.store_to_buffer", "iree_tensor_ext.dispatch.tensor.store")
_BUFFERS = ("hal.interface.binding.subspan", "amdgpu.fat_raw_buffer_cast", "memref.assume_alignment")
_CONFIGURED = ("lowering_config", "compilation_info", "translation_info", "root_op")
_DUMP = "Dump it again with this IREE, by --iree-hal-dump-executable-benchmarks-to=DIR."
_IMPORT_SECONDS = 600.0
_FORM = "8"
"""The version of what is done to a model before its import; part of the cache key."""


def import_onnx(path: Path, folder: Path, *, name: str) -> Path:
    """Imports the model as MLIR in a process of its own; the same model with the same weights is imported once."""
    if find_spec("onnx") is None or find_spec("onnxscript") is None:
        raise EnvironmentFailure(f"{path.name} needs onnx and onnxscript.", remedy="Run: pip install onnx onnxscript")
    folder.mkdir(parents=True, exist_ok=True)
    # Another importer may write something else, and what it writes may be for its own compiler only.
    key = Cache.key([_FORM, known_digest(path), versions.bindings_version(), versions.package("onnx")])
    imported = folder / f"{name}-{key[:12]}.mlir"
    if imported.is_file() and _unchanged(imported.with_suffix(".json"), path.parent):
        return imported
    with process.temporary(".making-", folder) as making:
        part = making.absolute() / imported.name
        words = process.own_module("autotuner.programs.onnx_worker", path.absolute(), part)
        done = process.run(words, timeout=_IMPORT_SECONDS, cwd=making)
        if not done.ok:
            raise UsageError(
                f"IREE's importer does not take {path}: {process.last_line(done.why())}.",
                remedy="Mend what it names, or export the model again.",
            )
        part.with_suffix(".json").replace(imported.with_suffix(".json"))
        part.replace(imported)
    return imported


def _unchanged(record: Path, folder: Path) -> bool:
    """Whether the model's external weight files are unchanged since its import."""
    try:
        read = json.loads(record.read_text())["read"]
        return all(known_digest(folder / name) == digest for name, digest in read.items())
    except (OSError, ValueError, AttributeError, KeyError, TypeError):
        return False


def input_names(program: Path) -> list[str]:
    """The input names of an imported model, in order; MLIR keeps none."""
    record = program.with_suffix(".json")
    return [str(name) for name in json.loads(record.read_text())["inputs"]] if record.is_file() else []


def import_benchmark(path: Path, folder: Path, *, name: str) -> Path:
    """The dispatch of a benchmark file as a program of its own, in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / f"{name}-{known_digest(path)[:12]}.mlir"
    refuse_endless(path, "dispatch")
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}.", remedy="Check the path.") from error
    write_whole(program, dispatch_program(text, path=path))
    return program


def dispatch_program(text: str, *, path: Path) -> str:
    """The text of the program."""
    if nesting(text) > DEEPEST:
        raise UsageError(f"{path} is nested too deep for a dispatch.", remedy=_DUMP)
    with ir.Context() as context, ir.Location.unknown(context):
        try:
            module = parse(text, context)
        except EnvironmentFailure as error:
            raise UsageError(f"{path} does not parse as MLIR of this IREE.", remedy=_DUMP) from error
        functions = [op for op in walk(module.operation) if op.name == "func.func" and _loads(op)]
        if not functions:
            raise UsageError(f"{path} computes nothing on tensors.", remedy="It copies or fills: nothing is to tune.")
        if len(functions) > 1:
            raise UsageError(f"{path} has {len(functions)} dispatches, not one.", remedy=_DUMP)
        _to_tensors(functions[0], path)
        program = ir.Module.create()
        functions[0].detach_from_parent()
        program.body.append(functions[0])
        if not program.operation.verify():
            raise UsageError(f"{path}: its dispatch makes no program.", remedy=_DUMP)
        return str(program)


def _loads(function: Any) -> bool:
    return any(op.name in _LOADS for op in walk(function))


def _to_tensors(function: Any, path: Path) -> None:
    """Changes the function in place: it takes and returns tensors."""
    block = function.regions[0].blocks[0]
    results = []
    for op in list(block.operations):
        inner = op.operation
        if inner.name in _LOADS:
            _refuse_part(inner.results[0].type, inner.operands[0].type, path)
            argument = block.add_argument(inner.results[0].type, ir.Location.unknown())
            inner.results[0].replace_all_uses_with(argument)
            inner.erase()
        elif inner.name in _STORES:
            _refuse_part(inner.operands[0].type, inner.operands[1].type, path)
            results.append(inner.operands[0])
            inner.erase()
        elif inner.name == "hal.interface.constant.load":
            raise UsageError(f"{path} has sizes that are known at run time only.", remedy="Tune the model it is from.")
    for op in reversed(list(_dead(block))):
        op.erase()
    for op in (function, *walk(function)):
        for attribute in _CONFIGURED:
            if attribute in op.attributes:
                del op.attributes[attribute]
    end = block.operations[len(block.operations) - 1]
    with ir.InsertionPoint(end):
        ir.Operation.create("func.return", operands=results)
    end.operation.erase()
    kind = ir.FunctionType.get([a.type for a in block.arguments], [r.type for r in results])
    function.attributes["function_type"] = ir.TypeAttr.get(kind)
    function.attributes["sym_name"] = ir.StringAttr.get(_plain(ir.StringAttr(function.attributes["sym_name"]).value))


def _dead(block: Any) -> Iterator[Any]:
    """The operations that only led to the buffers."""
    for op in block.operations:
        if op.operation.name in _BUFFERS:
            yield op.operation


def _refuse_part(tensor: Any, buffer: Any, path: Path) -> None:
    """Refuses a tensor that is only a part of its buffer."""
    part = ir.RankedTensorType(tensor)
    whole = _whole(buffer)
    if not part.has_static_shape or (part.shape, part.element_type) != (whole.shape, whole.element_type):
        raise UsageError(f"{path} works on parts of its buffers.", remedy="Tune the model that it is from.")


def _whole(buffer: Any) -> Any:
    """The type of all that a buffer holds."""
    if isinstance(buffer, ir.MemRefType):
        return buffer
    # `!iree_tensor_ext.dispatch.tensor<readonly:tensor<4x8xf32>>` has no class of its own in the bindings.
    inside = str(buffer).partition(":")[2].removesuffix(">")
    return ir.RankedTensorType(ir.Type.parse(inside))


def _plain(name: str) -> str:
    return "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in name)
