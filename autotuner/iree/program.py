"""Edits programs between two phases of the compiler, so that what candidates share is compiled once.

Candidates share the host program but for the bytes of executables and the workgroup counts, which are exchanged. For
several numbers of repeats, IREE repeats each dispatch once, and the copy is put into a loop, where IREE itself would
write each dispatch N times. The device gets the same: N dispatches with IREE's own barriers between them.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from iree.compiler import ir

from autotuner.iree.mlir import maker, program_context

DISPATCH, CONSTANT = "hal.command_buffer.dispatch", "arith.constant"


class UnexpectedError(Exception):
    """A program does not have the form that this compiler is known to give it."""


def changed(change: Callable[..., None], program: bytes, *others: bytes) -> bytes | None:
    """The program after `change`, which also reads the others; None where one has an unexpected form."""
    with program_context(), ir.Location.unknown():
        try:
            module, *read = [ir.Module.parse(one) for one in (program, *others)]
            change(module, *read)
            module.operation.verify()
        except (ir.MLIRError, KeyError, UnexpectedError):
            return None
        file = io.BytesIO()
        module.operation.write_bytecode(file)
        return file.getvalue()


def blocks(op: ir.Operation) -> Iterator[list[ir.Operation]]:
    """The operations of each block below an operation."""
    for region in op.regions:
        for block in region.blocks:
            ops = [inner.operation for inner in block.operations]
            yield ops
            for inner in ops:
                yield from blocks(inner)


def make_index(value: int) -> ir.Value:
    """A constant at the insertion point."""
    index = ir.IndexType.get()
    attributes = {"value": ir.IntegerAttr.get(index, value)}
    return ir.Operation.create(CONSTANT, results=[index], attributes=attributes).result


# --- How often a module repeats its dispatches ----------------------------------------------------------------------

TWICE = 2
"""The repeats that IREE is asked for, so that there is a copy and its barrier."""
_BARRIER = "hal.command_buffer.execution_barrier"


def with_repeats(program: bytes, count: int) -> bytes | None:
    """A program, whose dispatches IREE has repeated once, with so many repeats; None: unexpected form."""

    def repeat(module: ir.Module) -> None:
        for copy, barrier in [pair for block in blocks(module.operation) for pair in _copies(block)]:
            if count > 1:
                _loop(copy, barrier, times=count - 1)
            else:
                copy.erase()
                barrier.erase()

    return changed(repeat, program)


def _copies(ops: list[ir.Operation]) -> list[tuple[ir.Operation, ir.Operation]]:
    """Each copy of a dispatch with its barrier; the dispatch itself follows."""
    found = [index for index, op in enumerate(ops) if op.name == DISPATCH]
    copies = found[::2]
    if [index + 2 for index in copies] != found[1::2]:
        raise UnexpectedError
    for copy, barrier, own in (ops[index : index + 3] for index in copies):
        if barrier.name != _BARRIER or list(copy.operands) != list(own.operands):
            raise UnexpectedError
    return [(ops[index], ops[index + 1]) for index in copies]


def _loop(*body: ir.Operation, times: int) -> None:
    """Moves these operations into a loop at the first one's place."""
    with ir.InsertionPoint(body[0]):
        begin, end, step = (make_index(value) for value in (0, times, 1))
        loop = ir.Operation.create("scf.for", operands=[begin, end, step], regions=1)
        block = loop.regions[0].blocks.append(begin.type)
    with ir.InsertionPoint(block):
        last = ir.Operation.create("scf.yield")
    for op in body:
        op.move_before(last)


# --- The host's program with the executables of a candidate ---------------------------------------------------------

_EXECUTABLE, _BINARY, _END = "hal.executable", "hal.executable.binary", "hal.executable_end"
_LOOKUP = "hal.executable.lookup.function"
_FUNCTION = 2
"""The index of a dispatch's function operand; the workgroup counts in x, y and z follow."""
_COUNTS = range(3, 6)
Counts = tuple[int, ...]


def spliced(host: bytes, executables: bytes) -> bytes | None:
    """The host program of `host` with the binaries of `executables`; None where they do not match."""
    return changed(_exchange, host, executables)


def _exchange(program: ir.Module, made: ir.Module) -> None:
    _exchange_binaries(_binaries(program), _binaries(made))
    _exchange_counts(_dispatches(program), _counts(_dispatches(made)))


def _binaries(module: ir.Module) -> dict[str, ir.Operation]:
    """Binaries by the names of executable and binary."""
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
    """The dispatches of each block that has some."""
    found = ([op for op in block if op.name == DISPATCH] for block in blocks(module.operation))
    return [block for block in found if block]


def _counts(dispatches: list[list[ir.Operation]]) -> dict[str, Counts]:
    """The workgroup counts of each function; unknown where they differ between dispatches."""
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


def _function(dispatch: ir.Operation) -> str:
    lookup = maker(dispatch.operands[_FUNCTION], _LOOKUP)
    if lookup is None:
        raise UnexpectedError
    return str(lookup.attributes["entry_point"])


def _constant(value: ir.Value) -> int:
    constant = maker(value, CONSTANT)
    if constant is None:
        raise UnexpectedError
    return int(ir.IntegerAttr(constant.attributes["value"]).value)


# --- The passes from dispatches to executables ----------------------------------------------------------------------

# iree-compile compiles the host's program along with the executables: a fifth to a quarter of a candidate's compile,
# each time to the same end. By iree-opt they are made alone, by IREE's own passes in IREE's own order. They are not
# linked with each other, which costs a thirtieth: a problem of several dispatches is compiled by iree-compile.

ONE_THREAD = "--mlir-disable-threading"
_CONFIGURE = "hal.executable(iree-hal-configure-executables)"
_DUMP = "iree-hal-dump-executable-sources{path=configurations prefix=configured}"
_TRANSLATE = "hal.executable(iree-hal-translate-all-executables)"
_HOST = "iree-hal-conversion"
"""The passes of the host program without cleanup, which give the workgroup counts."""
_HOIST = "hal.executable(hal.executable.variant(iree-hal-hoist-executable-objects))"
_SERIALIZE = "iree-hal-serialize-all-executables"


def executables_command(
    iree_opt: Path, program: str, flags: Iterable[str], *, dumps: Sequence[str], output: str
) -> tuple[str, ...]:
    """The iree-opt command that makes executables from a program with formed dispatches."""
    pipeline = f"--pass-pipeline={_pipeline(dumps)}"
    return (str(iree_opt), program, pipeline, *flags, ONE_THREAD, "--emit-bytecode", "-o", output)


def _pipeline(dumps: Sequence[str]) -> str:
    """The value of `--pass-pipeline=`, with dumps of configurations and binaries if wanted."""
    dumped = (_DUMP,) if "configurations" in dumps else ()
    options = "{dump-binaries-path=binaries}" if "binaries" in dumps else ""
    steps = (_CONFIGURE, *dumped, _TRANSLATE, _HOST, _HOIST, f"hal.executable({_SERIALIZE}{options})")
    return f"builtin.module({','.join(steps)})"
