"""Merges tuning specs into one: of two entries that match the same, the faster stays. A flagfile is written where those
of the inputs agree."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from iree.compiler import ir

from autotuner._version import __version__
from autotuner.carriers.flagfile import flagfile_text, use_line
from autotuner.carriers.outputs import SPEC, Outputs
from autotuner.carriers.provenance import Provenance, today
from autotuner.errors import EnvironmentFailure, UsageError
from autotuner.iree.compile import shell_line
from autotuner.iree.mlir import symbol, walk
from autotuner.iree.tools import Tools
from autotuner.specfiles.entries import (
    CONFIG,
    FOREACH,
    Entry,
    ForeachMatch,
    parse_spec,
    read_module,
    read_text,
    verifies,
)
from autotuner.specfiles.flagfile import Flagfile, tuning_flag
from autotuner.specfiles.matchers import body_key, symbols
from autotuner.specfiles.provenance import has_figures, line_of
from autotuner.specfiles.vetting import vet_spec
from autotuner.system.text import printable

_DEFAULT = "iree_codegen.tuning_spec_with_default_entrypoint"
_ENTRY = "iree_codegen.tuning_spec_entrypoint"
_INCLUDE = "transform.include"
_REPORT = "Please report it with the inputs."


@dataclass(frozen=True, slots=True)
class Choice:
    """An entry, its file, and why it is dropped; empty: it is kept."""

    entry: Entry
    source: str
    number: int
    """The number of the source."""
    position: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Merged:
    """A merged spec."""

    text: str
    kept: tuple[Choice, ...]
    """The kept entries, in the order in which they are tried."""
    dropped: tuple[Choice, ...]

    @property
    def entries(self) -> tuple[Entry, ...]:
        return tuple(kept.entry for kept in self.kept)


@dataclass(frozen=True, slots=True)
class MergedFiles:
    """The written files, with notes for the user."""

    merged: Merged
    spec: Path
    flagfile: Path | None
    notes: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "spec": str(self.spec),
            "flagfile": str(self.flagfile) if self.flagfile else None,
            "entries": [{**one.entry.to_json(), "source": one.source} for one in self.merged.kept],
            "dropped": [
                {"name": one.entry.name, "source": one.source, "reason": one.reason} for one in self.merged.dropped
            ],
            "notes": list(self.notes),
        }


def merge(
    specs: Sequence[str | Path],
    *,
    tools: Tools,
    force: bool = False,
    trust: bool = False,
    made_by: Sequence[str] = (),
) -> Merged:
    """Merges tuning specs, given as texts or as paths.

    Of two entries that match the same operations the faster by their recorded figures is kept, or the one that has
    figures; without any it is an error, unless `force` lets the later one win. Without `trust` a spec that could do
    harm is refused.
    `made_by` are more lines for the leading comment.
    """
    if not specs:
        raise UsageError("there is nothing to merge.", remedy="Name at least one spec.")
    with ir.Context() as context, ir.Location.unknown():
        sources = [_Source.read(spec, context, number, trust=trust) for number, spec in enumerate(specs, start=1)]
        _refuse_clashes(sources)
        kept, dropped = _choose(sources, force=force)
        text = str(_linked(sources, kept))
    result = _prove(text, kept)
    header = _header(result, len(specs), made_by, tools)
    return Merged("".join(f"// {printable(line)}\n" for line in header) + text, result, tuple(dropped))


def merge_files(
    paths: Sequence[Path], *, output: Path, tools: Tools, force: bool = False, trust: bool = False
) -> MergedFiles:
    """Merges the specs at these paths into `output`; without `trust`, none that could do harm."""
    if output.suffix != ".mlir":
        raise UsageError(f"-o {output} is not an .mlir file.", remedy="Name the spec, such as -o merged.mlir.")
    path, flagfile = output.absolute(), output.absolute().with_suffix(".flags")
    flags, notes = _common_flags(paths, path, trust=trust)
    files = Outputs(path, SPEC if flags else SPEC[:1], force=force)
    files.claim([*paths, *(one.with_suffix(".flags") for one in paths)])
    options = [word for word, given in (("--force", force), ("--trust", trust)) if given]
    command = ["autotune", "spec", "merge", *map(str, paths), "-o", str(output), *options]
    use = [f"use:        {use_line(flagfile)}"] if flags else []
    made_by = [f"made by:    {shell_line(command)}", *use]
    merged = merge(paths, tools=tools, force=force, trust=trust, made_by=made_by)
    other = {_said(entry).iree for entry in merged.entries} - {"", tools.release}
    notes += [f"the entries are for IREE {version}; this is {tools.release}" for version in sorted(other)]
    files.write(path, merged.text)
    if flags:
        files.write(flagfile, flagfile_text(flags))
    elif flagfile.exists():
        notes.append(f"{flagfile} was there before and is left as it is")
    return MergedFiles(merged, path, flagfile if flags else None, tuple(notes))


def _common_flags(paths: Sequence[Path], output: Path, *, trust: bool) -> tuple[tuple[str, ...], list[str]]:
    """The flags of the merged spec; or none, with the reason, where the inputs disagree."""
    found: dict[tuple[str, ...], Path] = {}
    for path in paths:
        flagfile = Flagfile.beside(path, trust=trust)
        if flagfile is None:
            return (), [f"no flagfile is written: {path} has none beside it"]
        if flagfile.executables:
            return (), [f"no flagfile is written: {flagfile.path} also substitutes executables, which fit one program"]
        if flagfile.kernels:
            return (), [f"no flagfile is written: {flagfile.path} also names a spec that calls microkernels"]
        found.setdefault((*flagfile.others, f"{tuning_flag(flagfile.flags)}={output}"), path)
    if len(found) > 1:
        first, second = list(found)[:2]
        different = shell_line(sorted(set(first) ^ set(second)))
        one, other = (found[flags].with_suffix(".flags") for flags in (first, second))
        return (), [f"no flagfile is written: {one} and {other} differ in {different}"]
    return next(iter(found)), []


# --- which entries stay ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Source:
    """A parsed input, whose operations live as long as `module`."""

    name: str
    module: ir.Module
    entries: tuple[Entry, ...]

    @classmethod
    def read(cls, spec: str | Path, context: ir.Context, number: int, *, trust: bool) -> _Source:
        text, name = (read_text(spec), str(spec)) if isinstance(spec, Path) else (spec, f"spec {number}")
        module = parse_spec(text, context, name=name)
        if not trust:
            vet_spec(module, name=name)
        file = read_module(module, name=name)
        if not file.carrier.merges:
            raise UsageError(f"{name} is a {file.what}: only tuning specs are merged.", remedy="Leave it out.")
        if any(op.name == _INCLUDE for op in walk(module.operation)):
            remedy = f"Write out what {_INCLUDE} names."
            raise UsageError(f"{name} has matchers that include others, so it cannot be merged.", remedy=remedy)
        config = symbols(module.operation).get(CONFIG)
        body = [] if config is None else [op.operation.name for op in config.regions[0].blocks[0].operations]
        if config is None or body != [FOREACH, "transform.yield"] or _ENTRY not in config.attributes:
            raise UsageError(
                f"{name} has another form than one foreach_match in an entry point @{CONFIG}, so it cannot be merged.",
                remedy="Merge the specs that it was linked from.",
            )
        module.operation.attributes[_DEFAULT] = ir.UnitAttr.get()
        if not verifies(module.operation):
            raise UsageError(
                f"{name} is not a tuning spec that IREE takes.",
                remedy=f"See what `iree-opt` says of it with the attribute {_DEFAULT}.",
            )
        return cls(name, module, file.entries)

    @property
    def foreach(self) -> ForeachMatch:
        return _foreach(self.module)


def _refuse_clashes(sources: Sequence[_Source]) -> None:
    """Refuses specs of several targets or compilers."""
    entries = [(source.name, entry) for source in sources for entry in source.entries]
    for what, said in (
        ("targets", [(_said(entry).target, name) for name, entry in entries]),
        ("IREE versions", [(_said(entry).iree, name) for name, entry in entries]),
    ):
        found = {value: name for value, name in reversed(said) if value}
        if len(found) > 1:
            parts = ", ".join(f"{value} ({name})" for value, name in reversed(found.items()))
            raise UsageError(
                f"the specs are for different {what}: {parts}.", remedy="Merge those of each on their own."
            )


def _said(entry: Entry) -> Provenance:
    return entry.provenance or Provenance()


def _choose(sources: Sequence[_Source], *, force: bool) -> tuple[list[Choice], list[Choice]]:
    """Of entries that match the same operations one stays: the faster by what is recorded, or the one that was timed.

    Where nothing tells, that is an error, unless `force` lets the later one win.
    """
    best: dict[str, Choice] = {}
    dropped = []
    for number, source in enumerate(sources):
        for position, entry in enumerate(source.entries):
            new = Choice(entry, source.name, number, position)
            old = best.setdefault(entry.key, new)
            if old is new:
                continue
            newer, reason = _better(old, new, force=force)
            best[entry.key], loser = (new, old) if newer else (old, new)
            dropped.append(replace(loser, reason=reason.format(best[entry.key].source)))
    # Exact sizes come before ranges, which would hide them; ranges stay in the order in which the files first had them:
    # it may be the reason why the right one matches.
    return sorted(best.values(), key=lambda one: not one.entry.matches.exact), dropped


def _better(old: Choice, new: Choice, *, force: bool) -> tuple[bool, str]:
    """Whether the new entry is better, and why; the reason has a place for the other file's name."""
    if old.number == new.number:
        return False, f"never reached: @{old.entry.name} before it matches the same"
    mine, yours = _said(old.entry), _said(new.entry)
    same_place = mine.target and (mine.target, mine.device) == (yours.target, yours.device)
    if _configuration(old.entry) == _configuration(new.entry):
        return has_figures(yours) and not has_figures(mine), "the same configuration as in {}"
    if mine.us is not None and yours.us is not None and same_place:
        slow, fast = max(mine.us, yours.us), min(mine.us, yours.us)
        return yours.us < mine.us, f"slower: {slow:.1f} µs, {{}} has {fast:.1f} µs"
    if mine.median is not None and yours.median is not None:
        less, more = min(mine.median, yours.median), max(mine.median, yours.median)
        return yours.median > mine.median, f"gains less: {less:.3f}x, {{}} has {more:.3f}x"
    if has_figures(mine) != has_figures(yours):
        return has_figures(yours), "it has no figures, and {} was timed"
    if force:
        return True, "by --force: {} comes later and matches the same"
    raise UsageError(
        f"{old.source} (@{old.entry.name}) and {new.source} (@{new.entry.name}) match the same "
        f"({new.entry.text}), and neither was timed: nothing tells which is faster.",
        remedy="Leave one out, or give --force: then the later file wins.",
    )


