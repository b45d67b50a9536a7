"""`autotune bench`: problems on IREE and on other libraries, side by side."""

from __future__ import annotations

from pathlib import Path

from autotuner.cli.commands.bench import BenchRequest, BenchWords
from autotuner.cli.commands.operations import default_dtype
from autotuner.cli.problem import named_model, named_problem
from autotuner.cli.tuning import show, watched
from autotuner.errors import DeviceError, OutOfTimeError, UsageError
from autotuner.jobs.bench.backends import TUNED, Chosen
from autotuner.jobs.bench.model import bench_model
from autotuner.jobs.bench.opening import Terms
from autotuner.jobs.bench.run import bench
from autotuner.jobs.bench.tuned import given_arm
from autotuner.jobs.model.context import Model
from autotuner.jobs.model.program import FORMATS
from autotuner.jobs.suite.load import load
from autotuner.jobs.suite.run import Selection
from autotuner.jobs.suite.workload import Entry, Workload


def run_bench(wanted: BenchWords, request: BenchRequest) -> None:
    """Times the problems and ends the process with the contract's exit code."""
    if not request.timed:
        raise UsageError("bench times, and --device none runs nothing.", remedy="Leave --device out.")
    if "," in (request.device or ""):
        raise UsageError(f"--device {request.device} names several.", remedy="Name one: bench times on one.")
    if request.cache == "cold":
        raise UsageError("bench tells cold times beside warm ones.", remedy="Give --cache both, or warm.")
    target, options = request.built_for(), request.options()
    chosen = Chosen.parse(wanted.backends, wanted.pythons or ())
    if TUNED not in chosen.names:
        request.given.refuse(["spec"], "is for the backend `tuned`", remedy="Add it to --backends.")
    model = _model(wanted, request)
    arm = given_arm(wanted.spec, workspace=request.workspace, trust=wanted.trust)
    terms = Terms(chosen, arm, wanted.blocks, wanted.csv, wanted.onnx)
    if model is not None:
        with watched(request) as watch:
            result = bench_model(model, terms, target, options=options, **watch)
    else:
        workload = _workload(wanted, request)
        selected = Selection(workload.allowing(request.allow_precision), sample=wanted.sample)
        with watched(request) as watch:
            result = bench(selected.on(target, seed=request.seed), terms, target, options=options, **watch)
    show(result, request)
    if result.failed and not result.problems:
        raise OutOfTimeError("the time was up before anything was timed.")
    if result.failed:
        raise DeviceError("no backend could be timed.", remedy="The table says why, row by row.")


def _model(wanted: BenchWords, request: BenchRequest) -> Model | None:
    """The model, where the file is one."""
    path = Path(wanted.workload or "")
    if path.suffix not in FORMATS:
        request.given.refuse(["onnx", "function", "inputs", "parameters", "tolerance", "expected"], "is for a model")
        return None
    request.given.refuse(["cache"], "is for single problems: a model is timed with the cache that it leaves itself")
    request.given.refuse(["sample", "shape"], "has no meaning with a model")
    return named_model(path, wanted, request)


def _workload(wanted: BenchWords, request: BenchRequest) -> Workload:
    problem = named_problem(wanted.words, request)
    if problem is not None and wanted.workload is not None:
        raise UsageError("--shape and NAME|FILE are two things to time.", remedy="Give one of them.")
    if problem is not None:
        request.given.refuse(["sample"], "is for a suite")
        return Workload(problem.name, "", "", (Entry(problem),))
    if wanted.workload is None:
        raise UsageError("bench needs a name, a file or a --shape.", remedy="Try: autotune bench --shape 512x512x512.")
    return load(wanted.workload, dtype=default_dtype(request.target))
