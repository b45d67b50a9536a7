"""Reads `microkernel.toml` and reports everything that is wrong in it, before any problem is known."""

from __future__ import annotations

import keyword
import math
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from autotuner.errors import UsageError
from autotuner.microkernels.chips import is_gpu
from autotuner.microkernels.expressions import FUNCTIONS, Expression
from autotuner.microkernels.instance import PREBUILT, PROBLEM, SCRATCH, Buffer, ObjectFile, Provided
from autotuner.microkernels.manifest import CHIP_NUMBERS, LONGEST_SYMBOL, Manifest
from autotuner.microkernels.providers import PROVIDERS
from autotuner.microkernels.providers.provider import ELEMENTS
from autotuner.microkernels.tables import Table, read
from autotuner.problems import Operation
from autotuner.problems.dtypes import INPUT_NAMES
from autotuner.problems.epilogue import OPERANDS, PARTS
from autotuner.system.text import short
from autotuner.targets.backends import BACKENDS

FILE = "microkernel.toml"
MOST_SETTINGS = 8192
"""The most parameter choices of a manifest: each is checked against every problem."""
_NAME = re.compile(r"[a-z0-9_-]{1,80}")
_SYMBOL = re.compile(rf"[A-Za-z_][A-Za-z0-9_.$]{{0,{LONGEST_SYMBOL - 1}}}")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,39}")
_CHIP = re.compile(r"[a-z0-9_]{4,10}")
_PROCESSORS = ("x86_64", "aarch64")


def checked_name(name: str) -> str:
    """A microkernel's name, if it is a plain folder name."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{short(name)} cannot name a microkernel.", remedy="Use small letters, digits, _ and -, up to 80 of them."
        )
    return name


def load(file: Path, operations: Mapping[str, type[Operation]]) -> Manifest:
    """Reads a manifest of a kernel for one of these operations; the microkernel has its folder's name."""
    table = read(file)
    name = checked_name(file.absolute().parent.name)
    operation = _operation(table, operations)
    usual = (operation.usual_layout,) if operation.usual_layout and not table.has("layouts") else ()
    layouts = usual or table.choices("layouts", operation.layouts)
    provider = _provider(table.table("provider"), file.absolute().parent)
    objects = _objects(table.table("objects"), file.absolute().parent)
    if provider.kind != PREBUILT and objects:
        raise table.error("objects", f"{provider.kind} kernels are built from their source.", "Remove the objects.")
    if not provider.chips and not objects:
        raise table.error("objects", "it is missing.", "Add [objects.CHIP], or chips to [provider].")
    symbol = _symbol(table)
    epilogues = table.choices("epilogues", PARTS) if table.has("epilogues") else ()
    if epilogues and provider.kind == PREBUILT:
        raise table.error("epilogues", f"a {provider.kind} kernel has no way to learn of them.", "Leave them out.")

    sizes = operation.smallest().variables()
    known = {*sizes, *CHIP_NUMBERS}
    reports = PROVIDERS[provider.kind].reports if provider.kind in PROVIDERS else ()
    symbols = _symbols(table, symbol, known, reports)
    known |= set(re.compile(symbols).groupindex)
    parameters = _parameters(table.table("parameters"), known, reports)
    known |= set(parameters)
    values = _values(table.table("values"), known, reports)
    known |= set(values)
    built = known | set(reports)
    manifest = Manifest(
        name=name,
        file=file,
        summary=table.text("summary", default=""),
        operation=operation.op,
        dtypes=table.choices("dtypes", INPUT_NAMES),
        layouts=layouts,
        conditions=table.expressions("conditions", known, default=()),
        symbol=symbol,
        symbols=symbols,
        buffers=_buffers(table, operation, known, epilogues, on_gpus=_on_gpus(provider, objects)),
        constants=table.expressions("constants", built, default=()),
        workgroup_size=table.expressions("workgroup_size", built, most=3),
        local_memory=table.expression("local_memory", built, default="0"),
        grid=table.expressions("grid", built, most=3),
        parameters=parameters,
        values=values,
        estimate=table.expression("estimate", known) if table.has("estimate") else None,
        epilogues=epilogues,
        objects=objects,
        provider=provider,
    )
    table.close()
    return manifest


