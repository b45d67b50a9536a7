"""What `autotune ab` tells of microkernels without an experiment: those there are, what an object or a log holds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich.text import Text

from autotuner.cli.console import make_console, show
from autotuner.errors import UsageError
from autotuner.microkernels.abi import kernels_json, kernels_table
from autotuner.microkernels.library import all_manifests, is_shipped, own_folder, search_folders
from autotuner.microkernels.loader import FILE
from autotuner.microkernels.providers.misa import read_driver_log
from autotuner.microkernels.variants import AUTO, Kernel
from autotuner.system.listing import Column, Listing
from autotuner.system.text import printable
from autotuner.system.workspace import refuse_endless

_LISTED = 5


def say_whose_code(kernels: Sequence[Kernel], workspace: Path, *, no_color: bool) -> None:
    """Once, on stderr: a kernel that does not come with autotune is a program of somebody's, and it will run."""
    named = [kernel for kernel in kernels if kernel.name != AUTO]
    names = [kernel.name for kernel in named if kernel.objects or _is_others(kernel.name, workspace)]
    if len(named) < len(kernels):
        there = sorted(file.parent.name for file in own_folder(workspace).glob(f"*/{FILE}"))
        names += [name for name in there if not is_shipped(name) and name not in names]
    if names:
        listed = ", ".join(map(printable, names[:_LISTED])) + (" …" if len(names) > _LISTED else "")
        verb = "does" if len(names) == 1 else "do"
        make_console(stderr=True, no_color=no_color).print(
            f"note: {listed} {verb} not come with autotune: the code runs with your rights, see SECURITY.md",
            markup=False,
            highlight=False,
            soft_wrap=True,
        )


def _is_others(name: str, workspace: Path) -> bool:
    """A name that nothing has is nobody's."""
    return not is_shipped(name) and (own_folder(workspace) / name / FILE).is_file()


def list_all(workspace: Path, *, as_json: bool, no_color: bool) -> None:
    listing = all_manifests(search_folders(workspace))
    if as_json:
        broken = [{"name": b.name, "file": str(b.file), "error": b.why} for b in listing.broken]
        print(json.dumps([*(m.describe() for m in listing.manifests), *broken], indent=2))
        return
    rows: list[tuple[str | Text, ...]] = []
    for manifest in listing.manifests:
        chips = ", ".join(manifest.chips)
        words = (manifest.name, manifest.operation, ", ".join(manifest.dtypes), chips, manifest.provider.kind)
        rows.append((*words, manifest.summary))
    rows += [(wrong.name, Text("broken", style="red"), "", "", "", wrong.why) for wrong in listing.broken]
    titles = ("name", "op", "dtypes", "targets", "provider", "what")
    show(make_console(no_color=no_color), Listing.of(titles, rows))


def inspect_object(path: Path, *, as_json: bool, no_color: bool) -> None:
    if as_json:
        print(json.dumps(kernels_json(path), indent=2))
        return
    rows = kernels_table(path)
    show(make_console(no_color=no_color), Listing.of(tuple(rows[0]), [tuple(row.values()) for row in rows]))


def list_log(path: Path, *, as_json: bool, no_color: bool) -> None:
    try:
        refuse_endless(path)
        found = read_driver_log(path.read_text(errors="replace"))
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.", remedy="Is the path right?") from error
    if not found.rows:
        raise UsageError(
            f"{path} has no line of MISA's driver.", remedy="Lines look like `[fwd:40] KERNEL, cost:0.183ms, tflops:…`."
        )
    if as_json:
        print(json.dumps({"kernels": [asdict(row) for row in found.rows], "skipped": found.skipped}, indent=2))
        return
    rows = []
    for row in found.rows:
        valid = "" if row.valid is None else ("yes" if row.valid else "no")
        rows.append((str(row.index), row.kernel, str(row.ks), f"{row.ms:g}", f"{row.tflops or 0:g}", valid))
    numbers = [Column(title, right=True) for title in ("ks", "ms", "TFLOP/s")]
    titles: list[Column | str] = [Column("#", right=True, head=True), Column("kernel", head=True), *numbers, "valid"]
    show(make_console(no_color=no_color), Listing.of(titles, rows))
    for line in found.skipped:
        make_console(stderr=True, no_color=no_color).print(f"skipped: {line}", markup=False, highlight=False)
