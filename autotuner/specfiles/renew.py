"""Rewrites a spec with some of its entries, each with a new provenance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from iree.compiler import ir

from autotuner.carriers.provenance import ENTRY, Provenance
from autotuner.errors import UsageError
from autotuner.iree.mlir import symbol, walk
from autotuner.specfiles.entries import (
    EXECUTABLE,
    SpecFile,
    foreaches,
    parse_spec,
    read_module,
    read_text,
    text_of,
    verifies,
)
from autotuner.system.text import printable


def renew(path: Path, kept: Mapping[str, Provenance], *, header: Sequence[str]) -> str:
    """The spec with only the entries of these ids, whose provenance is the given one; the rest is as it was."""
    name = str(path)
    with ir.Context() as context, ir.Location.unknown():
        module = parse_spec(read_text(path), context, name=name, file=path)
        file = read_module(module, name=name)
        _renew(module.operation, file, kept)
        if not verifies(module.operation):
            raise UsageError(f"{name} cannot be written without its dropped entries.", remedy="Tune anew.")
        left = read_module(module, name=name).entries
        if [entry.id for entry in left] != [entry.id for entry in file.entries if entry.id in kept]:
            raise UsageError(f"{name} does not read back with the entries that stay.", remedy="Tune anew.")
        return "".join(f"// {printable(line)}\n" for line in header) + text_of(module, name=name)


def _renew(top: Any, file: SpecFile, kept: Mapping[str, Provenance]) -> None:
    """Removes the matchers of dropped entries; their symbols stay, since others may refer to them."""
    if file.carrier.by_name:
        for op in [op for op in walk(top) if op.name == EXECUTABLE]:
            if not _stamp(op, [symbol(op)], kept):
                op.erase()
        return
    dropped: dict[Any, None] = {}
    for foreach in foreaches(top):
        left = []
        for names in foreach.names:
            pair = foreach.pair(names)
            functions = [] if pair is None else [symbol(one) for one in pair.kernels]
            ids = functions if file.carrier.brings_objects else [names[0]]
            if pair is None or not ids or _stamp(pair.matcher, ids, kept):
                left.append(names)
            else:
                dropped[pair.matcher] = None
        foreach.set(left)
    for op in dropped:
        op.erase()


def _stamp(op: Any, ids: Sequence[str], kept: Mapping[str, Provenance]) -> bool:
    """Gives what leads to an entry its new provenance; False where the entry is dropped."""
    found = [kept[id] for id in ids if id in kept]
    if found:
        op.attributes[ENTRY] = ir.Attribute.parse(found[0].attribute())
    return bool(found)
