"""Merging on disk: the spec, and the flagfile beside it when the inputs' flagfiles agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autotuner.carriers.flagfile import Flagfile, flagfile_text, use_line
from autotuner.carriers.outputs import SPEC, Outputs
from autotuner.errors import UsageError
from autotuner.iree.compile import shell_line
from autotuner.iree.tools import Tools
from autotuner.specfiles.merge import Merged, merge


@dataclass(frozen=True, slots=True)
class MergedFiles:
    """What was written, and what a user should know of it."""

    merged: Merged
    spec: Path
    flagfile: Path | None
    notes: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "spec": str(self.spec),
            "flagfile": str(self.flagfile) if self.flagfile else None,
            "entries": [kept.to_json() for kept in self.merged.kept],
            "dropped": [dropped.to_json() for dropped in self.merged.dropped],
            "notes": list(self.notes),
        }


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
    command = ["autotune", "spec", "merge", *map(str, paths), "-o", str(output), *(["--force"] if force else [])]
    command += ["--trust"] if trust else []
    made_by = [f"made by:    {shell_line(command)}"]
    if flags:
        made_by.append(f"use:        {use_line(flagfile)}")
    merged = merge(paths, tools=tools, force=force, trust=trust, made_by=made_by)
    other = {p.iree for entry in merged.entries if (p := entry.provenance) and p.iree} - {tools.release}
    notes += [f"the entries are for IREE {version}; this is {tools.release}" for version in sorted(other)]
    files.write(path, merged.text)
    if flags:
        files.write(flagfile, flagfile_text(flags))
    elif flagfile.exists():
        notes.append(f"{flagfile} was there before and is left as it is")
    return MergedFiles(merged, path, flagfile if flags else None, tuple(notes))


def _common_flags(paths: Sequence[Path], output: Path, *, trust: bool) -> tuple[tuple[str, ...], list[str]]:
    """The flags of the merged spec; none, and why, when the inputs do not agree on them."""
    found: dict[tuple[str, ...], Path] = {}
    for path in paths:
        flagfile = Flagfile.beside(path, trust=trust)
        if flagfile is None:
            return (), [f"no flagfile is written: {path} has none beside it"]
        if flagfile.executables:
            return (), [f"no flagfile is written: {flagfile.path} also substitutes executables, which fit one program"]
        if flagfile.kernels:
            return (), [f"no flagfile is written: {flagfile.path} also names a spec that calls microkernels"]
        found.setdefault((*flagfile.others, f"{flagfile.right_carrier}={output}"), path)
    if len(found) > 1:
        first, second = list(found)[:2]
        different = shell_line(sorted(set(first) ^ set(second)))
        one, other = (found[flags].with_suffix(".flags") for flags in (first, second))
        return (), [f"no flagfile is written: {one} and {other} differ in {different}"]
    return next(iter(found)), []
