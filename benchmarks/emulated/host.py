"""The host code of a program, interpreted: which kernels it launches, with which grids, constants and pieces of memory.

It is read as IREE has it after `--compile-to=hal`, with the sizes of one call: so that dynamic dimensions, several
dispatches and memory between them are those of the real program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import eq, ge, gt, le, lt, ne
from typing import Any

import numpy as np
import numpy.typing as npt
from iree.compiler import ir

from autotuner.programs.flow import ARITHMETIC, PASSED_ON

Bytes = npt.NDArray[np.uint8]
Grid = tuple[int, int, int]
UNWRITTEN = 0xFF
"""What memory has before anything is written: it is no number in all types of floats."""
_SAME = (*PASSED_ON, "arith.extui")
_ARITH: dict[str, Callable[..., int]] = {
    **ARITHMETIC,
    "arith.select": lambda chosen, a, b: a if chosen else b,
    "arith.shrui": lambda a, b: a >> b,
    "arith.shli": lambda a, b: a << b,
    "util.align": lambda a, b: -(-a // b) * b,
}
_COMPARED = (*(_SIGNED := (eq, ne, lt, le, gt, ge)), *_SIGNED[2:])
"""By the numbers of their predicates; sizes have no signs."""


@dataclass(frozen=True)
class Argument:
    """A tensor that the program is called with."""

    shape: tuple[int, ...]
    content: Bytes


@dataclass
class Launched:
    """A dispatch of a call."""

    kernel: str
    grid: Grid
    constants: tuple[int, ...]
    pieces: tuple[Bytes, ...]
    zeroed: bool
    """Some of its memory was filled before: its workgroups meet there, so that all of them must run."""


@dataclass
class Call:
    """One call of a program's function."""

    text: str
    arguments: Sequence[Argument]
    dispatches: list[Launched | Callable[[], None]] = field(default_factory=list)
    """What is launched, filled and copied, in order."""
    _values: dict[Any, Any] = field(default_factory=dict)
    _filled: list[int] = field(default_factory=list)

    def run(self, launch: Callable[[Launched, bool], None]) -> Bytes:
        """Launches each dispatch, with whether it is the last, and gives the result."""
        with ir.Context():
            module = ir.Module.parse(self.text)
            functions = (one for one in module.body.operations if one.operation.name == "util.func")
            public = next(one for one in functions if "iree.abi.stub" in one.attributes)
            if len(public.regions[0].blocks) != 1:
                raise NotImplementedError("host code that branches")
            block = public.regions[0].blocks[0]
            self._values.update(zip(block.arguments, self.arguments, strict=True))
            for one in block.operations:
                self._step(one.operation)
            (result,) = (self._values[one] for one in block.operations[len(block.operations) - 1].operands)
        launches = [one for one in self.dispatches if isinstance(one, Launched)]
        for step in self.dispatches:
            if isinstance(step, Launched):
                launch(step, step is launches[-1])
            else:
                step()
        return np.asarray(result, np.uint8)

    def _step(self, operation: Any) -> None:
        name = operation.name
        operands: list[Any] = [self._values.get(one) for one in operation.operands]
        found: Any = None
        if name in _ARITH:
            found = _ARITH[name](*operands)
        elif name == "arith.cmpi":
            found = int(_COMPARED[ir.IntegerAttr(operation.attributes["predicate"]).value](*operands))
        elif name in _SAME:
            self._values.update(zip(operation.results, operands, strict=True))
            return
        elif name == "arith.constant":
            found = ir.IntegerAttr(operation.attributes["value"]).value
        elif name == "arith.trunci":
            found = operands[0] & (1 << ir.IntegerType(operation.results[0].type).width) - 1
        elif name == "hal.buffer_view.dim":
            found = operands[0].shape[ir.IntegerAttr(operation.attributes["index"]).value]
        elif name == "hal.buffer_view.buffer":
            found = operands[0].content
        elif name == "hal.buffer_view.create" or name == "hal.buffer.subspan":
            found = operands[0][operands[1] : operands[1] + operands[2]]
        elif name in ("hal.device.queue.alloca", "hal.allocator.allocate"):
            found = np.full(operands[-1], UNWRITTEN, np.uint8)
        elif name == "hal.executable.lookup.function":
            found = str(operation.attributes["entry_point"]).rpartition("@")[2].strip('"')
        elif name.startswith(("arith.", "affine.")):
            raise NotImplementedError(f"host code with {name}")
        elif name.startswith("hal.command_buffer."):
            self._command(name.removeprefix("hal.command_buffer."), operation, operands)
        for result in operation.results:
            self._values[result] = found

    def _command(self, name: str, operation: Any, operands: list[Any]) -> None:
        if name == "dispatch":
            counts = list(ir.DenseI32ArrayAttr(operation.attributes["operandSegmentSizes"]))
            parts, at = [], 0
            for count in counts:
                parts.append(operands[at : at + count])
                at += count
            x, y, z = (part[0] for part in parts[3:6])
            whole = zip(parts[7], parts[8], parts[9], strict=True)
            pieces = tuple(buffer[offset : offset + length] for buffer, offset, length in whole)
            filled = any(piece.ctypes.data in self._filled for piece in pieces)
            self.dispatches.append(Launched(parts[2][0], (x, y, z), tuple(parts[6]), pieces, filled))
        elif name == "fill_buffer":
            target, start, length, pattern = operands[1:5]
            width = ir.IntegerType(operation.operands[4].type).width // 8
            content = np.frombuffer((pattern & (1 << 8 * width) - 1).to_bytes(width, "little"), np.uint8)
            piece = target[start : start + length]
            self._filled.append(piece.ctypes.data)
            self.dispatches.append(lambda: piece.__setitem__(slice(None), np.tile(content, length // width)))
        elif name == "copy_buffer":
            source, from_, target, to, length = operands[1:6]
            into, new = target[to : to + length], source[from_ : from_ + length]
            self.dispatches.append(lambda: into.__setitem__(slice(None), new))
