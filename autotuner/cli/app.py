"""The `autotune` command: its groups, and how errors become one line and an exit code.

A command's module has its words and what it does. What takes time to import it imports when it runs: `autotune --help`
must not wait for pandas, Optuna and IREE's bindings.
"""

import errno
import re
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from autotuner._version import __version__
from autotuner.cli import ab, bench, model, operations, registry, results, retune, suite
from autotuner.cli.elsewhere import bundle, worker
from autotuner.cli.nightly import nightly
from autotuner.cli.options import HELP, GroupedCommand, examples
from autotuner.cli.output import OutputError, give_up_stdout, guarded
from autotuner.cli.spec import app as spec
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
from autotuner.system.settings import given_command
from autotuner.system.text import clean
from autotuner.system.workspace import is_text

COMMANDS: Mapping[str, Callable[..., None]] = {
    **operations.TUNING,
    "model": model.TUNING,
    "suite": suite.TUNING,
    "ab": ab.TUNING,
    "bench": bench.TUNING,
    "retune": retune.TUNING,
    "apply": registry.APPLY,
    "import": results.import_results,
    "worker": worker,
    "report": results.report,
    "compare": results.compare_sets,
    "nightly": nightly,
    "history": results.history,
    "export": results.export,
    "cache": results.cache,
    "doctor": results.doctor,
}
_FILES: Mapping[str, str] = {
    **dict.fromkeys((".onnx", ".mlir", ".mlirbc"), "model"),
    **dict.fromkeys((".csv", ".yaml", ".yml", ".log"), "suite"),
}
"""The command for a file without one, by its suffix."""
_WHOLE = "Install autotune with all that it depends on; without a compiler only `autotune bundle run` works."
_LOADS = "Is there enough memory (ulimit -v)? Otherwise install that package again."
_SHAPE = re.compile(r"\d+([x×,*]\d+)+", re.IGNORECASE)

_SETTINGS: dict[str, Any] = {
    "context_settings": HELP,
    "pretty_exceptions_enable": False,
    "rich_markup_mode": None,
}
app = typer.Typer(
    name="autotune",
    help="Kernel autotuning for IREE: from a shape to a spec file that iree-compile takes, with proof.",
    no_args_is_help=True,
    **_SETTINGS,
)
for name, command in COMMANDS.items():
    app.command(name, cls=GroupedCommand, epilog=examples(name))(command)
app.add_typer(spec)
app.add_typer(bundle)
app.add_typer(registry.registry)


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
    """Runs the command line. Every end is an exit code; a failure is also one line on stderr.

    `began` is the moment from which the command's time counts; by default when its words are read.
    """
    with guarded():
        sys.exit(_code(began))


def _code(began: float | None) -> int:
    try:
        _refuse_bytes(sys.argv[1:])
        sys.argv[1:] = _meant(sys.argv[1:])
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
    except ModuleNotFoundError as error:
        return _say(EnvironmentFailure(f"the Python package {error.name} is not installed.", remedy=_WHOLE))
    except ImportError as error:  # a library that finds no memory, or is not whole
        return _say(EnvironmentFailure(f"a Python package does not load: {error}.", remedy=_LOADS))
    except Exception as error:
        return _say(_bug(error))


def _run(began: float | None) -> int:
    words = sys.argv[1:]
    try:
        if words and words[0] in COMMANDS:
            _alone(words[0])(words[1:], prog_name=f"autotune {words[0]}", obj=began)
        else:
            app(obj=began)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    return 0


def _meant(words: list[str]) -> list[str]:
    """The command of a file without one, the option of a shape without one; `tune` alone is a hint."""
    if words == ["tune"]:
        remedy = "Try autotune gemm --shape 4096x4096x4096, autotune model MODEL.onnx, or autotune --help."
        raise UsageError("tune what?", remedy=remedy)
    words = words[words[:1] == ["tune"] :]
    if words and (command := _FILES.get(Path(words[0]).suffix)):
        return [command, *words]
    if words[1:] and words[0] in operations.COMMANDS and _SHAPE.fullmatch(words[1]):
        return [words[0], "--shape", *words[1:]]
    return words


def _alone(name: str) -> typer.Typer:
    """The program of one command. typer makes the options of all others, too, and reads those of the root by pydantic:
    that is half of what `--help` takes."""
    program = typer.Typer(add_completion=False, **_SETTINGS)
    program.command(name, cls=GroupedCommand, epilog=examples(name))(COMMANDS[name])
    return program


def _refuse_bytes(words: Sequence[str]) -> None:
    """File names may be any bytes; messages and IREE's programs need UTF-8."""
    for word in words:
        if not is_text(word):
            raise UsageError(f"{word!a} is not valid UTF-8.", remedy="Rename it, or use another name.")


def _say(error: AutotuneError) -> int:
    from autotuner.cli.console import make_console, say

    console = make_console(stderr=True)
    text = "\n".join([f"autotune: {error}", *getattr(error, "__notes__", ())])
    say(console, " ".join(text.split("\n")), style="red")
    return error.exit_code


def _of_the_system(error: OSError) -> AutotuneError:
    """A file, a folder or a process that the system refuses."""
    try:
        where = f"{error.filename!s} cannot be used" if error.filename else f"the system refuses (in {Path.cwd()})"
    except OSError:
        where = "the current folder is gone"
    reason = error.strerror or str(error)
    return EnvironmentFailure(f"{where}: {reason}.", remedy="Check that it is there, and the rights and the space.")


def _bug(error: Exception) -> AutotuneError:
    """An unexpected error: its details go into a file, or to stderr where no file can be written."""
    from autotuner.system.settings import cache_dir

    details = "".join(traceback.format_exception(error))
    try:
        path = cache_dir() / f"bug-{int(time.time())}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{list(given_command())}\n{details}", encoding="utf-8", errors="backslashreplace")
        remedy = f"Please report it with {path}."
    except OSError:
        print(clean(details), file=sys.stderr)
        remedy = "Please report it with what stands above."
    return Bug(f"this is a bug of autotune: {type(error).__name__}: {error}.", remedy=remedy)