def _operation(table: Table, operations: Mapping[str, type[Operation]]) -> type[Operation]:
    word = table.text("operation")
    if word not in operations:
        wanted = f"Choose a kernel for {' or '.join(operations)}."
        raise table.error("operation", f"it computes {short(word)}, not {' or '.join(operations)}.", wanted)
    return operations[word]


def _symbol(table: Table) -> str:
    symbol = table.text("symbol")
    if not _SYMBOL.fullmatch(symbol):
        remedy = "Use letters, digits, _ . and $; `autotune ab --inspect OBJECT` lists an object's symbols."
        raise table.error("symbol", f"{short(symbol)} cannot be a symbol.", remedy)
    return symbol


def _symbols(table: Table, symbol: str, known: Collection[str], reports: Collection[str]) -> str:
    """The pattern of symbols, which `symbol` must match; empty: only that one."""
    form = table.text("symbols", default="")
    try:
        compiled = re.compile(form)
    except re.error as error:
        raise table.error("symbols", f"it is no regular expression: {error}.", "Correct it.") from None
    if form and not compiled.fullmatch(symbol):
        raise table.error("symbols", "the manifest's own symbol is not of this form.", "Correct one of them.")
    for name in compiled.groupindex:
        _check_new(table, name, known, reports)
    return form


def _provider(table: Table, folder: Path) -> Provided:
    kind = table.choice("kind", (PREBUILT, *PROVIDERS), default=PREBUILT)
    source = None
    if kind != PREBUILT:
        source = inside(table, "source", folder)
        if not source.is_file():
            raise table.error("source", f"there is no file {source}.", "Put the source there, or correct the path.")
    chips = table.texts("chips") if kind != PREBUILT or table.has("chips") else ()
    for chip in chips:
        _check_chip(table, "chips", chip)
        if kind in PROVIDERS and not chip.startswith(PROVIDERS[kind].chips):
            known = ", ".join(f"{begin}…" for begin in PROVIDERS[kind].chips)
            raise table.error("chips", f"{kind} is not for {chip}.", f"Give chips that it is for: {known}.")
    table.close()
    return Provided(kind, source, chips)


def _objects(table: Table, folder: Path) -> dict[str, ObjectFile]:
    objects = {}
    for chip in table.values:
        entry = table.table(chip)
        _check_chip(table, chip, chip)
        path = inside(entry, "path", folder)
        sha256 = entry.text("sha256").lower()
        if len(sha256) != 64:
            raise entry.error("sha256", "it is not 64 hexadecimal digits.", f"Take what `sha256sum {path.name}` says.")
        entry.close()
        objects[chip] = ObjectFile(path, sha256)
    return objects


def inside(table: Table, key: str, folder: Path) -> Path:
    """A file in the manifest's folder; paths and links that lead out of it are refused."""
    text = table.text(key)
    full = folder / text
    try:
        within = full.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError, ValueError):
        within = False
    if not within:
        remedy = "Give a path inside the manifest's folder, such as kernel.hsaco."
        raise table.error(key, f"{short(text)} leads out of the folder.", remedy)
    return full


def _parameters(table: Table, known: Collection[str], reports: Collection[str]) -> dict[str, tuple[int, ...]]:
    for name in table.values:
        _check_new(table, name, known, reports)
    parameters = {name: table.numbers(name) for name in table.values}
    if math.prod(map(len, parameters.values())) > MOST_SETTINGS:
        last, remedy = next(reversed(parameters)), f"Leave out parameters or values: {MOST_SETTINGS:,} are the most."
        raise table.error(last, "too many combinations of parameters.", remedy)
    return parameters


def _values(table: Table, known: Collection[str], reports: Collection[str]) -> dict[str, Expression]:
    """Reads the values in the file's order: each may use those before it."""
    values: dict[str, Expression] = {}
    for name in table.values:
        _check_new(table, name, known, reports)
        values[name] = table.expression(name, {*known, *values})
    return values


