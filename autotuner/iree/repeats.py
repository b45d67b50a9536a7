"""How often a module repeats its dispatches, changed where nothing but the host's program is left to compile.

`--iree-hal-benchmark-dispatch-repeat-count=N` writes each dispatch N times into the program: at N = 2000 the compile
takes three times as long, and every other N is a compile of its own. Here IREE repeats each dispatch once, and its copy
goes into a loop. What the device is given is the same: N dispatches with IREE's own barriers between them.
"""

from __future__ import annotations

from iree.compiler import ir

from autotuner.iree.program import DISPATCH, UnexpectedError, blocks, changed, make_index

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
