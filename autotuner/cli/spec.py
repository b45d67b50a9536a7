"""`autotune spec`: merge, check and show spec files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from autotuner.cli import options as o
from autotuner.cli.console import make_console
from autotuner.specfiles.files import MergedFiles, merge_files
from autotuner.tools import Tools

app = typer.Typer(name="spec", help="Merge, check and show spec files.", no_args_is_help=True, rich_markup_mode=None)
OutputArgument = Annotated[Path, typer.Option("-o", "--output", help="Where the merged spec goes, an .mlir file.")]


@app.command()
def merge(
    specs: Annotated[list[Path], typer.Argument(help="Tuning specs, ours or others'.")],
    output: OutputArgument,
    force: Annotated[
        bool, typer.Option("--force", help="Where no figures tell which entry is faster, the later file's wins.")
    ] = False,
    as_json: o.JsonOption = False,
    no_color: o.NoColorOption = False,
) -> None:
    """Put tuning specs into one: of entries that match the same, the faster is kept."""
    done = merge_files(specs, output=output, tools=Tools.find(), force=force)
    if as_json:
        print(json.dumps(done.to_json(), indent=2))
    else:
        _print_merged(done, make_console(no_color=no_color))


def _print_merged(done: MergedFiles, console: Console) -> None:
    for kept in done.merged.kept:
        _line(console, "entry", f"{kept.entry.matches.text}  ({kept.source})")
    for dropped in done.merged.dropped:
        _line(console, "dropped", f"{dropped.entry.name} of {dropped.source}: {dropped.reason}")
    for note in done.notes:
        _line(console, "note", note)
    _line(console, "spec", str(done.spec))
    if done.flagfile is not None:
        _line(console, "flags", str(done.flagfile))
        _line(console, "use", f"iree-compile MODEL.mlir @{done.flagfile} -o MODEL.vmfb")


def _line(console: Console, name: str, text: str, *, style: str = "") -> None:
    console.print(f"{name:<11}{text}", style=style, highlight=False, markup=False, soft_wrap=True)
