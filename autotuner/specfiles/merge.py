"""Many tuning specs in one: the faster of two that match the same, linked by IREE's own pass, proven to be whole."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from iree.compiler import ir

from autotuner._version import __version__
from autotuner.carriers.provenance import today
from autotuner.errors import EnvironmentFailure, UsageError
from autotuner.iree.tools import Tools
from autotuner.specfiles.choice import Dropped, Place, choose
from autotuner.specfiles.entries import (
    CONFIG,
    FOREACH,
    Entry,
    parse_spec,
    read_module,
    read_text,
    references,
    verifies,
)
from autotuner.specfiles.matchers import body_key, symbols
from autotuner.specfiles.vetting import vet_spec
from autotuner.system import process
from autotuner.system.text import printable

_DEFAULT = "iree_codegen.tuning_spec_with_default_entrypoint"
_ENTRY = "iree_codegen.tuning_spec_entrypoint"
_SEQUENCE, _INCLUDE = "transform.named_sequence", "transform.include"
_TIMEOUT = 120.0


@dataclass(frozen=True, slots=True)
class Kept:
    """An entry of the merged spec, and the file that it comes from."""

    entry: Entry
    source: str

    def to_json(self) -> dict[str, Any]:
        return {**self.entry.to_json(), "source": self.source}


@dataclass(frozen=True, slots=True)
class Merged:
    """One spec made of many."""

    text: str
    kept: tuple[Kept, ...]
    """In the order in which they are tried."""
    dropped: tuple[Dropped, ...]

    @property
    def entries(self) -> tuple[Entry, ...]:
        return tuple(kept.entry for kept in self.kept)


@dataclass
class _Source:
    """One input, parsed; its operations live as long as `module`."""

    name: str
    module: ir.Module
    entries: tuple[Entry, ...]

    @property
    def foreach(self) -> Any:
        return _foreach(self.module.operation)


def merge(
    specs: Sequence[str | Path],
    *,
    tools: Tools,
    force: bool = False,
    trust: bool = False,
    made_by: Sequence[str] = (),
    names: Sequence[str] = (),
) -> Merged:
    """Merges tuning specs, given as texts or as paths.

    Of two entries that match the same operations the faster by their recorded figures is kept, or the one that has
    figures; without any it is an error, unless `force` lets the later one win. Without `trust` a spec that could do
    harm is refused.
    `made_by` are more lines for the leading comment, `names` what errors call the texts.
    """
    if not specs:
        raise UsageError("there is nothing to merge.", remedy="Name at least one spec.")
    with ir.Context() as context, ir.Location.unknown():
        sources = [_source(spec, context, name=_called(spec, i, names), trust=trust) for i, spec in enumerate(specs)]
        _refuse_clashes(sources)
        kept, dropped = choose(sources, force=force)
        for number, source in enumerate(sources):
            _reduce(source, {place.position for place in kept if place.source == number})
        _rename(sources)
        left = [source for source in sources if references(source.foreach, "matchers")]
        module = _link([source.module for source in left], context, tools)
        _tidy(module, kept)
        origin = {place.entry.key: sources[place.source].name for place in kept}
        entries = _prove(module, kept)
        result = tuple(Kept(entry, origin[entry.key]) for entry in entries)
        header = _header(result, len(specs), made_by, tools)
        text = "".join(f"// {printable(line)}\n" for line in header) + str(module)
    read_back = _read_back(text)
    if [entry.name for entry in read_back] != [entry.name for entry in entries]:
        raise EnvironmentFailure(
            "the merged spec does not read back whole.", remedy="Please report it with the inputs."
        )
    return Merged(text, result, tuple(dropped))


def _called(spec: str | Path, number: int, names: Sequence[str]) -> str:
    if names:
        return names[number]
    return str(spec) if isinstance(spec, Path) else f"spec {number + 1}"


def _source(spec: str | Path, context: ir.Context, *, name: str, trust: bool) -> _Source:
    text = read_text(spec) if isinstance(spec, Path) else spec
    module = parse_spec(text, context, name=name)
    if not trust:
        vet_spec(module, name=name)
    file = read_module(module, name=name)
    if not file.carrier.merges:
        raise UsageError(f"{name} is a {file.what}: only tuning specs are merged.", remedy="Leave it out.")
    config = symbols(module.operation).get(CONFIG)
    body = [] if config is None else [op.operation.name for op in config.regions[0].blocks[0].operations]
    if config is None or body != [FOREACH, "transform.yield"]:
        raise UsageError(
            f"{name} has another form than one foreach_match in @{CONFIG}, so IREE does not merge it.",
            remedy="Merge the specs that it was linked from.",
        )
    if _ENTRY not in config.attributes:
        _make_entry(config)
    module.operation.attributes[_DEFAULT] = ir.UnitAttr.get()
    if not verifies(module.operation):
        raise UsageError(
            f"{name} is not a tuning spec that IREE merges.",
            remedy=f"See what `iree-opt` says of it with the attribute {_DEFAULT}.",
        )
    return _Source(name, module, file.entries)


def _make_entry(config: Any) -> None:
    """A library's sequence (`--iree-codegen-transform-dialect-library`) in the form of a tuning spec's: it says that it
    is the entry, and gives what its foreach_match gives."""
    block = config.regions[0].blocks[0]
    foreach, end = (op.operation for op in block.operations)
    if not list(end.operands):
        end.erase()
        ir.Operation.create("transform.yield", operands=[foreach.results[0]], ip=ir.InsertionPoint(block))
    given, result = block.arguments[0].type, foreach.results[0].type
    config.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get([given], [result]))
    config.attributes[_ENTRY] = ir.UnitAttr.get()


def _refuse_clashes(sources: Sequence[_Source]) -> None:
    """Specs of several targets or compilers in one file would be wrong for all but one of them."""
    for what, of in (("targets", _target), ("IREE versions", _iree), ("kinds of target", _family)):
        found: dict[str, str] = {}
        for source in sources:
            for entry in source.entries:
                if value := of(entry):
                    found.setdefault(value, source.name)
        if len(found) > 1:
            parts = ", ".join(f"{value} ({name})" for value, name in found.items())
            raise UsageError(
                f"the specs are for different {what}: {parts}.", remedy="Merge those of each on their own."
            )


def _target(entry: Entry) -> str:
    return entry.provenance.target if entry.provenance else ""


def _iree(entry: Entry) -> str:
    return entry.provenance.iree if entry.provenance else ""


def _family(entry: Entry) -> str:
    return entry.family


# --- modules --------------------------------------------------------------------------------------------------------


def _foreach(top: Any) -> Any:
    return symbols(top)[CONFIG].regions[0].blocks[0].operations[0].operation


def _set_references(op: Any, attribute: str, names: Sequence[str]) -> None:
    op.attributes[attribute] = ir.ArrayAttr.get([ir.FlatSymbolRefAttr.get(name) for name in names])


def _reduce(source: _Source, positions: set[int]) -> None:
    """Takes out the other entries, and what nothing refers to any more."""
    foreach = source.foreach
    for attribute in ("matchers", "actions"):
        names = references(foreach, attribute)
        _set_references(foreach, attribute, [name for i, name in enumerate(names) if i in positions])
    _sweep(source.module.operation)


def _sweep(top: Any) -> None:
    named = symbols(top)
    foreach = _foreach(top)
    wanted = {CONFIG, *references(foreach, "matchers"), *references(foreach, "actions")}
    todo = list(wanted)
    while todo:
        for name in _included(named[todo.pop()]) & named.keys() - wanted:
            wanted.add(name)
            todo.append(name)
    for name, op in named.items():
        if op.name == _SEQUENCE and name not in wanted:
            op.erase()


def _included(sequence: Any) -> set[str]:
    found = set()
    for block in sequence.regions[0].blocks:
        for op in block.operations:
            if op.operation.name == _INCLUDE:
                found.add(ir.SymbolRefAttr(op.operation.attributes["target"]).value[0])
    return found


def _rename(sources: Sequence[_Source]) -> None:
    """Names that are in one file each: IREE's pass renames sequences, but not where another includes them."""
    taken: set[str] = set()
    for source in sources:
        named = symbols(source.module.operation)
        for name, op in named.items():
            if op.name != _SEQUENCE or name == CONFIG:
                continue
            new, number = name, 0
            while new in taken or (new != name and new in named):
                number += 1
                new = f"{name}_{number}"
            taken.add(new)
            if new != name:
                ir.SymbolTable.replace_all_symbol_uses(name, new, source.module.operation)
                ir.SymbolTable.set_symbol_name(op, new)


