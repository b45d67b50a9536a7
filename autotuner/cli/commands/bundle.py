"""`autotune bundle`: the words and options of run and import."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autotuner.cli import options as o
from autotuner.cli.examples import examples
from autotuner.cli.lazy import Lazy

if TYPE_CHECKING:
    from autotuner.bundles import command
    from autotuner.cli import bundle as actions
else:
    command, actions = Lazy("autotuner.bundles.command"), Lazy("autotuner.cli.bundle")

app = typer.Typer(
    name="bundle",
    help="Split by file: run what --bundle wrote where the device is, and import what comes back.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command(epilog=examples("bundle run"))
def run(
    bundle: Annotated[Path, typer.Argument(metavar="BUNDLE", help="What --bundle wrote.")],
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Where the result goes, a .zip file. [default: BUNDLE-result.zip]"),
    ] = None,
    device: Annotated[
        str | None, typer.Option("--device", help="IREE device URI. [default: the target's first]")
    ] = None,
    budget: Annotated[
        str | None, typer.Option("--budget", help="At most this long: 90s, 10m, 1h30m. [default: the bundle's]")
    ] = None,
    as_json: o.JsonOption = False,
    quiet: o.QuietOption = False,
) -> None:
    """Check, time and race what a bundle holds. IREE's runtime, numpy and this package suffice; no compiler."""
    command.run(bundle, output=output, device=device, budget=budget, as_json=as_json, quiet=quiet)


@app.command("import", epilog=examples("bundle import"))
def bring(
    result: Annotated[Path, typer.Argument(metavar="RESULT", help="What `autotune bundle run` wrote.")],
    output: o.OutputOption = None,
    workspace: o.WorkspaceOption = Path(),
    storage: o.StorageOption = None,
    jobs: o.JobsOption = None,
    as_json: o.JsonOption = False,
    quiet: o.QuietOption = False,
    no_color: o.NoColorOption = False,
    fail_if_no_winner: o.FailOption = False,
) -> None:
    """Bring a bundle's verdict home: its timings into the results, the winner's spec compiled once more and shipped."""
    actions.bring(
        result,
        output=output,
        workspace=workspace,
        storage=storage,
        jobs=jobs,
        as_json=as_json,
        quiet=quiet,
        no_color=no_color,
        fail_if_no_winner=fail_if_no_winner,
    )
