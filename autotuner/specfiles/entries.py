"""Reads a spec file with the compiler's bindings: its kind, and what each entry does to which operation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from iree.compiler import ir
from iree.compiler.dialects import iree_codegen

from autotuner.carriers.carrier import Carrier, FileKind, carrier_of_file
from autotuner.carriers.provenance import ENTRY, OBJECTS, Provenance
from autotuner.carriers.render import MARKER
from autotuner.errors import UsageError
from autotuner.iree.mlir import symbol, walk
from autotuner.specfiles.matchers import Matches, describe, key, symbols
from autotuner.specfiles.provenance import read_provenance, to_json
from autotuner.specfiles.vetting import vet_spec
from autotuner.system.text import nesting, printable
from autotuner.system.workspace import refuse_endless

CONFIG = "__kernel_config"
MAIN = "__transform_main"
FOREACH = "transform.foreach_match"
EXECUTABLE, VARIANT = "hal.executable", "hal.executable.variant"
_DISPATCHES = _EXTERN, _DISPATCH = "hal.dispatch.extern", "flow.dispatch"
_PAIRED = ("matchers", "actions")
DEEPEST = 200
"""The deepest nesting of brackets: thousands overflow the parser's stack."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a spec: what it matches, what it sets, and its provenance."""

    name: str
    """The matcher's symbol; of a microkernel spec the kernel's, of a configured executable its own."""
    matches: Matches
    provenance: Provenance | None
    compilation_info: str = ""
    """Empty for microkernels."""
    lowering_config: str = ""
    translation_info: str = ""
    decomposition_config: str = ""
    action: str = ""
    key: str = ""
    """Entries with the same key match the same operations."""
    objects: tuple[str, ...] = ()
    """The object files of a microkernel."""
    id: str = ""
    """Its unique name in the file: two shapes may share a kernel, and so a name."""

    @property
    def text(self) -> str:
        """The problem that it was made for, or what its matcher asks for."""
        made_for = self.provenance.problem if self.provenance else ""
        return made_for or self.matches.text

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "matches": {**self.matches.to_json(), "text": self.text},
            "compilation_info": self.compilation_info or None,
            "decomposition_config": self.decomposition_config or None,
            "objects": list(self.objects),
            "provenance": to_json(self.provenance) if self.provenance else None,
        }


@dataclass(frozen=True, slots=True)
class SpecFile:
    """A spec file's kind and entries."""

    kind: FileKind
    entries: tuple[Entry, ...]
    hashes: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 of the objects of a microkernel spec, as recorded when it was shipped."""

    @property
    def carrier(self) -> type[Carrier]:
        return carrier_of_file(self.kind)

    @property
    def what(self) -> str:
        return self.carrier.file_title

    def flags(self, path: Path, *, spec_flag: str, objects: Path) -> list[str]:
        """The flags that bring it into a compile from `path`; `spec_flag` is the target's for tuning specs."""
        names = [entry.name for entry in self.entries]
        return self.carrier.file_flags(path, names=names, spec_flag=spec_flag, objects=objects)


def read_text(path: Path) -> str:
    """The text of a spec file, or an error that says what is wrong with it."""
    if path.suffix == ".flags":
        raise UsageError(
            f"{path} is a flagfile, not a spec.",
            remedy="Name the .mlir file in it; if none, `autotune ab default FLAGFILE --model MODEL` tells its gain.",
        )
    try:
        refuse_endless(path, "spec")
        return path.read_text(encoding="utf-8")
    except UnicodeError as error:
        raise UsageError(f"{path} is not text.", remedy="A spec is an .mlir file.") from error
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.", remedy="Check the path.") from error


def read(path: Path) -> SpecFile:
    """Reads a spec to show it, without vetting."""
    return read_spec(read_text(path), name=str(path), trust=True)


def read_spec(text: str, *, name: str = "the spec", trust: bool = False) -> SpecFile:
    """Reads and vets a spec, unless it is trusted; `name` is its name in errors."""
    with ir.Context() as context:
        module = parse_spec(text, context, name=name)
        if not trust:
            vet_spec(module, name=name)
        return read_module(module, name=name)


def vet_file(path: Path) -> None:
    """Refuses a file that could do harm, whatever kind of MLIR it is."""
    with ir.Context() as context:
        vet_spec(parse_spec(read_text(path), context, name=str(path)), name=str(path))