def _link(modules: Sequence[ir.Module], context: ir.Context, tools: Tools) -> ir.Module:
    """One module by IREE's own pass. A single one is linked already."""
    if len(modules) == 1:
        return modules[0]
    outer = ir.Module.parse("module attributes {transform.with_named_sequence} {}", context=context)
    for number, module in enumerate(modules):
        clone = module.operation.clone()
        clone.attributes["sym_name"] = ir.StringAttr.get(f"spec_{number}")
        outer.body.append(clone)
    with tempfile.TemporaryDirectory(prefix="autotune-") as folder:
        path = Path(folder) / "specs.mlir"
        path.write_text(str(outer), encoding="utf-8")
        flags = ("--iree-codegen-link-tuning-specs", *tools.printing)
        done = process.run([tools.iree_opt, *flags, path, "-o", "-"], timeout=_TIMEOUT)
    if not done.ok:
        raise EnvironmentFailure(f"IREE does not link these specs: {done.why()[-300:]}", remedy="Merge fewer of them.")
    linked = parse_spec(done.stdout, context, name="what IREE linked")
    if _DEFAULT not in linked.operation.attributes:
        raise UsageError(
            "IREE does not link these specs into one: they have symbols of the same name beside their matchers.",
            remedy="Rename them.",
        )
    return linked


