"""Counts how often each entry of a spec applies to a program, by asking the compiler; for any spec."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from iree.compiler import ir

from autotuner.carriers.calls import count_calls, extern, roots
from autotuner.carriers.microkernel import OBJECTS_FLAG, SPEC_FLAG
from autotuner.carriers.render import SUBSTITUTION
from autotuner.iree.compile import Compile, inspect
from autotuner.iree.mlir import parse, same_attributes, symbol, walk
from autotuner.iree.tools import Tools
from autotuner.specfiles.entries import EXECUTABLE, Entry, foreaches, parse_spec, read_module
from autotuner.specfiles.flagfile import tuning_flag
from autotuner.specfiles.matchers import symbols
from autotuner.specfiles.vetting import SECONDS

BY = "__autotune_by__"
"""The attribute that names the entry of an instrumented spec on each operation that it matched."""
_ANY_OP = "!transform.any_op"


@dataclass(frozen=True, slots=True)
class EntryUse:
    """How one entry applies to a program."""

    entry: Entry
    dispatches: int
    """The number of operations with the entry's configuration in the end, or of dispatches of its kernel."""
    calls: int
    """How often the program calls those dispatches, loops aside."""
    lost: int
    """The number of matched operations whose configuration a later pass dropped or changed."""
    ops: tuple[str, ...] = ()
    """The names of the operations, each once."""

    @property
    def matched(self) -> bool:
        return self.dispatches + self.lost > 0

    def to_json(self) -> dict[str, Any]:
        numbers = {"dispatches": self.dispatches, "calls": self.calls, "lost": self.lost}
        return {**self.entry.to_json(), **numbers, "ops": list(self.ops)}


def applied(
    spec: str,
    program: str | Path,
    flags: Sequence[str],
    tools: Tools,
    *,
    objects: Path | None = None,
    timeout: float = SECONDS,
) -> tuple[EntryUse, ...]:
    """How often each entry of a spec applies to a program, compiled with `flags` (the target's).

    `objects` is the folder of a microkernel spec's objects.
    """
    source = program.absolute() if isinstance(program, Path) else program
    where = (f"{OBJECTS_FLAG}={objects.absolute()}",) if objects else ()
    job = Compile(source, tuple(flags), timeout, spec, stop="executable-configurations")
    with ir.Context() as context, ir.Location.unknown():
        module = parse_spec(spec, context, name="the spec")
        file = read_module(module, name="the spec")
        if file.carrier.brings_objects:  # the preprocessed program shows where kernels are called
            asked = replace(job, flags=(*flags, *where), spec_flag=SPEC_FLAG, stop="preprocessing")
            return _kernels_used(module, file.entries, parse(inspect(asked, tools).text, context))
        if file.carrier.by_name:  # the configured program has an executable of each name, or has not
            before = parse(inspect(replace(job, spec=None), tools).text, context)
            return tuple(_substituted(entry, before, job, tools) for entry in file.entries)
        instrument(module)
        asked = replace(job, spec=str(module), spec_flag=tuning_flag(job.flags))
        return _entries_used(file.entries, parse(inspect(asked, tools).text, context))


def instrument(module: ir.Module) -> None:
    """Gives every matcher an action of its own that also names the entry on the operation."""
    number = 0
    for foreach in foreaches(module.operation):
        said = []
        for names in foreach.names:
            pair = foreach.pair(names)
            if pair is not None:
                clone = pair.action.clone()
                names = (names[0], f"__autotune_action_{number}")
                clone.attributes["sym_name"] = ir.StringAttr.get(names[1])
                foreach.home.regions[0].blocks[0].append(clone)
                _annotate(clone, str(number))
                number += 1
            said.append(names)
        foreach.set(said)


