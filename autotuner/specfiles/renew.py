"""A spec's text with some of its entries, each with a new provenance: what is proven again is written anew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from iree.compiler import ir

from autotuner.carriers.provenance import ENTRY, Provenance
from autotuner.errors import UsageError
from autotuner.iree.mlir import walk
from autotuner.specfiles.entries import (
    FOREACH,
    Entry,
    module_of,
    parse_spec,
    read_module,
    read_text,
    references,
    symbol,
    text_of,
    verifies,
)
from autotuner.specfiles.matchers import symbols
from autotuner.system.text import printable


def renew(path: Path, kept: Mapping[str, Provenance], *, header: Sequence[str]) -> str:
    """The spec with only the entries of these ids, whose provenance is the given one; the rest is as it was."""
    name = str(path)
    with ir.Context() as context, ir.Location.unknown():
        module = parse_spec(read_text(path), context, name=name, file=path)
        file = read_module(module, name=name)
        for entry in file.entries:
            _renew(module.operation, entry, kept.get(entry.id), by_name=file.carrier.by_name)
        if not verifies(module.operation):
            raise UsageError(f"{name} cannot be written without its dropped entries.", remedy="Tune anew.")
        left = read_module(module, name=name).entries
        if [entry.id for entry in left] != [entry.id for entry in file.entries if entry.id in kept]:
            raise UsageError(f"{name} does not read back with the entries that stay.", remedy="Tune anew.")
        return "".join(f"// {printable(line)}\n" for line in header) + text_of(module, name=name)


def _renew(top: Any, entry: Entry, provenance: Provenance | None, *, by_name: bool) -> None:
    for op in _places(top, entry, by_name=by_name):
        if provenance is not None:
            op.attributes[ENTRY] = ir.Attribute.parse(provenance.attribute())
        elif by_name:
            op.erase()
        else:
            _take_out(top, symbol(op))


def _places(top: Any, entry: Entry, *, by_name: bool) -> list[Any]:
    """The matchers that lead to an entry, or its executable."""
    if by_name:
        return [op for op in walk(top) if op.name == "hal.executable" and symbol(op) == entry.name]
    found = []
    for foreach in [op for op in walk(top) if op.name == FOREACH]:
        named = symbols(module_of(foreach))
        pairs = zip(references(foreach, "matchers"), references(foreach, "actions"), strict=True)
        for matcher, action in pairs:
            there = matcher in named and action in named
            if there and (matcher == entry.name or _calls(named[action], entry.action)):
                found.append(named[matcher])
    return found


def _calls(action: Any, function: str) -> bool:
    """Of a microkernel's action: is this the function that it puts in?"""
    imported = [op for op in walk(action) if op.name == "transform.util.import_symbol"]
    return any(ir.SymbolRefAttr(op.attributes["symbol"]).value[-1] == function for op in imported)


def _take_out(top: Any, matcher: str) -> None:
    """Nothing tries the matcher any more; the operations themselves stay where others may refer to them."""
    for foreach in [op for op in walk(top) if op.name == FOREACH]:
        names = references(foreach, "matchers")
        actions = references(foreach, "actions")
        left = [number for number, name in enumerate(names) if name != matcher]
        if not left and len(foreach.results) == 1:  # one without a pair is refused: what it goes through is as it was
            foreach.results[0].replace_all_uses_with(foreach.operands[0])
            foreach.erase()
            continue
        for attribute, of in (("matchers", names), ("actions", actions)):
            foreach.attributes[attribute] = ir.ArrayAttr.get([ir.FlatSymbolRefAttr.get(of[i]) for i in left])
    named = symbols(top)
    if matcher in named:
        named[matcher].erase()
