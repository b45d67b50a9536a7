"""A problem's host program, compiled once, with the executables of one of its candidates.

Candidates of a problem have the same host program up to two things: the bytes of their executables, and how many
workgroups each dispatch has.
"""

from __future__ import annotations

import io
from collections.abc import Iterator

from iree.compiler import ir

from autotuner.iree.context import program_context
from autotuner.iree.mlir import maker

_EXECUTABLE, _BINARY, _END = "hal.executable", "hal.executable.binary", "hal.executable_end"
_DISPATCH, _LOOKUP, _CONSTANT = "hal.command_buffer.dispatch", "hal.executable.lookup.function", "arith.constant"
_FUNCTION = 2
"""Which operand of a dispatch is the function that it calls; how many workgroups there are in x, y and z follows."""
_COUNTS = range(3, 6)
Counts = tuple[int, ...]


class _UnexpectedError(Exception):
    """The two are not programs of one problem."""


def spliced(host: bytes, executables: bytes) -> bytes | None:
    """The host's program of `host` with what `executables` has; None where the two do not fit each other."""
    with program_context(), ir.Location.unknown():
        try:
            program, made = ir.Module.parse(host), ir.Module.parse(executables)
            _exchange_binaries(_binaries(program), _binaries(made))
            _exchange_counts(_dispatches(program), _counts(_dispatches(made)))
            program.operation.verify()
        except (ir.MLIRError, KeyError, _UnexpectedError):
            return None
        file = io.BytesIO()
        program.operation.write_bytecode(file)
        return file.getvalue()


def _binaries(module: ir.Module) -> dict[str, ir.Operation]:
    """By the names of the executable and of the binary."""
    found = {}
    for executable in (op.operation for op in module.body.operations if op.operation.name == _EXECUTABLE):
        for op in (op.operation for op in executable.regions[0].blocks[0].operations):
            if op.name == _BINARY:
                found[f"{executable.attributes['sym_name']} {op.attributes['sym_name']}"] = op
            elif op.name != _END:  # not made yet
                raise _UnexpectedError
    return found


def _exchange_binaries(into: dict[str, ir.Operation], made: dict[str, ir.Operation]) -> None:
    if not made or into.keys() != made.keys():
        raise _UnexpectedError
    for name, op in into.items():
        if any(op.attributes[kind] != made[name].attributes[kind] for kind in ("format", "mime_type")):
            raise _UnexpectedError
        op.attributes["data"] = made[name].attributes["data"]


def _dispatches(module: ir.Module) -> list[list[ir.Operation]]:
    """Those of each block that has some."""
    blocks = ([op for op in block if op.name == _DISPATCH] for block in _blocks(module.operation))
    return [block for block in blocks if block]


def _blocks(op: ir.Operation) -> Iterator[list[ir.Operation]]:
    for region in op.regions:
        for block in region.blocks:
            ops = [inner.operation for inner in block.operations]
            yield ops
            for inner in ops:
                yield from _blocks(inner)


def _counts(blocks: list[list[ir.Operation]]) -> dict[str, Counts]:
    """How many workgroups each function is dispatched with: everywhere as many, or it is not known."""
    found: dict[str, Counts] = {}
    for op in (op for block in blocks for op in block):
        counts = tuple(_constant(op.operands[index]) for index in _COUNTS)
        if found.setdefault(_function(op), counts) != counts:
            raise _UnexpectedError
    return found


def _exchange_counts(blocks: list[list[ir.Operation]], counts: dict[str, Counts]) -> None:
    if {_function(op) for block in blocks for op in block} != counts.keys():
        raise _UnexpectedError
    for block in blocks:
        made: dict[int, ir.Value] = {}  # a dispatch and its copy have the same operands
        for op in block:
            for index, count in zip(_COUNTS, counts[_function(op)], strict=True):
                if _constant(op.operands[index]) != count:
                    if count not in made:
                        made[count] = _make_constant(count, before=block[0])
                    op.operands[index] = made[count]


def _make_constant(value: int, *, before: ir.Operation) -> ir.Value:
    index = ir.IndexType.get()
    with ir.InsertionPoint(before):
        attributes = {"value": ir.IntegerAttr.get(index, value)}
        return ir.Operation.create(_CONSTANT, results=[index], attributes=attributes).result


def _function(dispatch: ir.Operation) -> str:
    lookup = maker(dispatch.operands[_FUNCTION], _LOOKUP)
    if lookup is None:
        raise _UnexpectedError
    return str(lookup.attributes["entry_point"])


def _constant(value: ir.Value) -> int:
    constant = maker(value, _CONSTANT)
    if constant is None:
        raise _UnexpectedError
    return int(ir.IntegerAttr(constant.attributes["value"]).value)
