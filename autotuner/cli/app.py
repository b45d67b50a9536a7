"""The `autotune` command: its groups, and how errors become one line and an exit code."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from autotuner._version import __version__
from autotuner.cli.commands.ab import ab
from autotuner.cli.commands.model import model
from autotuner.cli.commands.operations import attention, conv, gemm
from autotuner.cli.commands.results import cache, doctor, export, history
from autotuner.cli.commands.spec import app as spec
from autotuner.cli.commands.suite import SuiteRequest, suite
from autotuner.cli.lazy import Lazy
from autotuner.cli.request import tuning_command
from autotuner.errors import AutotuneError

if TYPE_CHECKING:
    from autotuner.cli import ab as ab_action
    from autotuner.cli import buckets as gemm_action
    from autotuner.cli import console as consoles
    from autotuner.cli import model as model_action
    from autotuner.cli import suite as suite_action
    from autotuner.cli import tuning
else:
    ab_action, gemm_action, model_action = (Lazy(f"autotuner.cli.{name}") for name in ("ab", "buckets", "model"))
    suite_action, tuning, consoles = (Lazy(f"autotuner.cli.{name}") for name in ("suite", "tuning", "console"))

app = typer.Typer(
    name="autotune",
    help="Kernel autotuning for IREE: from a shape to a spec file that iree-compile takes, with proof.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command()(tuning_command(gemm, lambda *words: gemm_action.run_gemm(*words)))
for operation in (conv, attention):
    app.command()(tuning_command(operation, lambda *words: tuning.run_tuning(*words)))
app.command()(tuning_command(model, lambda *words: model_action.run_model(*words)))
app.command()(tuning_command(suite, lambda *words: suite_action.run_suite(*words), request=SuiteRequest))
app.command()(tuning_command(ab, lambda *words: ab_action.run_ab(*words)))
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
        console = consoles.make_console(stderr=True, no_color="--no-color" in sys.argv)
        console.print(f"autotune: {error}", style="red", markup=False, highlight=False, soft_wrap=True)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(141)
