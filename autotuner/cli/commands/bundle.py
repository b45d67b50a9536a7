"""`autotune bundle`: the words and options of run and import."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autotuner.bundles import words as w
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
    help=(
        "Time on a machine that only files reach. "
        "--bundle builds here, `run` times there, `import` brings the verdict home."
    ),
    no_args_is_help=True,
    rich_markup_mode=None,
)


def _option(word: w.Word) -> Any:
    return typer.Option(*word.names, help=word.help)


@app.command(help=w.SUMMARY, epilog=examples("bundle run"))
def run(
    bundle: Annotated[Path, typer.Argument(metavar="BUNDLE", help=w.BUNDLE)],
    output: Annotated[Path | None, _option(w.OUTPUT)] = None,
    device: Annotated[str | None, _option(w.DEVICE)] = None,
    budget: Annotated[str | None, _option(w.BUDGET)] = None,
    resume: Annotated[bool, _option(w.RESUME)] = False,
    as_json: Annotated[bool, _option(w.JSON)] = False,
    quiet: Annotated[bool, _option(w.QUIET)] = False,
) -> None:
    code = command.run(bundle, output=output, device=device, budget=budget, resume=resume, as_json=as_json, quiet=quiet)
    if code:
        raise typer.Exit(code)


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
    """Bring a bundle's verdict home. Its timings join the results, and the winner's spec is shipped."""
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
