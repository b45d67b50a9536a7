"""The `autotune` command: its groups, and how errors become one line and an exit code."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from autotuner._version import __version__
from autotuner.cli.ab import ab, run_ab
from autotuner.cli.buckets import run_gemm
from autotuner.cli.console import make_console
from autotuner.cli.doctor import doctor
from autotuner.cli.model import model, run_model
from autotuner.cli.operations import attention, conv, gemm
from autotuner.cli.results import cache, export, history
from autotuner.cli.spec import app as spec
from autotuner.cli.suite import suite
from autotuner.cli.tuning import tuning_command
from autotuner.errors import AutotuneError

app = typer.Typer(
    name="autotune",
    help="Kernel autotuning for IREE: from a shape to a spec file that iree-compile takes, with proof.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command()(tuning_command(gemm, run_gemm))
for operation in (conv, attention):
    app.command()(tuning_command(operation))
app.command()(tuning_command(model, run_model))
app.command()(suite)
app.command()(tuning_command(ab, run_ab))
app.add_typer(spec)
app.command()(history)
app.command()(export)
app.command()(cache)
app.command()(doctor)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"autotune {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    del version


def main() -> None:
    """Runs the command line; a failure that the user can act on is one line on stderr."""
    try:
        app()
    except AutotuneError as error:
        console = make_console(stderr=True, no_color="--no-color" in sys.argv)
        console.print(f"autotune: {error}", style="red", markup=False, highlight=False, soft_wrap=True)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(141)
