"""`autotune bundle` and `worker`: work on other machines, by files and by a cluster."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from autotuner.cli import options as o
from autotuner.cli.options import examples, option
from autotuner.cli.request import CLUSTER, Request, tuning_command
from autotuner.errors import UsageError

bundle = typer.Typer(
    name="bundle",
    help=(
        "Time on a machine that only files reach. --bundle builds here, `run` times there, `import` takes the result."
    ),
    no_args_is_help=True,
    rich_markup_mode=None,
)


@bundle.command(epilog=examples("bundle run"))
def run(
    bundle: Annotated[Path, typer.Argument(metavar="BUNDLE", help="What --bundle wrote.")],
    output: Annotated[
        Path | None, option("-o --output", "Where the result goes, a .zip file. [default: BUNDLE-result.zip]")
    ] = None,
    force: o.Force = False,
    device: Annotated[str | None, option("--device", "IREE device URI. [default: the target's first]")] = None,
    budget: Annotated[
        str | None, option("--budget", "At most this long: 90s, 10m, 1h30m. [default: the bundle's]")
    ] = None,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Check, time and race what a bundle holds. IREE's runtime, numpy, typer and this package suffice; no compiler."""
    from autotuner.bundles import command
    from autotuner.cli.console import emit, emit_json, watching
    from autotuner.system.progress import parse_budget

    seconds = parse_budget(budget) if budget is not None else None
    with watching(quiet=quiet) as (reporter, stop):
        result, timed = command.run(
            bundle, output, force=force, device=device, seconds=seconds, reporter=reporter, stop=stop
        )
    if as_json:
        emit_json({"result": str(result), **timed.said})
    else:
        emit("\n".join([*timed.lines, f"{result}: import it with `autotune bundle import {result.name}`"]))


@dataclass(frozen=True)
class ImportWords:
    """Import a bundle's result. Its timings join the results, and the winner's files are written."""

    result: Annotated[Path, typer.Argument(metavar="RESULT", help="What `autotune bundle run` wrote.")]


def run_import(words: ImportWords, request: Request) -> None:
    """Imports a result and ends the process with the contract's exit code."""
    from autotuner.bundles.archive import is_suite
    from autotuner.cli.tuning import carry_out
    from autotuner.jobs.suite.bundled import import_suite_result
    from autotuner.tuning.unbundling import import_bundle_result

    file, options = words.result, request.options()
    if is_suite(file):
        carry_out(request, lambda watch: import_suite_result(file, options=options, **watch))
    else:
        carry_out(request, lambda watch: import_bundle_result(file, options=options, **watch))


_OF_THE_BUNDLE = (
    *("target", "chip", "device", "effort", "trials", "budget", "seed", "sampler", "cache", "isolate", "flags"),
    *("resume", "keep", "microkernels", "allow_precision", "iree_tools", "dry_run"),
)
bundle.command("import", epilog=examples("bundle import"))(
    tuning_command(ImportWords, run_import, without=(*_OF_THE_BUNDLE, *CLUSTER))
)


def worker(
    scheduler: Annotated[
        str, typer.Argument(metavar="SCHEDULER", help="tls://HOST:PORT, or tcp://127.0.0.1:PORT on this machine.")
    ],
    device: Annotated[
        str | None, option("--device", "IREE device URI that it lends. [default: it only builds]")
    ] = None,
    jobs: o.Jobs = None,
    name: Annotated[str | None, option("--name", "What it is called in notes. [default: host and process]")] = None,
    iree_tools: o.IreeTools = None,
    insecure_cluster: o.Insecure = False,
) -> None:
    """Build and time for `--cluster` runs. Without --device it only builds. Needs the extra `distributed`."""
    from autotuner.cli.console import emit
    from autotuner.cluster.address import Scheduler, need_dask
    from autotuner.tuning.options import MOST_JOBS

    if jobs is not None and not 1 <= jobs <= MOST_JOBS:
        raise UsageError(f"--jobs {jobs} is not from 1 to {MOST_JOBS}.", remedy="Give a number of compiles at once.")
    there = Scheduler(scheduler, insecure=insecure_cluster)
    need_dask()
    from autotuner.cluster.worker import serve

    serve(there, device=device, jobs=jobs, name=name, iree_tools=iree_tools, say=emit)
