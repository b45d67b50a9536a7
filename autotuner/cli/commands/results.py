"""`autotune history`, `export`, `cache` and `doctor`: their words and options."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autotuner.cli import options as o
from autotuner.cli.given import Given
from autotuner.cli.lazy import Lazy

if TYPE_CHECKING:
    from autotuner.cli import doctor as doctor_actions
    from autotuner.cli import results as actions
else:
    actions, doctor_actions = Lazy("autotuner.cli.results"), Lazy("autotuner.cli.doctor")

RunArgument = Annotated[str | None, typer.Argument(help="A run, as `history` names it. [default: all]")]


def history(
    context: typer.Context,
    run: RunArgument = None,
    limit: Annotated[int, typer.Option("--limit", help="How many runs, newest first.")] = 20,
    workspace: o.WorkspaceOption = Path(),
    storage: o.StorageOption = None,
    as_json: o.JsonOption = False,
    no_color: o.NoColorOption = False,
) -> None:
    """List the runs of this workspace, or one run's candidates and parts."""
    if run is not None:
        Given.of(context).refuse(["limit"], "counts runs, and one is named")
    actions.history(run, limit=limit, workspace=workspace, storage=storage, as_json=as_json, no_color=no_color)


def export(
    run: RunArgument = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="As CSV.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="As a JSON list.")] = False,
    workspace: o.WorkspaceOption = Path(),
    storage: o.StorageOption = None,
) -> None:
    """Print every timed candidate: --json (a list of objects) or --csv."""
    actions.export(run, as_csv=as_csv, as_json=as_json, workspace=workspace, storage=storage)


def cache(
    clear: Annotated[bool, typer.Option("--clear", help="Remove all cached builds.")] = False,
    as_json: o.JsonOption = False,
) -> None:
    """Show the build cache, or empty it."""
    actions.cache(clear=clear, as_json=as_json)


def doctor(
    iree_tools: o.IreeToolsOption = None, as_json: o.JsonOption = False, no_color: o.NoColorOption = False
) -> None:
    """Say what is installed, which targets compile, which devices answer, and what to do about the rest."""
    doctor_actions.doctor(iree_tools=iree_tools, as_json=as_json, no_color=no_color)