def parse_spec(text: str, context: ir.Context, *, name: str, file: Path | None = None) -> ir.Module:
    """`file` has this text: what has no location is where it stands there, as for a compile that reads the file."""
    if nesting(text) > DEEPEST:
        raise UsageError(f"{name} is nested too deep for a spec.", remedy="Is it a spec?")
    try:
        return ir.Module.parse(text, context=context) if file is None else ir.Module.parseFile(str(file), context)
    except ir.MLIRError as error:
        words = next((line.strip() for line in str(error).splitlines() if "rror" in line), str(error)[:200])
        words = words.replace('"-":', "line ")  # it was given the text, not the file
        raise UsageError(
            f"{name} is not a spec that this IREE reads: {printable(words)[:300]}",
            remedy="Was it made for another version of IREE? Tune anew.",
        ) from error


def verifies(op: Any) -> bool:
    """Whether an operation verifies."""
    try:
        return bool(op.verify())
    except ir.MLIRError:
        return False


def text_of(module: ir.Module, *, name: str) -> str:
    """The module as a file. A configured executable keeps its locations: the compiler writes them into the binary."""
    text: str = module.operation.get_asm(enable_debug_info=read_module(module, name=name).carrier.by_name)
    return text


def read_module(module: ir.Module, *, name: str) -> SpecFile:
    top = module.operation
    found = list(pairs(top))
    if any(op.name == EXECUTABLE for op in walk(top)) and not found:
        return SpecFile("executable", tuple(_executables(top)))
    if not found:
        raise UsageError(f"{name} has no entries: there is no foreach_match in it.", remedy="Is it a spec?")
    named = symbols(top)
    if MAIN in named and CONFIG not in named:
        return SpecFile("microkernel", tuple(_kernels(found)), _hashes(found))
    return SpecFile("tuning", tuple(_entry(pair) for pair in found))


@dataclass(frozen=True)
class Pair:
    """A matcher and its action, with the symbols of their module, which must outlive them."""

    matcher: Any
    action: Any
    named: Mapping[str, Any]

    @property
    def kernels(self) -> list[Any]:
        """The kernel functions that the action calls, without those that only adapt operands and call another."""
        imported = [op for op in walk(self.action) if op.name == "transform.util.import_symbol"]
        names = [ir.SymbolRefAttr(op.attributes["symbol"]).value[-1] for op in imported]
        functions = [self.named[name] for name in names if name in self.named and self.named[name].name == "util.func"]
        return [one for one in functions if any(op.name in _DISPATCHES for op in walk(one))] or functions


class ForeachMatch:
    """A foreach_match of a module."""

    def __init__(self, op: Any) -> None:
        self._op = op
        self.home = op.parent
        while self.home.operation.name != "builtin.module":
            self.home = self.home.operation.parent
        self.named = symbols(self.home.operation)

    @property
    def names(self) -> list[tuple[str, str]]:
        """The names of its matchers and actions, in order; of a nested reference, the first part."""
        matchers, actions = (ir.ArrayAttr(self._op.attributes[words]) for words in _PAIRED)
        return [(_first(one), _first(other)) for one, other in zip(matchers, actions, strict=True)]

    def pair(self, names: tuple[str, str]) -> Pair | None:
        """The matcher and action of these names; None where one is missing."""
        matcher, action = names
        there = matcher in self.named and action in self.named
        return Pair(self.named[matcher], self.named[action], self.named) if there else None

    def set(self, names: Sequence[tuple[str, str]]) -> None:
        """Keeps only these matchers; without any, the operation goes, and its operand passes through."""
        if not names and len(self._op.results) == 1:
            self._op.results[0].replace_all_uses_with(self._op.operands[0])
            self._op.erase()
            return
        for place, words in enumerate(_PAIRED):
            self._op.attributes[words] = ir.ArrayAttr.get([ir.FlatSymbolRefAttr.get(both[place]) for both in names])


def foreaches(top: Any) -> list[ForeachMatch]:
    return [ForeachMatch(op) for op in walk(top) if op.name == FOREACH]


def pairs(top: Any) -> Iterator[Pair]:
    """Every (matcher, action) of every foreach_match, in the order in which they are tried."""
    for foreach in foreaches(top):
        yield from (pair for names in foreach.names if (pair := foreach.pair(names)) is not None)


def _first(reference: Any) -> str:
    return str(ir.SymbolRefAttr(reference).value[0])


