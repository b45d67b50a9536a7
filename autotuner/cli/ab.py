"""`autotune ab`: is B really faster than A, alone or in a model, and does it compute the same?"""

from __future__ import annotations

from functools import partial

from autotuner.cli.commands.ab import Wanted
from autotuner.cli.console import emit
from autotuner.cli.microkernels import inspect_object, list_all, list_log, say_whose_code
from autotuner.cli.problem import named_model, named_problem
from autotuner.cli.request import Request
from autotuner.cli.tuning import conclude, print_rehearsal, watched
from autotuner.errors import UsageError
from autotuner.jobs.ab.arms import parse_arm
from autotuner.jobs.ab.asked import Asked
from autotuner.jobs.model.context import Model
from autotuner.microkernels.library import own_folder
from autotuner.microkernels.skeleton import Language, create
from autotuner.tuning.options import Options


def run_ab(wanted: Wanted, request: Request) -> None:
    """Does what was asked and ends the process with the contract's exit code."""
    given = request.given
    if wanted.show_all:
        given.only("show_all", "workspace", "as_json", where="--list")
        list_all(request.workspace, as_json=request.as_json, no_color=request.no_color)
    elif wanted.inspect is not None:
        given.only("inspect", "as_json", where="--inspect")
        inspect_object(wanted.inspect, as_json=request.as_json, no_color=request.no_color)
    elif wanted.log is not None:
        given.only("log", "as_json", where="--log")
        list_log(wanted.log, as_json=request.as_json, no_color=request.no_color)
    elif wanted.new is not None:
        given.only("new", "in_c", "in_cuda", "workspace", where="--new")
        if wanted.in_c and wanted.in_cuda:
            raise UsageError("--c and --cuda are two languages.", remedy="Give one of them.")
        language: Language | None = "c" if wanted.in_c else "cuda" if wanted.in_cuda else None
        for file in create(wanted.new, own_folder(request.workspace), language=language):
            emit(str(file))
    else:
        given.refuse(["in_c", "in_cuda"], "says more of --new", remedy="Give --new NAME too.")
        _experiment(wanted, request)


def _experiment(wanted: Wanted, request: Request) -> None:
    if wanted.first is None or (wanted.shape is None and wanted.model is None):
        raise UsageError(
            "ab needs a microkernel and --shape (or another arm, or --model).",
            remedy="`autotune ab --list` names the microkernels there are.",
        )
    target = request.built_for()
    options = request.options()
    if options.microkernels:
        raise UsageError("--microkernels is for a search.", remedy="Name the microkernel as an arm.")
    parse = partial(
        parse_arm, workspace=request.workspace, objects=wanted.objects or (), symbol=wanted.symbol, trust=wanted.trust
    )
    arms = [parse(word) for word in (wanted.first, wanted.second) if word]
    kernels = [kernel for arm in arms for kernel in arm.kernels]
    if (wanted.objects or wanted.symbol) and len(kernels) != 1:
        raise UsageError("--object and --symbol belong to one microkernel.", remedy="Name it as one of the arms.")
    say_whose_code(kernels, request.workspace, no_color=request.no_color)
    problem = named_problem(wanted.words, request, kernel=kernels[0].name if kernels else None)
    if problem is not None:
        problem = problem.allowing(request.allow_precision)
    model, inputs = _model(wanted, request), tuple(wanted.inputs or ())
    asked = Asked(arms[0], arms[1] if arms[1:] else None, problem, model, inputs)
    _refuse_unused(asked, options, request)
    if request.dry_run:
        print_rehearsal(asked.rehearse(target, options=options), request)
        return
    with watched(request) as watch:
        result = asked.run(target, options=options, **watch)
    conclude(result, request, failure=asked.failure(result))


def _refuse_unused(asked: Asked, options: Options, request: Request) -> None:
    """What this experiment would not use."""
    if asked.searched is not None:
        request.refuse_untimed("inputs")
        return
    a, b = asked.arms
    if asked.model is not None and asked.problem is not None and not (a.kernels or b.kernels):
        raise UsageError("--shape beside --model says what a microkernel replaces.", remedy="Leave --shape out.")
    request.given.refuse(["trials"], "is for a search: two arms have nothing to search")
    if asked.model is not None:
        request.given.refuse(["cache"], "is for single problems: a model is timed with the cache that it leaves itself")
    request.refuse_untimed("output", "tolerance", "expected", "parameters")
    if options.output is not None and not b.kernels:
        raise UsageError(f"-o: {b.name} is no microkernel, nothing is written for it.", remedy="Leave -o out.")


def _model(wanted: Wanted, request: Request) -> Model | None:
    if wanted.model is None:
        for name in ("function", "parameters", "tolerance", "expected"):
            if getattr(wanted, name):
                raise UsageError(f"--{name} is for a model.", remedy="Give --model, or leave it out.")
        return None
    return named_model(wanted.model, wanted, request)
