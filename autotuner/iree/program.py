"""Changes programs between two phases of the compiler, so that what candidates share is compiled once.

They share the host's program up to the bytes of their executables and the number of their workgroups: these are
exchanged where that program is not begun. A module is wanted with several numbers of repeats: IREE
repeats each dispatch once here, and its copy goes into a loop, where IREE itself writes each dispatch N times. What the
device is given is the same: N dispatches with IREE's own barriers between them.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from iree.compiler import ir

from autotuner.iree.mlir import maker, program_context

DISPATCH, CONSTANT = "hal.command_buffer.dispatch", "arith.constant"


class UnexpectedError(Exception):
    """A program does not have the form that the compiler is known to give it."""


def changed(change: Callable[..., None], program: bytes, *others: bytes) -> bytes | None:
    """The program as `change` leaves it, which reads the others; None where one of them is not as expected."""
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
    """A constant, where operations are put in."""
    index = ir.IndexType.get()
    attributes = {"value": ir.IntegerAttr.get(index, value)}
    return ir.Operation.create(CONSTANT, results=[index], attributes=attributes).result


# --- How often a module repeats its dispatches ----------------------------------------------------------------------

TWICE = 2
"""How often IREE itself repeats, so that there is a copy and its barrier."""
_BARRIER = "hal.command_buffer.execution_barrier"


def with_repeats(program: bytes, count: int) -> bytes | None:
    """A program whose dispatches IREE has repeated once, with so many of them; None where it is not as expected."""

    def repeat(module: ir.Module) -> None:
        for copy, barrier in [pair for block in blocks(module.operation) for pair in _copies(block)]:
            if count > 1:
                _loop(copy, barrier, times=count - 1)
            else:
                copy.erase()
                barrier.erase()

    return changed(repeat, program)


def _copies(ops: list[ir.Operation]) -> list[tuple[ir.Operation, ir.Operation]]:
    """Each copy of a dispatch and the barrier behind it; the dispatch itself follows."""
    found = [index for index, op in enumerate(ops) if op.name == DISPATCH]
    copies = found[::2]
    if [index + 2 for index in copies] != found[1::2]:
        raise UnexpectedError
    for copy, barrier, own in (ops[index : index + 3] for index in copies):
        if barrier.name != _BARRIER or list(copy.operands) != list(own.operands):
            raise UnexpectedError
    return [(ops[index], ops[index + 1]) for index in copies]


def _loop(*body: ir.Operation, times: int) -> None:
    """Puts these into a loop, where the first of them is."""
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
"""Which operand of a dispatch is the function that it calls; how many workgroups there are in x, y and z follows."""
_COUNTS = range(3, 6)
Counts = tuple[int, ...]


def spliced(host: bytes, executables: bytes) -> bytes | None:
    """The host's program of `host` with what `executables` has; None where the two do not fit each other."""
    return changed(_exchange, host, executables)


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
"""The host's program without any cleaning up: it says how many workgroups there are of each dispatch."""
_HOIST = "hal.executable(hal.executable.variant(iree-hal-hoist-executable-objects))"
_SERIALIZE = "iree-hal-serialize-all-executables"


def executables_command(
    iree_opt: Path, program: str, flags: Iterable[str], *, dumps: Sequence[str], output: str
) -> tuple[str, ...]:
    """The exact words, for a program whose dispatches are not begun."""
    pipeline = f"--pass-pipeline={_pipeline(dumps)}"
    return (str(iree_opt), program, pipeline, *flags, ONE_THREAD, "--emit-bytecode", "-o", output)


def _pipeline(dumps: Sequence[str]) -> str:
    """What `--pass-pipeline=` is given, with the configurations and the binaries dumped where that is wanted."""
    dumped = (_DUMP,) if "configurations" in dumps else ()
    options = "{dump-binaries-path=binaries}" if "binaries" in dumps else ""
    steps = (_CONFIGURE, *dumped, _TRANSLATE, _HOST, _HOIST, f"hal.executable({_SERIALIZE}{options})")
    return f"builtin.module({','.join(steps)})"