def _configuration(entry: Entry) -> tuple[str, str]:
    return entry.compilation_info, entry.decomposition_config


# --- one module -----------------------------------------------------------------------------------------------------


def _foreach(module: ir.Module) -> ForeachMatch:
    return ForeachMatch(symbols(module.operation)[CONFIG].regions[0].blocks[0].operations[0].operation)


def _linked(sources: Sequence[_Source], kept: Sequence[Choice]) -> ir.Module:
    """The kept entries linked into the first source's module; equal actions are shared."""
    module = sources[0].module
    sequences: dict[str, Any] = {}
    actions: dict[str, str] = {}
    names = []
    for place in kept:
        source = sources[place.number].foreach
        pair = source.pair(source.names[place.position])
        assert pair is not None  # it was read as an entry
        name, does = _put(pair.matcher, sequences), body_key(pair.action)
        if does not in actions:
            actions[does] = _put(pair.action, sequences)
        names.append((name, actions[does]))
    foreach = _foreach(module)
    for op in [op for name, op in symbols(module.operation).items() if name != CONFIG]:
        op.erase()
    for op in sequences.values():
        module.body.append(op)
    foreach.set(names)
    if not verifies(module.operation):
        raise EnvironmentFailure("the merged spec does not verify.", remedy=_REPORT)
    return module


