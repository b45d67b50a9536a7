"""`autotune ab`: is a hand-written kernel really faster than IREE's own code, and is it right?"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from autotuner.cli import options as o
from autotuner.cli.console import make_console
from autotuner.cli.tuning import Request, run_tuning
from autotuner.errors import UsageError
from autotuner.microkernels.abi import kernels_json, kernels_table
from autotuner.microkernels.library import all_manifests, find, own_folder, search_folders
from autotuner.microkernels.misa import read_driver_log
from autotuner.microkernels.skeleton import create
from autotuner.microkernels.variants import Kernel
from autotuner.problems import Attention, Conv, Gemm, Problem

TRIALS = 24
"""Variants of a microkernel that are tried unless --trials says otherwise."""


def ab(
    microkernel: Annotated[str | None, typer.Argument(help="A microkernel, as --list names it.")] = None,
    shape: Annotated[str | None, typer.Option("--shape", help="As for gemm, conv or attention.")] = None,
    filter: Annotated[str | None, typer.Option("--filter", help="KHxKWxF of a convolution.")] = None,
    stride: Annotated[str, typer.Option("--stride", help="SHxSW of a convolution.")] = "1x1",
    dilation: Annotated[str, typer.Option("--dilation", help="DHxDW of a convolution.")] = "1x1",
    pad: Annotated[str, typer.Option("--pad", help="PHxPW of a convolution.")] = "0x0",
    groups: Annotated[int, typer.Option("--groups", help="Groups of a convolution.")] = 1,
    batch: Annotated[int, typer.Option("--batch", help="Batch of a gemm.")] = 1,
    causal: Annotated[bool, typer.Option("--causal", help="Of an attention.")] = False,
    dtype: Annotated[str | None, typer.Option("--dtype", help="[default: the microkernel's first]")] = None,
    layout: Annotated[str | None, typer.Option("--layout", help="[default: the operation's first]")] = None,
    objects: Annotated[
        list[Path] | None, typer.Option("--object", help="Your own object (hsaco, PTX, .o) for the microkernel.")
    ] = None,
    symbol: Annotated[str | None, typer.Option("--symbol", help="The kernel's name in that object.")] = None,
    show_all: Annotated[bool, typer.Option("--list", help="List the microkernels there are.")] = False,
    inspect: Annotated[
        Path | None, typer.Option("--inspect", help="Print the kernels of an object: hsaco, PTX or .o.")
    ] = None,
    log: Annotated[
        Path | None, typer.Option("--log", help="List the kernels and figures of MISA's driver output.")
    ] = None,
    new: Annotated[
        str | None, typer.Option("--new", help="Begin a microkernel of this name: writes a commented manifest.")
    ] = None,
    target: o.TargetOption = "cpu",
    device: o.DeviceOption = None,
    effort: o.EffortOption = "normal",
    trials: o.TrialsOption = None,
    budget: o.BudgetOption = None,
    seed: o.SeedOption = 0,
    workspace: o.WorkspaceOption = Path(),
    output: o.OutputOption = None,
    storage: o.StorageOption = None,
    flags: o.FlagOption = None,
    keep: o.KeepOption = "best,failed",
    dry_run: o.DryRunOption = False,
    as_json: o.JsonOption = False,
    quiet: o.QuietOption = False,
    no_color: o.NoColorOption = False,
    fail_if_no_winner: o.FailOption = False,
) -> None:
    """Race a microkernel against IREE's default: same inputs, both results checked, one verdict."""
    if show_all:
        _list(workspace, as_json=as_json, no_color=no_color)
        return
    if inspect is not None:
        _inspect(inspect, as_json=as_json, no_color=no_color)
        return
    if log is not None:
        _log(log, as_json=as_json, no_color=no_color)
        return
    if new is not None:
        print(create(new, own_folder(workspace)))
        return
    if microkernel is None or shape is None:
        raise UsageError(
            "ab needs a microkernel and --shape.", remedy="`autotune ab --list` names the microkernels there are."
        )
    manifest = find(microkernel, search_folders(workspace))
    kind = dtype or manifest.dtypes[0]
    problem: Problem
    if manifest.operation == "gemm":
        problem = Gemm.parse(shape=shape, dtype=kind, batch=batch, layout=layout or "nn")
    elif manifest.operation == "conv":
        if filter is None:
            raise UsageError(f"{microkernel} is a convolution.", remedy="Give --filter KHxKWxF too.")
        window = {"stride": stride, "dilation": dilation, "pad": pad}
        problem = Conv.parse(
            shape=shape, filter=filter, **window, groups=groups, dtype=kind, layout=layout or "nhwc-hwcf"
        )
    else:
        problem = Attention.parse(shape=shape, dtype=kind, causal=causal)
    request = Request(
        target=target,
        device=device,
        effort=effort,
        trials=trials or TRIALS,
        budget=budget,
        seed=seed,
        workspace=workspace,
        output=output,
        storage=storage,
        flags=flags,
        keep=keep,
        dry_run=dry_run,
        as_json=as_json,
        quiet=quiet,
        no_color=no_color,
        fail_if_no_winner=fail_if_no_winner,
    )
    kernel = Kernel(microkernel, tuple(objects or ()), symbol)
    run_tuning(problem, request, experiment=kernel)


def _list(workspace: Path, *, as_json: bool, no_color: bool) -> None:
    listing = all_manifests(search_folders(workspace))
    if as_json:
        broken = [{"name": b.name, "file": str(b.file), "error": b.why} for b in listing.broken]
        print(json.dumps([*(m.describe() for m in listing.manifests), *broken], indent=2))
        return
    table = Table("name", "op", "dtypes", "targets", "provider", "what", box=None, pad_edge=False)
    for manifest in listing.manifests:
        chips = ", ".join(manifest.chips)
        words = (manifest.name, manifest.operation, ", ".join(manifest.dtypes), chips, manifest.provider.kind)
        table.add_row(*map(Text, (*words, manifest.summary)))
    for wrong in listing.broken:
        table.add_row(Text(wrong.name), Text("broken", style="red"), "", "", "", Text(wrong.why))
    make_console(no_color=no_color).print(table)


def _inspect(path: Path, *, as_json: bool, no_color: bool) -> None:
    if as_json:
        print(json.dumps(kernels_json(path), indent=2))
        return
    rows = kernels_table(path)
    table = Table(*rows[0], box=None, pad_edge=False)
    for row in rows:
        table.add_row(*map(Text, row.values()))
    make_console(no_color=no_color).print(table)


def _log(path: Path, *, as_json: bool, no_color: bool) -> None:
    try:
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
    table = Table("#", "kernel", "ks", "ms", "TFLOP/s", "valid", box=None, pad_edge=False)
    for row in found.rows:
        valid = "" if row.valid is None else ("yes" if row.valid else "no")
        table.add_row(str(row.index), Text(row.kernel), str(row.ks), f"{row.ms:g}", f"{row.tflops or 0:g}", valid)
    make_console(no_color=no_color).print(table)
    for line in found.skipped:
        make_console(stderr=True, no_color=no_color).print(f"skipped: {line}", markup=False, highlight=False)
