"""The `autotune` command: its groups, and how errors become one line and an exit code."""

import errno
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autotuner._version import __version__
from autotuner.cli.commands.ab import Wanted
from autotuner.cli.commands.bench import BenchRequest, BenchWords
from autotuner.cli.commands.bundle import app as bundle
from autotuner.cli.commands.compare import compare
from autotuner.cli.commands.model import model
from autotuner.cli.commands.nightly import nightly
from autotuner.cli.commands.operations import any_problem, attention, conv, gemm
from autotuner.cli.commands.report import report
from autotuner.cli.commands.results import cache, doctor, export, history, import_results
from autotuner.cli.commands.retune import RetuneRequest, RetuneWords
from autotuner.cli.commands.spec import app as spec
from autotuner.cli.commands.suite import SuiteRequest, SuiteWords
from autotuner.cli.commands.worker import worker
from autotuner.cli.examples import HELP, examples
from autotuner.cli.lazy import Lazy
from autotuner.cli.output import OutputError, give_up_stdout, guarded
from autotuner.cli.request import ProblemRequest, tuning_command
from autotuner.errors import (
    EXIT_INTERRUPTED,
    EXIT_PIPE,
    AutotuneError,
    Bug,
    EnvironmentFailure,
    StorageError,
    UsageError,
)
from autotuner.system.process import Closing
from autotuner.system.text import clean
from autotuner.system.words import given_command
from autotuner.system.workspace import is_text

if TYPE_CHECKING:
    from autotuner.cli import ab as ab_action
    from autotuner.cli import bench as bench_action
    from autotuner.cli import buckets as gemm_action
    from autotuner.cli import console as consoles
    from autotuner.cli import model as model_action
    from autotuner.cli import retune as retune_action
    from autotuner.cli import suite as suite_action
    from autotuner.cli import tuning
    from autotuner.system import settings
else:
    settings = Lazy("autotuner.system.settings")
    ab_action, bench_action = (Lazy(f"autotuner.cli.{name}") for name in ("ab", "bench"))
    gemm_action, model_action = (Lazy(f"autotuner.cli.{name}") for name in ("buckets", "model"))
    suite_action, tuning, consoles = (Lazy(f"autotuner.cli.{name}") for name in ("suite", "tuning", "console"))
    retune_action = Lazy("autotuner.cli.retune")

AB_DTYPE = "A microkernel's first type comes before that."

app = typer.Typer(
    name="autotune",
    help="Kernel autotuning for IREE: from a shape to a spec file that iree-compile takes, with proof.",
    no_args_is_help=True,
    context_settings=HELP,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _add(name: str, command: Callable[..., None]) -> None:
    app.command(name, epilog=examples(name))(command)


_add("gemm", tuning_command(gemm, lambda *words: gemm_action.run_gemm(*words), request=ProblemRequest))
for operation in (conv, attention):
    _add(
        operation.__name__, tuning_command(operation, lambda *words: tuning.run_tuning(*words), request=ProblemRequest)
    )
_add("model", tuning_command(model, lambda *words: model_action.run_model(*words)))
_add("suite", tuning_command(SuiteWords, lambda *words: suite_action.run_suite(*words), request=SuiteRequest))
_add("ab", tuning_command(Wanted, lambda *words: ab_action.run_ab(*words), words=any_problem(dtype=AB_DTYPE)))
_add(
    "bench",
    tuning_command(
        BenchWords, lambda *words: bench_action.run_bench(*words), request=BenchRequest, words=any_problem()
    ),
)
_add("retune", tuning_command(RetuneWords, lambda *words: retune_action.run_retune(*words), request=RetuneRequest))
app.add_typer(spec)
app.add_typer(bundle)
_add("import", import_results)
_add("worker", worker)
for look_back in (report, compare, nightly, history, export, cache, doctor):
    _add(look_back.__name__, look_back)


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


def main(began: float | None = None) -> None:
    """Runs the command line. Whatever happens is an exit code and, where it is a failure, one line on stderr.

    `began` is the moment from which the command's time counts; by default when its words are read.
    """
    with guarded():
        sys.exit(_code(began))


def _code(began: float | None) -> int:
    try:
        _refuse_bytes(sys.argv[1:])
        code = _run(began)
        sys.stdout.flush()
        return code
    except OutputError as error:
        give_up_stdout()
        if error.cause.errno == errno.EPIPE:
            return EXIT_PIPE  # whoever read has seen enough, as in `autotune history | head -1`
        return _say(
            StorageError(f"the output cannot be written: {error.cause.strerror}.", remedy="Write it elsewhere.")
        )
    except AutotuneError as error:
        return _say(error)
    except (KeyboardInterrupt, Closing):
        return EXIT_INTERRUPTED
    except MemoryError:
        return _say(EnvironmentFailure("this machine has not enough memory.", remedy="Try a smaller shape."))
    except OSError as error:
        return _say(_of_the_system(error))
    except Exception as error:
        return _say(_bug(error))


def _run(began: float | None) -> int:
    settings.join_completed_words()
    try:
        app(obj=began)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    return 0


def _refuse_bytes(words: Sequence[str]) -> None:
    """File names may be any bytes; what is written about them, and IREE's programs, want UTF-8."""
    for word in words:
        if not is_text(word):
            raise UsageError(f"{word!a} is not valid UTF-8.", remedy="Rename it, or use another name.")


def _say(error: AutotuneError) -> int:
    console = consoles.make_console(stderr=True, no_color="--no-color" in sys.argv)
    line = " ".join(f"autotune: {error}".split("\n"))
    console.print(line, style="red", markup=False, highlight=False, soft_wrap=True)
    return error.exit_code


def _of_the_system(error: OSError) -> AutotuneError:
    """A file, a folder or a process that cannot be had."""
    try:
        where = f"{error.filename!s} cannot be used" if error.filename else f"the system refuses (in {Path.cwd()})"
    except OSError:
        where = "the current folder is gone"
    reason = error.strerror or str(error)
    return EnvironmentFailure(f"{where}: {reason}.", remedy="Check that it is there, and the rights and the space.")


def _bug(error: Exception) -> AutotuneError:
    """What nobody foresaw: its details go into a file, or where that cannot be, to stderr."""
    details = "".join(traceback.format_exception(error))
    try:
        path = settings.cache_dir() / f"bug-{int(time.time())}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{list(given_command())}\n{details}", encoding="utf-8", errors="backslashreplace")
        remedy = f"Please report it with {path}."
    except OSError:
        print(clean(details), file=sys.stderr)
        remedy = "Please report it with what stands above."
    return Bug(f"this is a bug of autotune: {type(error).__name__}: {error}.", remedy=remedy)