def _put(sequence: Any, there: dict[str, Any]) -> str:
    """A copy of a sequence under a free name."""
    copy, own = sequence.clone(), symbol(sequence)
    name = next(one for n in itertools.count() if (one := f"{own}_{n}" if n else own) not in (*there, CONFIG))
    copy.attributes["sym_name"] = ir.StringAttr.get(name)
    there[name] = copy
    return name


def _prove(text: str, kept: Sequence[Choice]) -> tuple[Choice, ...]:
    """Checks that the merged spec reads back as the kept entries with configurations and provenance, and nothing
    else."""
    with ir.Context() as context:
        found = read_module(parse_spec(text, context, name="the merged spec"), name="the merged spec").entries
    if list(map(_content, found)) != [_content(place.entry) for place in kept]:
        raise EnvironmentFailure("merging has changed the entries.", remedy=_REPORT)
    return tuple(replace(place, entry=entry) for place, entry in zip(kept, found, strict=True))


def _content(entry: Entry) -> Entry:
    """The entry without the names that merging may change."""
    return replace(entry, name="", action="", id="")


def _header(kept: Sequence[Choice], count: int, made_by: Sequence[str], tools: Tools) -> list[str]:
    said = [_said(one.entry) for one in kept]
    targets = sorted({one.target for one in said if one.target}) or ["not recorded"]
    versions = sorted({one.iree for one in said if one.iree}) or [tools.release]
    lines = [
        f"Tuning spec by autotune {__version__}, merged: {len(kept)} entries of {count} specs",
        f"target:     {', '.join(targets)}; IREE {', '.join(versions)}",
        f"merged by:  IREE {tools.build}",
        f"date:       {today()}",
        *made_by,
    ]
    for one in kept:
        source = one.entry.provenance
        lines.append(f"entry @{one.entry.name}: {one.entry.text}")
        lines.append(f"  {line_of(source) if source else 'no provenance'}")
        if source and source.command:
            lines.append(f"  made by: {source.command}")
    return lines
