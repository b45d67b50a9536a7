"""Spec files from Python: `show`, `check` and `merge`, as the command `autotune spec` does them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from autotuner.iree.tools import Tools
from autotuner.specfiles import check as checking
from autotuner.specfiles.check import Report
from autotuner.specfiles.entries import SpecFile, read
from autotuner.specfiles.merge import MergedFiles, merge_files
from autotuner.targets import Target

__all__ = ["check", "merge", "show"]


def show(spec: str | Path) -> SpecFile:
    """Reads a spec: `entries`, each with what it matches and its provenance."""
    return read(Path(spec))


def check(
    spec: str | Path, model: str | Path | None = None, *, target: Target | None = None, trust: bool = False
) -> Report:
    """Checks a spec with its flagfile and objects; with a model, also which entries apply there, and how often."""
    program = Path(model) if model is not None else None
    return checking.check(Path(spec), tools=Tools.find(), model=program, target=target, trust=trust)


def merge(specs: Sequence[str | Path], *, output: str | Path, force: bool = False, trust: bool = False) -> MergedFiles:
    """Puts specs into one file: of entries that match the same, the faster is kept."""
    paths = [Path(spec) for spec in specs]
    return merge_files(paths, output=Path(output), tools=Tools.find(), force=force, trust=trust)
