"""`autotune history`, `export`, `import`, `cache` and `doctor`: their words and options."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autotuner.cli import completion
from autotuner.cli import options as o
from autotuner.cli.given import Given
from autotuner.cli.lazy import Lazy

if TYPE_CHECKING:
    from autotuner.cli import doctor as doctor_actions
    from autotuner.cli import exports as export_actions
    from autotuner.cli import results as actions
else:
    actions, doctor_actions = Lazy("autotuner.cli.results"), Lazy("autotuner.cli.doctor")
    export_actions = Lazy("autotuner.cli.exports")

RunArgument = Annotated[str | None, typer.Argument(metavar="RUN", help="A run, as `history` names it. [default: all]")]


OPERATIONS = ("gemm", "conv", "attention", "model", "suite", "retune")
VERDICTS = ("win", "no-winner", "inconclusive", "compile-only")
FILTERS = ("limit", "op", "shape", "target", "device", "since", "verdict", "trend")


def history(
    context: typer.Context,
    run: RunArgument = None,
    limit: Annotated[int, typer.Option("--limit", help="How many runs, newest first.")] = 20,
    op: Annotated[
        str | None,
        typer.Option(
            "--op", help="Of this operation: gemm, conv, model, …", autocompletion=completion.one_of(*OPERATIONS)
        ),
    ] = None,
    shape: Annotated[str | None, typer.Option("--shape", help="Of this shape, as the problem's name has it.")] = None,
    target: Annotated[
        str | None, typer.Option("--target", help="For this chip or product.", autocompletion=completion.target)
    ] = None,
    device: Annotated[
        str | None, typer.Option("--device", help="On this IREE device, or a piece of the device's name.")
    ] = None,
    since: Annotated[str | None, typer.Option("--since", help="Since 2026-11-01, or so long ago: 12h, 7d.")] = None,
    verdict: Annotated[
        str | None,
        typer.Option(
            "--verdict", help="Of this verdict: win, no-winner, …", autocompletion=completion.one_of(*VERDICTS)
        ),
    ] = None,
    trend: Annotated[bool, typer.Option("--trend", help="Each problem over time, oldest run first.")] = False,
    workspace: o.WorkspaceOption = Path(),
    storage: o.StorageOption = None,
    as_json: o.JsonOption = False,
    no_color: o.NoColorOption = False,
) -> None:
    """List the runs of this workspace, or the candidates of one. --trend shows how a problem did over time.

    --op and --shape also find the parts of suites and models.
    """
    if run is not None:
        Given.of(context).refuse(FILTERS, "chooses among runs, and one is named")
    shown = actions.Shown(run, trend=trend, as_json=as_json, no_color=no_color)
    wanted = actions.Wanted(limit, op, shape, target, device, since, verdict)
    actions.history(shown, wanted, workspace=workspace, storage=storage)


def export(
    run: RunArgument = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="As CSV.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="As a JSON list.")] = False,
    as_parquet: Annotated[bool, typer.Option("--parquet", help="As a Parquet table (pyarrow).")] = False,
    as_t4: Annotated[bool, typer.Option("--t4", help="RUN as T4 JSON, which other auto-tuners read.")] = False,
    as_optuna: Annotated[bool, typer.Option("--optuna", help="As a journal of Optuna, for its dashboard.")] = False,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Into this file. [default: stdout]")] = None,
    workspace: o.WorkspaceOption = Path(),
    storage: o.StorageOption = None,
) -> None:
    """Print every timed candidate. Choose a form: --json (a list of objects), --csv, --parquet, --t4 or --optuna."""
    asked = {"csv": as_csv, "json": as_json, "parquet": as_parquet, "t4": as_t4, "optuna": as_optuna}
    forms = [form for form, wanted in asked.items() if wanted]
    export_actions.export(run, forms, output=output, workspace=workspace, storage=storage)


def import_results(
    files: Annotated[list[Path], typer.Argument(help="Exports: .json, .csv or .parquet.", metavar="FILE")],
    workspace: o.WorkspaceOption = Path(),
    storage: o.StorageOption = None,
    as_json: o.JsonOption = False,
) -> None:
    """Take the runs of other stores' exports into this one. A run that is here already is left alone."""
    export_actions.import_files(files, workspace=workspace, storage=storage, as_json=as_json)


def cache(
    clear: Annotated[bool, typer.Option("--clear", help="Remove all cached builds.")] = False,
    as_json: o.JsonOption = False,
) -> None:
    """Show the build cache, or empty it."""
    actions.cache(clear=clear, as_json=as_json)


def doctor(
    iree_tools: o.IreeToolsOption = None, as_json: o.JsonOption = False, no_color: o.NoColorOption = False
) -> None:
    """Say what works on this machine, and what to do about the rest. Tools, extras, targets and devices are tried."""
    doctor_actions.doctor(iree_tools=iree_tools, as_json=as_json, no_color=no_color)
