"""`autotune report`: its words and options."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autotuner.cli import options as o
from autotuner.cli.given import Given
from autotuner.cli.lazy import Lazy

if TYPE_CHECKING:
    from autotuner.cli import report as actions
else:
    actions = Lazy("autotuner.cli.report")


def report(
    context: typer.Context,
    runs: Annotated[
        list[str] | None, typer.Argument(metavar="RUN", help="Runs, as `history` names them. [default: all]")
    ] = None,
    output: Annotated[Path, typer.Option("-o", "--output", help="The file of the page.")] = Path("report.html"),
    bandwidth: Annotated[
        bool, typer.Option("--bandwidth", help="Measure the device's memory bandwidth now, for the roofline.")
    ] = False,
    serve: Annotated[
        bool, typer.Option("--serve", help="Serve the page on this machine; it follows a run that goes on.")
    ] = False,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Of --serve; 0: a free one.")] = 0,
    workspace: o.WorkspaceOption = Path(),
    storage: o.StorageOption = None,
    no_color: o.NoColorOption = False,
) -> None:
    """Make one page of runs that opens from a file. It has verdicts, charts, proofs, failures, all candidates."""
    given = Given.of(context)
    if serve:
        given.refuse(["output"], "is of no use with --serve, which writes no file")
        given.refuse(["bandwidth"], "would disturb the run that --serve follows")
        actions.serve(runs or (), port=port, workspace=workspace, storage=storage)
    else:
        given.refuse(["port"], "is of --serve")
        actions.report(
            runs or (),
            output=output,
            bandwidth=bandwidth,
            workspace=workspace,
            storage=storage,
            no_color=no_color,
        )