def _check_new(table: Table, name: str, known: Collection[str], reports: Collection[str]) -> None:
    if not _IDENTIFIER.fullmatch(name) or keyword.iskeyword(name):
        raise table.error(name, "it cannot be a name in expressions.", "Use letters, digits and _.")
    if name in known or name in reports or name in FUNCTIONS:
        raise table.error(name, "this name has a meaning already.", "Choose another.")


def _on_gpus(provider: Provided, objects: Collection[str]) -> bool:
    return all(map(is_gpu, (*provider.chips, *objects)))


def _buffers(
    table: Table,
    operation: type[Operation],
    known: Collection[str],
    epilogues: Collection[str],
    *,
    on_gpus: bool,
) -> tuple[Buffer, ...]:
    operands = tuple(name for name in operation.letters if name not in OPERANDS or name in epilogues)
    buffers: list[Buffer] = []
    for entry in table.tables("bindings"):
        buffer = _buffer(entry, operation, operands, known)
        if buffer.is_scratch and not on_gpus:
            raise entry.error("operand", "a processor's kernel gets no scratch.", "Use its stack.")
        if not buffer.is_scratch and buffer.operand in (other.operand for other in buffers):
            raise entry.error("operand", f"{buffer.operand} is bound twice.", "Leave one of them.")
        buffers.append(buffer)
    missing = [operand for operand in operands if operand not in (buffer.operand for buffer in buffers)]
    if missing:
        remedy = f"Add [[bindings]] in the order of the kernel's pointers: {', '.join(operands)}."
        raise table.error("bindings", f"{missing[0]} is not bound.", remedy)
    return tuple(buffers)


def _buffer(entry: Table, operation: type[Operation], operands: Sequence[str], known: Collection[str]) -> Buffer:
    """Reads one pointer parameter. Its keys depend on its kind; others are refused."""

    def expression(key: str, default: str = "0") -> Expression:
        return entry.expression(key, known, default=default)

    operand = entry.choice("operand", (*operands, SCRATCH))
    if operand == SCRATCH:
        element = entry.choice("element", ELEMENTS, default="i8")
        buffer = Buffer(operand, element, expression("zeroed"), bytes=entry.expression("bytes", known))
    elif operand == "out":
        entry.choice("access", ("write",))
        # A result of another type than the kernel writes would be read or written beyond its end: no default there.
        element = entry.choice("element", (*ELEMENTS, PROBLEM))
        layout, parts, widened = _layout(entry, operation, operand), expression("parts", "1"), expression("widened")
        buffer = Buffer(operand, element, expression("zeroed"), layout, parts=parts, widened=widened)
    else:
        entry.choice("access", ("read",))
        element = entry.choice("element", (*ELEMENTS, PROBLEM), default=PROBLEM)
        layout, panels = _layout(entry, operation, operand), expression("panels")
        panelled = _panelled(entry, operation, operand) if entry.has("panels") else ""
        pitch = expression("pitch")
        buffer = Buffer(operand, element, layout=layout, panels=panels, panelled=panelled, pitch=pitch)
    entry.close()
    return buffer


def _layout(entry: Table, operation: type[Operation], operand: str) -> str:
    layout = entry.text("layout", default="").lower()
    letters, spelled = operation.letters[operand], operation.spelled(operand, layout)
    if len(set(spelled)) < len(spelled) or not set(spelled) <= set(letters):
        raise entry.error("layout", f"{short(layout)} is not a layout of {operand}.", f"Use each of {letters!r} once.")
    return layout


def _panelled(entry: Table, operation: type[Operation], operand: str) -> str:
    letters = operation.letters[operand]
    panelled = operation.spelled(operand, entry.text("panelled"))
    if len(panelled) != 1 or panelled not in letters or panelled in "bg":
        remedy = f"Write panelled = one of {', '.join(sorted(set(letters) - set('bg')))}."
        raise entry.error("panelled", f"{short(panelled)} is no dimension of {operand} that is cut.", remedy)
    return panelled


def _check_chip(table: Table, key: str, chip: str) -> None:
    known = chip in _PROCESSORS or any(backend.owns(chip) for backend in BACKENDS)
    if not known or not _CHIP.fullmatch(chip):
        raise table.error(key, f"{short(chip)} is not a chip.", "Use gfx942, sm_80, x86_64, aarch64 and the like.")
