"""Programs that are changed between two phases of the compiler: read, walked, checked and written."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator

from iree.compiler import ir

from autotuner.iree.context import program_context

DISPATCH, CONSTANT = "hal.command_buffer.dispatch", "arith.constant"


class UnexpectedError(Exception):
    """A program is not as the compiler is known to leave it."""


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