def _provenance(op: Any) -> Provenance | None:
    return read_provenance(op.attributes[ENTRY]) if ENTRY in op.attributes else None


def _entry(pair: Pair) -> Entry:
    inside = [op for part in (pair.matcher, pair.action) for op in walk(part)]
    constants = [op.attributes["value"] for op in inside if op.name == "transform.param.constant"]
    info = next((value for value in constants if isinstance(value, iree_codegen.CompilationInfoAttr)), None)
    other = next((value for value in constants if isinstance(value, ir.DictAttr)), None)
    return Entry(
        name=symbol(pair.matcher),
        matches=describe(pair.matcher),
        provenance=_provenance(pair.matcher),
        compilation_info=str(info) if info is not None else "",
        lowering_config=str(info.lowering_config) if info is not None else "",
        translation_info=str(info.translation_info) if info is not None else "",
        decomposition_config=str(other) if other is not None else "",
        action=symbol(pair.action),
        key=key(pair.matcher),
        id=symbol(pair.matcher),
    )


def _kernels(found: list[Pair]) -> Iterator[Entry]:
    """One entry for each kernel: several matchers may lead to it, one for each form of the operation."""
    seen = set()
    for pair in found:
        for function in pair.kernels:
            if symbol(function) in seen:
                continue
            seen.add(symbol(function))
            kernel, objects = _kernel(function, pair.named)
            yield Entry(
                name=kernel,
                matches=describe(pair.matcher),
                provenance=_provenance(pair.matcher),
                action=symbol(function),
                key=key(pair.matcher),
                objects=objects,
                id=symbol(function),
            )


def _kernel(function: Any, named: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
    """The symbol of the code that a function dispatches, and the files it comes from."""
    for op in walk(function):
        if op.name == _EXTERN:
            objects = [one for group in ir.ArrayAttr(op.attributes["target_objects"]) for one in ir.ArrayAttr(group)]
            return ir.StringAttr(op.attributes["export_name"]).value, tuple(map(_path, objects))
        if op.name == _DISPATCH:
            names = ir.SymbolRefAttr(ir.ArrayAttr(op.attributes["entry_points"])[0]).value
            inner = list(walk(named[names[0]])) if names[0] in named else []
            variants = [one for one in inner if one.name == VARIANT and "objects" in one.attributes]
            objects = [one for variant in variants for one in ir.ArrayAttr(variant.attributes["objects"])]
            imports = [symbol(one) for one in inner if "hal.import.static" in one.attributes]
            return (imports or [names[-1]])[0], tuple(map(_path, objects))
    return symbol(function), ()


def _path(attribute: Any) -> str:
    """Of `#hal.executable.object<{path = "…"}>`, which has no class of its own in the bindings."""
    text = str(attribute)
    table = ir.DictAttr(ir.Attribute.parse(text[text.index("{") : text.rindex("}") + 1]))
    return str(ir.StringAttr(table["path"]).value) if "path" in table else ""


def _hashes(found: list[Pair]) -> dict[str, str]:
    """The hashes of the kernels' objects that matchers record."""
    tables = [pair.matcher.attributes[OBJECTS] for pair in found if OBJECTS in pair.matcher.attributes]
    entries = [entry for table in tables if isinstance(table, ir.DictAttr) for entry in table]
    return {entry.name: entry.attr.value for entry in entries if isinstance(entry.attr, ir.StringAttr)}


def _executables(top: Any) -> Iterator[Entry]:
    for executable in [op for op in walk(top) if op.name == EXECUTABLE]:
        inner = list(walk(executable))
        # Not a fill or a copy beside the operation that counts.
        configured = [op for op in inner if "lowering_config" in op.attributes and len(op.operands) >= 3]
        root = next((op for op in configured if MARKER in op.attributes), configured[0] if configured else None)
        function = next((op for op in inner if "translation_info" in op.attributes), None)
        config = str(root.attributes["lowering_config"]) if root is not None else ""
        translation = str(function.attributes["translation_info"]) if function is not None else ""
        yield Entry(
            name=symbol(executable),
            matches=Matches(root.name if root is not None else "executable", exact=True),
            provenance=_provenance(executable),
            compilation_info=f"lowering_config = {config}, translation_info = {translation}" if config else "",
            lowering_config=config,
            translation_info=translation,
            id=symbol(executable),
        )