def _tidy(module: ir.Module, kept: Sequence[Place]) -> None:
    """Exact sizes before ranges, which would hide them; one action where several do the same.

    Ranges stay in the order in which the files first had them: it may be the reason why the right one matches.
    """
    top = module.operation
    named, foreach = symbols(top), _foreach(top)
    matchers, actions = references(foreach, "matchers"), references(foreach, "actions")
    first: dict[str, str] = {}
    same = [first.setdefault(body_key(named[action], named), action) for action in actions]
    entries = {entry.name: entry for entry in read_module(module, name="the merged spec").entries}
    seen = {place.entry.key: number for number, place in enumerate(kept)}

    def order(number: int) -> tuple[bool, int]:
        entry = entries[matchers[number]]
        return not entry.matches.exact, seen[entry.key]

    ordered = sorted(range(len(matchers)), key=order)
    _set_references(foreach, "matchers", [matchers[i] for i in ordered])
    _set_references(foreach, "actions", [same[i] for i in ordered])
    _sweep(top)
    if not verifies(top):
        raise EnvironmentFailure("the merged spec does not verify.", remedy="Please report it with the inputs.")


def _prove(module: ir.Module, kept: Sequence[Place]) -> tuple[Entry, ...]:
    """Every entry that was kept is there, with its configuration and its provenance; nothing else is."""
    found = read_module(module, name="the merged spec").entries
    expected = {place.entry.key: _content(place.entry) for place in kept}
    if len(found) != len(expected) or {entry.key: _content(entry) for entry in found} != expected:
        missing = [place.entry.name for place in kept if place.entry.key not in {entry.key for entry in found}]
        raise EnvironmentFailure(
            f"linking has changed the entries: {', '.join(missing) or 'a configuration'} is lost.",
            remedy="Please report it with the inputs.",
        )
    return found


def _content(entry: Entry) -> Entry:
    """The entry without the names that linking may change."""
    return replace(entry, name="", action="", id="")


def _read_back(text: str) -> tuple[Entry, ...]:
    with ir.Context() as context:
        return read_module(parse_spec(text, context, name="the merged spec"), name="the merged spec").entries


def _header(kept: Sequence[Kept], count: int, made_by: Sequence[str], tools: Tools) -> list[str]:
    targets = sorted({_target(k.entry) for k in kept if _target(k.entry)}) or ["not recorded"]
    versions = sorted({_iree(k.entry) for k in kept if _iree(k.entry)}) or [tools.release]
    lines = [
        f"Tuning spec by autotune {__version__}, merged: {len(kept)} entries of {count} specs",
        f"target:     {', '.join(targets)}; IREE {', '.join(versions)}",
        f"linked by:  IREE {tools.build}",
        f"date:       {today()}",
        *made_by,
    ]
    for one in kept:
        source = one.entry.provenance
        lines.append(f"entry @{one.entry.name}: {one.entry.matches.text}")
        lines.append(f"  {source.line() if source else 'no provenance'}")
        if source and source.command:
            lines.append(f"  made by: {source.command}")
    return lines
