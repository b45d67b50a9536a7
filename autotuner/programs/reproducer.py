"""The smallest part of a program that a compile refuses with the same words.

The compiler's error names the place in the program. The operation there is taken out, then with those that it reads,
then with those that read it, until the same error appears; then one after the other is left out. What these need from
the rest are arguments; so are weights.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from iree.compiler import ir

from autotuner.iree.compile import Compile, compile_program
from autotuner.iree.mlir import maker, walk
from autotuner.iree.tools import Tools
from autotuner.system import process
from autotuner.system.files import write_whole

LONGEST = 60
"""Lines of a reproducer that a person reads at once, and that a report of a bug has."""
_SMALL = 64
"""The most elements of a constant that is kept: sizes and axes are such, weights are not."""
_ERROR = re.compile(r"^(.*):(\d+):(\d+): error: (.*)$", re.MULTILINE)
_SECONDS = 30.0
"""One compile of a part may take so long, and to leave some out again: most fail within a second or two."""


@dataclass(frozen=True)
class Refusal:
    """Where in a file an error is, and what it says."""

    file: str
    line: int
    column: int
    words: str

    @classmethod
    def read(cls, stderr: str) -> Refusal | None:
        """The first error with a place; None where the compiler names none."""
        found = _ERROR.search(stderr)
        return cls(found[1], int(found[2]), int(found[3]), found[4]) if found else None

    def names(self, location: Any) -> bool:
        """Whether it is there; some locations name no place."""
        return (getattr(location, "start_line", 0), getattr(location, "start_col", 0)) == (self.line, self.column)


def reproduce(whole: Compile, stderr: str, tools: Tools, path: Path) -> str:
    """Writes the smallest part of a program in a file that fails alike to `path`; returns what was found, in words."""
    program, refusal = whole.program, Refusal.read(stderr)
    if refusal is not None and refusal.file != str(program):
        # With dumps the compiler names places in what it dumped.
        refusal = Refusal.read(_stderr(replace(whole, stop=None, dumps=()), tools))
    if refusal is None:
        return "no smaller reproducer: the compiler names no place in the program"
    with ir.Context(), ir.Location.unknown():
        try:
            module = ir.Module.parseFile(str(program))
        except ir.MLIRError:
            return "no smaller reproducer: the MLIR bindings do not read the program"
        for chosen in _parts(module.operation, refusal):
            if _fails_alike(whole, chosen, refusal, tools):
                write_whole(path, _program(_smaller(whole, chosen, refusal, tools)))
                return f"a part that fails alike: {path}"
    return f"no smaller reproducer: no part of at most {LONGEST} lines fails alike"


def _parts(module: Any, refusal: Refusal) -> Iterator[list[Any]]:
    """The operations around the place of the error, the fewest first."""
    op = next((op for op in walk(module) if _stands_in_function(op) and refusal.names(op.location)), None)
    if op is None:
        return
    yield [op]
    for users in (False, True):
        chosen = [op]
        while more := _around(chosen, users=users):
            chosen = [*chosen, *more]
            if _program(chosen).count("\n") > LONGEST:
                break
            yield chosen


def _smaller(whole: Compile, chosen: list[Any], refusal: Refusal, tools: Tools) -> list[Any]:
    """Without those that it fails without, too."""
    ends = time.monotonic() + _SECONDS
    for op in chosen:
        fewer = [one for one in chosen if one != op]
        if fewer and time.monotonic() < ends and _fails_alike(whole, fewer, refusal, tools):
            chosen = fewer
    return chosen


def _stands_in_function(op: Any) -> bool:
    return op.parent is not None and op.parent.name in ("func.func", "util.func") and not _ends(op)


def _ends(op: Any) -> bool:
    return bool(op.name.endswith("return"))


def _around(chosen: Sequence[Any], *, users: bool) -> list[Any]:
    """The operations that these read, and with `users` those that read these."""
    found = [made for op in chosen for value in op.operands if (made := maker(value)) is not None]
    if users:
        found += [use.owner.operation for op in chosen for result in op.results for use in result.uses]
    return [op for op in dict.fromkeys(found) if op not in chosen and _stands_in_function(op) and op.operands]


def _symbol(op: Any) -> bool:
    """Whether it reads what stands elsewhere in the module, such as a weight of its own."""
    return any(isinstance(op.attributes[name], ir.FlatSymbolRefAttr) for name in op.attributes)


def _constants(chosen: Sequence[Any]) -> list[Any]:
    """Small constants that these read."""
    made = (maker(value) for op in chosen for value in op.operands)
    return [one for one in made if one is not None and not one.operands and not _symbol(one) and _is_small(one)]


def _is_small(op: Any) -> bool:
    """By what it holds: a type of torch's dialect does not tell its elements to the bindings."""
    for name in op.attributes:
        with suppress(ValueError, AttributeError):
            return bool(math.prod(ir.ShapedType(op.attributes[name].type).shape) <= _SMALL)
    return True


def _program(chosen: Sequence[Any]) -> str:
    """A module with these operations in their order, as one function of what they need from the others."""
    function = chosen[0].parent
    wanted = [*chosen, *_constants(chosen)]
    ops = [op.operation for op in function.regions[0].blocks[0].operations if op.operation in wanted]
    inside = [result for op in ops for result in op.results]
    needed = list(dict.fromkeys(value for op in ops for value in op.operands if value not in inside))
    read = {value for op in ops for value in op.operands}
    results = [value for op in ops for value in op.results if value not in read]
    module = ir.Module.create()
    kind = ir.FunctionType.get([value.type for value in needed], [value.type for value in results])
    kept = {name: function.attributes[name] for name in function.attributes if name.startswith("torch.")}
    names = {"sym_name": ir.StringAttr.get("main"), "function_type": ir.TypeAttr.get(kind)}
    with ir.InsertionPoint(module.body):
        made = ir.Operation.create("func.func", attributes={**names, **kept}, regions=1)
    block = made.regions[0].blocks.append(*kind.inputs, arg_locs=[ir.Location.unknown()] * len(needed))
    known = dict(zip(needed, block.arguments, strict=True))
    with ir.InsertionPoint(block):
        for op in ops:
            clone = op.clone()
            for number, value in enumerate(op.operands):
                clone.operation.operands[number] = known[value]
            known.update(zip(op.results, clone.operation.results, strict=True))
        ir.Operation.create("func.return", operands=[known[value] for value in results])
    return f"{module}\n"


def _fails_alike(whole: Compile, chosen: Sequence[Any], refusal: Refusal, tools: Tools) -> bool:
    part = replace(whole, program=_program(chosen), timeout=_SECONDS, stop=None, dumps=())
    found = Refusal.read(_stderr(part, tools))
    return found is not None and found.words == refusal.words


def _stderr(job: Compile, tools: Tools) -> str:
    """What the compiler says where it fails."""
    with process.temporary("autotune-") as folder:
        made = compile_program(job, tools, folder)
    return "" if made.ok else made.stderr
