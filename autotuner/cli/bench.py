"""`autotune bench`: problems on IREE and on other libraries, side by side."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autotuner.cli.operations import any_problem, named_problem
from autotuner.cli.options import option
from autotuner.cli.request import CLUSTER, OF_A_MODEL, ModelWords, Request, default_dtype, tuning_command
from autotuner.errors import DeviceError, OutOfTimeError, UsageError

if TYPE_CHECKING:
    from autotuner.jobs.suite.workload import Workload
    from autotuner.programs.model import Model


@dataclass(frozen=True)
class BenchWords:
    """Time problems on IREE and other libraries, side by side. They take turns on the same inputs."""

    workload: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME|FILE",
            help="A suite, a file of problems as `autotune suite` takes them, or a model: .mlir, .mlirbc or .onnx.",
        ),
    ] = None
    backends: Annotated[
        str | None,
        option(
            "--backends",
            "Which, comma separated: iree, tuned, numpy, torch, triton, hipblaslt, rocblas, onnxruntime. "
            "[default: those that are installed]",
        ),
    ] = None
    pythons: Annotated[
        list[str] | None,
        option("--python", "LIBRARY=PYTHON: the interpreter that has this library; repeatable."),
    ] = None
    spec: Annotated[
        Path | None,
        option(
            "--spec",
            "The spec or flagfile of `tuned`, or a folder with a spec of each problem's name. "
            "[default: the last that won in the workspace]",
        ),
    ] = None
    onnx: Annotated[
        Path | None, option("--onnx", "The same model for the libraries, which take ONNX, where IREE is given MLIR.")
    ] = None
    said: ModelWords = field(default_factory=ModelWords)
    words: Mapping[str, Any] = field(default_factory=dict)
    """The problem's options, as gemm, conv or attention take them."""


def run_bench(wanted: BenchWords, request: Request) -> None:
    """Times the problems and ends the process with the contract's exit code."""
    from autotuner.cli.tuning import show, watched
    from autotuner.jobs.bench.backends import TUNED, Terms
    from autotuner.jobs.bench.run import bench, bench_model
    from autotuner.jobs.suite.run import Selection

    if not request.timed:
        raise UsageError("bench times, and --device none runs nothing.", remedy="Leave --device out.")
    if "," in (request.device or ""):
        raise UsageError(f"--device {request.device} names several.", remedy="Name one: bench times on one.")
    if request.cache == "cold":
        raise UsageError("bench tells cold times beside warm ones.", remedy="Give --cache both, or warm.")
    target, options = request.built_for(), request.options()
    model = _model(wanted, request)
    files = {"spec": wanted.spec, "trust": wanted.said.trust, "onnx": wanted.onnx}
    terms = Terms.parse(wanted.backends, wanted.pythons or (), **files)
    if TUNED not in terms.names:
        request.given.refuse(["spec"], "is for the backend `tuned`", remedy="Add it to --backends.")
    if model is not None:
        with watched(request) as watch:
            result = bench_model(model, terms, target, options=options, **watch)
    else:
        workload = _workload(wanted, request)
        selected = Selection(workload.allowing(request.allow_precision))
        with watched(request) as watch:
            result = bench(selected.on(target, seed=request.seed), terms, target, options=options, **watch)
    show(result, result.printer(), request)
    if result.failed and not result.problems:
        raise OutOfTimeError("ran out of time before anything was timed.")
    if result.failed:
        raise DeviceError("no backend could be timed.", remedy="The table says why, row by row.")


def _model(wanted: BenchWords, request: Request) -> "Model | None":
    """The model, if the file is one."""
    from autotuner.programs.model import FORMATS

    path = Path(wanted.workload or "")
    if path.suffix not in FORMATS:
        request.given.refuse(["onnx", *OF_A_MODEL], "is for a model")
        return None
    request.given.refuse(["cache"], "is for single problems: a model is timed with the cache that it leaves itself")
    request.given.refuse(["shape"], "has no meaning with a model")
    return wanted.said.there(path, request)


def _workload(wanted: BenchWords, request: Request) -> "Workload":
    from autotuner.jobs.suite.load import load
    from autotuner.jobs.suite.workload import Entry, Workload

    problem = named_problem(wanted.words, request)
    if problem is not None and wanted.workload is not None:
        raise UsageError("--shape and NAME|FILE are two things to time.", remedy="Give one of them.")
    if problem is not None:
        return Workload(problem.name, "", "", (Entry(problem),))
    if wanted.workload is None:
        raise UsageError("bench needs a name, a file or a --shape.", remedy="Try: autotune bench --shape 512x512x512.")
    return load(wanted.workload, dtype=default_dtype(request.target))


_OF_A_SEARCH = (
    *("effort", "trials", "isolate", "output", "force", "keep", "microkernels", "dry_run", "chip", "resume"),
    "fail_if_no_winner",
)
TUNING = tuning_command(
    BenchWords,
    run_bench,
    words=any_problem(),
    without=(*_OF_A_SEARCH, *CLUSTER),
)
