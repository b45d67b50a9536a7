"""How often a module repeats its dispatches, changed where nothing but the host's program is left to compile.

`--iree-hal-benchmark-dispatch-repeat-count=N` writes each dispatch N times into the program: at N = 2000 the compile
takes three times as long, and every other N is a compile of its own. Here IREE repeats each dispatch once, and its copy
goes into a loop. What the device is given is the same: N dispatches with IREE's own barriers between them.
"""

from __future__ import annotations

import io
from collections.abc import Iterator

from iree.compiler import ir

from autotuner.iree.context import program_context

TWICE = 2
"""How often IREE itself repeats, so that there is a copy and its barrier."""
_DISPATCH, _BARRIER = "hal.command_buffer.dispatch", "hal.command_buffer.execution_barrier"


class _UnexpectedError(Exception):
    """The program is not as IREE's repetition leaves it."""


def with_repeats(program: bytes, count: int) -> bytes | None:
    """A program whose dispatches IREE has repeated once, with so many of them; None where it is not as expected."""
    with program_context(), ir.Location.unknown():
        try:
            module = ir.Module.parse(program)
            for copy, barrier in [pair for block in _blocks(module.operation) for pair in _copies(block)]:
                if count > 1:
                    _loop(copy, barrier, times=count - 1)
                else:
                    copy.erase()
                    barrier.erase()
            module.operation.verify()
        except (ir.MLIRError, _UnexpectedError):
            return None
        file = io.BytesIO()
        module.operation.write_bytecode(file)
        return file.getvalue()


def _blocks(op: ir.Operation) -> Iterator[ir.Block]:
    for region in op.regions:
        for block in region.blocks:
            yield block
            for inner in block.operations:
                yield from _blocks(inner.operation)


def _copies(block: ir.Block) -> list[tuple[ir.Operation, ir.Operation]]:
    """Each copy of a dispatch and the barrier behind it; the dispatch itself follows."""
    ops = [op.operation for op in block.operations]
    found = [index for index, op in enumerate(ops) if op.name == _DISPATCH]
    copies = found[::2]
    if [index + 2 for index in copies] != found[1::2]:
        raise _UnexpectedError
    for copy, barrier, own in (ops[index : index + 3] for index in copies):
        if barrier.name != _BARRIER or list(copy.operands) != list(own.operands):
            raise _UnexpectedError
    return [(ops[index], ops[index + 1]) for index in copies]


def _loop(*body: ir.Operation, times: int) -> None:
    """Puts these into a loop, where the first of them is."""
    index = ir.IndexType.get()
    with ir.InsertionPoint(body[0]):
        begin, end, step = (
            ir.Operation.create(
                "arith.constant", results=[index], attributes={"value": ir.IntegerAttr.get(index, value)}
            ).result
            for value in (0, times, 1)
        )
        loop = ir.Operation.create("scf.for", operands=[begin, end, step], regions=1)
        block = loop.regions[0].blocks.append(index)
    with ir.InsertionPoint(block):
        last = ir.Operation.create("scf.yield")
    for op in body:
        op.move_before(last)
