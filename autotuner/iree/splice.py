"""A problem's host program, compiled once, with the executables of one of its candidates.

Candidates of a problem have the same host program up to two things: the bytes of their executables, and how many
workgroups each dispatch has. They are exchanged where the host's program is not begun, or where it is done.
"""

from __future__ import annotations

from iree.compiler import ir

from autotuner.iree.mlir import maker
from autotuner.iree.program import CONSTANT, DISPATCH, UnexpectedError, blocks, changed, make_index

_EXECUTABLE, _BINARY, _END = "hal.executable", "hal.executable.binary", "hal.executable_end"
_LOOKUP = "hal.executable.lookup.function"
_FUNCTION = 2
"""Which operand of a dispatch is the function that it calls; how many workgroups there are in x, y and z follows."""
_COUNTS = range(3, 6)
Counts = tuple[int, ...]
_RODATA, _VM_CONSTANT, _VM_DISPATCH = "vm.rodata", "vm.const.i32", "@hal.command_buffer.dispatch"


def spliced(host: bytes, executables: bytes) -> bytes | None:
    """The host's program of `host` with what `executables` has; None where the two do not fit each other."""
    return changed(_exchange, host, executables)


def spliced_late(done: bytes, host: bytes, made: bytes) -> bytes | None:
    """`done` is what the compiler makes of `host`; given is what it would make of `made`, a candidate of one dispatch.

    The module is then the same, byte by byte. None where that is not sure: where a constant that would have to change
    is something else as well, or its new value is there already.
    """
    return changed(_exchange_late, done, host, made)


def _exchange(program: ir.Module, made: ir.Module) -> None:
    _exchange_binaries(_binaries(program), _binaries(made))
    _exchange_counts(_dispatches(program), _counts(_dispatches(made)))


def _binaries(module: ir.Module) -> dict[str, ir.Operation]:
    """By the names of the executable and of the binary."""
    found = {}
    for executable in (op.operation for op in module.body.operations if op.operation.name == _EXECUTABLE):
        for op in (op.operation for op in executable.regions[0].blocks[0].operations):
            if op.name == _BINARY:
                found[f"{executable.attributes['sym_name']} {op.attributes['sym_name']}"] = op
            elif op.name != _END:  # not made yet
                raise UnexpectedError
    return found


def _exchange_binaries(into: dict[str, ir.Operation], made: dict[str, ir.Operation]) -> None:
    if not made or into.keys() != made.keys():
        raise UnexpectedError
    for name, op in into.items():
        if any(op.attributes[kind] != made[name].attributes[kind] for kind in ("format", "mime_type")):
            raise UnexpectedError
        op.attributes["data"] = made[name].attributes["data"]


def _dispatches(module: ir.Module) -> list[list[ir.Operation]]:
    """Those of each block that has some."""
    found = ([op for op in block if op.name == DISPATCH] for block in blocks(module.operation))
    return [block for block in found if block]


def _counts(dispatches: list[list[ir.Operation]]) -> dict[str, Counts]:
    """How many workgroups each function is dispatched with: everywhere as many, or it is not known."""
    found: dict[str, Counts] = {}
    for op in (op for block in dispatches for op in block):
        counts = tuple(_constant(op.operands[index]) for index in _COUNTS)
        if found.setdefault(_function(op), counts) != counts:
            raise UnexpectedError
    return found


def _exchange_counts(dispatches: list[list[ir.Operation]], counts: dict[str, Counts]) -> None:
    if {_function(op) for block in dispatches for op in block} != counts.keys():
        raise UnexpectedError
    for block in dispatches:
        made: dict[int, ir.Value] = {}  # a dispatch and its copy have the same operands
        for op in block:
            for index, count in zip(_COUNTS, counts[_function(op)], strict=True):
                if _constant(op.operands[index]) != count:
                    if count not in made:
                        with ir.InsertionPoint(block[0]):
                            made[count] = make_index(count)
                    op.operands[index] = made[count]


def _exchange_late(done: ir.Module, host: ir.Module, made: ir.Module) -> None:
    counts = list(_counts(_dispatches(made)).values())
    before, after = _binaries(host), _binaries(made)
    if len(counts) != 1 or len(before) != 1 or before.keys() != after.keys():
        raise UnexpectedError
    ((name, own),) = before.items()
    ops = [op for block in blocks(done.operation) for op in block]
    dispatches = [op for op in ops if "callee" in op.attributes and str(op.attributes["callee"]) == _VM_DISPATCH]
    data = [op for op in ops if op.name == _RODATA and op.attributes["value"] == own.attributes["data"]]
    if len(data) != 1 or not dispatches:
        raise UnexpectedError
    data[0].attributes["value"] = after[name].attributes["data"]
    _recount(dispatches, counts[0])


def _recount(dispatches: list[ir.Operation], counts: Counts) -> None:
    """Changes the constants that say how many workgroups there are, where nothing else has to do with them."""
    for index, count in zip(_COUNTS, counts, strict=True):
        constant, *others = [maker(op.operands[index], _VM_CONSTANT) for op in dispatches]
        if constant is None or any(other != constant for other in others):
            raise UnexpectedError
        if _value(constant) == count:
            continue
        for use in constant.result.uses:
            at = use.operand_number
            if use.owner.operation not in dispatches or at not in _COUNTS or counts[at - _COUNTS.start] != count:
                raise UnexpectedError
        beside = (op.operation for op in constant.block.operations if op.operation.name == _VM_CONSTANT)
        if any(_value(other) == count for other in beside):
            raise UnexpectedError
        constant.attributes["value"] = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), count)


def _function(dispatch: ir.Operation) -> str:
    lookup = maker(dispatch.operands[_FUNCTION], _LOOKUP)
    if lookup is None:
        raise UnexpectedError
    return str(lookup.attributes["entry_point"])


def _constant(value: ir.Value) -> int:
    constant = maker(value, CONSTANT)
    if constant is None:
        raise UnexpectedError
    return _value(constant)


def _value(constant: ir.Operation) -> int:
    return int(ir.IntegerAttr(constant.attributes["value"]).value)