def _annotate(action: Any, value: str) -> None:
    """Adds the attribute at the end of the action, since earlier steps may replace attributes."""
    block = action.regions[0].blocks[0]
    handle = next((argument for argument in block.arguments if str(argument.type) == _ANY_OP), None)
    if handle is None:
        return
    with ir.InsertionPoint(block.operations[len(block.operations) - 1]):
        text, any_op = ir.StringAttr.get, ir.Type.parse(_ANY_OP)
        said = ir.Operation.create(
            "transform.param.constant",
            results=[ir.Type.parse("!transform.any_param")],
            attributes={"value": text(value)},
        ).result
        # A later pass may make a new operation of this one; the function around it stays.
        function = ir.Operation.create(
            "transform.get_parent_op",
            results=[any_op],
            operands=[handle],
            attributes={"isolated_from_above": ir.UnitAttr.get()},
        ).result
        ir.Operation.create("transform.annotate", operands=[handle, said], attributes={"name": text(BY)})
        ir.Operation.create("transform.annotate", operands=[function], attributes={"name": text(f"{BY}{value}")})


def _entries_used(entries: Sequence[Entry], program: ir.Module) -> tuple[EntryUse, ...]:
    calls = _calls(program)
    uses = []
    ops = list(walk(program.operation))
    marked = [(op, ir.StringAttr(op.attributes[BY]).value) for op in ops if BY in op.attributes]
    for number, entry in enumerate(entries):
        mine = [op for op, value in marked if value == str(number)]
        kept = [op for op in mine if _kept(op, entry)]
        around = [op for op in ops if f"{BY}{number}" in op.attributes]
        there = {_executable(op) for op in mine}
        lost = len(mine) - len(kept) + sum(_executable(op) not in there for op in around)
        names = tuple(sorted({str(op.name) for op in mine}))
        uses.append(EntryUse(entry, len(kept), sum(calls[_executable(op)] for op in kept), lost, names))
    return tuple(uses)


def _kept(op: Any, entry: Entry) -> bool:
    """Whether the operation still has the entry's configuration, which a later pass may have dropped."""
    if not entry.lowering_config:
        return True  # The entry sets something else.
    if "lowering_config" not in op.attributes:
        return False
    return same_attributes([(str(op.attributes["lowering_config"]), entry.lowering_config)])[0]


def _calls(program: ir.Module) -> Counter[str]:
    """How often each executable is called."""
    counts: Counter[str] = Counter()
    for op in walk(program.operation):
        if op.name.endswith(".dispatch") and "entry_points" in op.attributes:
            counts.update(set(roots(op)))
    return counts


def _executable(op: Any) -> str:
    while op.name != EXECUTABLE:
        op = op.parent.operation
    return symbol(op)


def _kernels_used(module: ir.Module, entries: Sequence[Entry], program: ir.Module) -> tuple[EntryUse, ...]:
    """The dispatches of each kernel in the preprocessed program."""
    named = symbols(module.operation)
    wanted: list[tuple[set[Any], set[str]]] = []
    for entry in entries:
        inside = list(walk(named[entry.action]))
        externs = {extern(op) for op in inside if op.name == "hal.dispatch.extern"}
        wanted.append((externs, {name for op in inside if op.name == "flow.dispatch" for name in roots(op)}))
    counts = count_calls(program, wanted)
    return tuple(EntryUse(entry, count, count, 0) for entry, count in zip(entries, counts, strict=True))


def _substituted(entry: Entry, program: ir.Module, job: Compile, tools: Tools) -> EntryUse:
    """Whether there is a dispatch of this name, with the file's configuration after substitution."""
    calls = _calls(program)
    if not any(op.name == EXECUTABLE and symbol(op) == entry.name for op in walk(program.operation)):
        return EntryUse(entry, 0, 0, 0)
    text = inspect(replace(job, spec_flag=f"{SUBSTITUTION}={entry.name}"), tools).text
    after = parse(text, program.context)
    ops = [
        op
        for op in walk(after.operation)
        if "lowering_config" in op.attributes and _executable(op) == entry.name and _kept(op, entry)
    ]
    names = tuple(sorted({str(op.name) for op in ops}))
    return EntryUse(entry, int(bool(ops)), calls[entry.name] if ops else 0, int(not ops), names)
