"""`autotune ab`: is B really faster than A, alone or in a model, and does it compute the same?"""

from __future__ import annotations

import inspect
import json
from dataclasses import replace
from functools import partial

import typer
from rich.console import Console

from autotuner.carriers.flagfile import use_line
from autotuner.cli.commands import operations
from autotuner.cli.commands.ab import Wanted
from autotuner.cli.console import emit, make_console, make_reporter, microseconds
from autotuner.cli.microkernels import inspect_object, list_all, list_log, say_whose_code
from autotuner.cli.request import Request
from autotuner.cli.tuning import ctrl_c, print_result
from autotuner.errors import EXIT_INTERRUPTED, EXIT_NO_WINNER, UsageError
from autotuner.jobs.ab.arms import DEFAULT, Arm, parse_arm
from autotuner.jobs.ab.inputs import problem_inputs
from autotuner.jobs.ab.opening import Experiment
from autotuner.jobs.ab.rehearsal import rehearse_experiment
from autotuner.jobs.ab.result import AbResult
from autotuner.jobs.ab.run import run_experiment
from autotuner.jobs.ab.variants import experiment_options, refuse_broken, search_variants
from autotuner.jobs.model.context import Model
from autotuner.microkernels.library import find, own_folder, search_folders
from autotuner.microkernels.skeleton import create
from autotuner.microkernels.variants import Kernel
from autotuner.problems import Attention, Conv, Gemm, Problem
from autotuner.problems.accuracy import known_precision
from autotuner.system.progress import Stop
from autotuner.targets import Target
from autotuner.tuning.dry_run import rehearse
from autotuner.tuning.options import Options

_ATTENTION_SIZES = 5


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
        given.only("new", "workspace", where="--new")
        emit(str(create(wanted.new, own_folder(request.workspace))))
    else:
        _experiment(wanted, request)


def _experiment(wanted: Wanted, request: Request) -> None:
    if wanted.first is None or (wanted.shape is None and wanted.model is None):
        raise UsageError(
            "ab needs a microkernel and --shape (or another arm, or --model).",
            remedy="`autotune ab --list` names the microkernels there are.",
        )
    target = request.chip()
    options = request.options()
    if options.microkernels:
        raise UsageError("--microkernels is for a search.", remedy="Name the microkernel as an arm.")
    parse = partial(
        parse_arm, workspace=request.workspace, objects=wanted.objects, symbol=wanted.symbol, trust=wanted.trust
    )
    first = parse(wanted.first)
    second = parse(wanted.second) if wanted.second else None
    a, b = (first, second) if second else (Arm(DEFAULT, "default"), first)
    kernels = [arm.kernel for arm in (a, b) if arm.kernel is not None]
    if (wanted.objects or wanted.symbol) and len(kernels) != 1:
        raise UsageError("--object and --symbol belong to one microkernel.", remedy="Name it as one of the arms.")
    say_whose_code(kernels, request.workspace, no_color=request.no_color)
    problem = _problem(wanted, kernels[0].name if kernels else None, request)
    if problem is not None:
        problem = problem.allowing(request.allow_precision)
    if second is None and first.kernel is not None and wanted.model is None and problem is not None:
        _search(first.kernel, problem, target, options, wanted, request)
        return
    if wanted.model is not None and problem is not None and not kernels:
        raise UsageError("--shape beside --model says what a microkernel replaces.", remedy="Leave --shape out.")
    request.given.refuse(["trials"], "is for a search: two arms have nothing to search")
    request.refuse_untimed("output", "allow_precision", "tolerance", "parameters")
    if options.output is not None and b.kernel is None:
        raise UsageError(f"-o: {b.name} is no microkernel, nothing is written for it.", remedy="Leave -o out.")
    experiment = Experiment(a, b, problem, _model(wanted, request), wanted.inputs)
    if request.dry_run:
        rehearsal = rehearse_experiment(experiment, target, options=options)
        emit(json.dumps(rehearsal.to_json(), indent=2) if request.as_json else rehearsal.text())
        return
    stderr, stop = make_console(stderr=True, no_color=request.no_color), Stop()
    with make_reporter(stderr, quiet=request.quiet) as reporter, ctrl_c(stop, stderr):
        if options.resume:
            reporter.note("an experiment of two arms is short: it is done anew")
        result = run_experiment(experiment, target, options=options, reporter=reporter, stop=stop)
    if not request.as_json:
        print_experiment(result, make_console(no_color=request.no_color))
    _end(result, request)


def _search(
    kernel: Kernel, problem: Problem, target: Target, options: Options, wanted: Wanted, request: Request
) -> None:
    """A microkernel against the default: all its variants take part."""
    request.refuse_untimed("inputs", "allow_precision")
    arrays = problem_inputs(wanted.inputs, target.prepare(problem), seed=options.seed)
    if request.dry_run:
        rehearsal = rehearse(problem, target, options=experiment_options(options, kernel))
        emit(json.dumps(rehearsal.to_json(), indent=2) if request.as_json else rehearsal.text())
        return
    stderr, stop = make_console(stderr=True, no_color=request.no_color), Stop()
    with make_reporter(stderr, quiet=request.quiet) as reporter, ctrl_c(stop, stderr):
        result = search_variants(
            kernel, problem, target, options=replace(options, inputs=arrays), reporter=reporter, stop=stop
        )
    if not request.as_json:
        console = make_console(no_color=request.no_color)
        print_result(result, console)
        _print_arms(result, console)
    _end(result, request, kernel=kernel)


def _end(result: AbResult, request: Request, *, kernel: Kernel | None = None) -> None:
    if request.as_json:
        print(json.dumps(result.to_json(), indent=2))
    if result.interrupted:
        raise typer.Exit(EXIT_INTERRUPTED)
    if kernel is not None:
        refuse_broken(kernel, result)
    if request.fail_if_no_winner and result.verdict != "win":
        raise typer.Exit(EXIT_NO_WINNER)


def _model(wanted: Wanted, request: Request) -> Model | None:
    if wanted.model is None:
        for name in ("function", "parameters", "tolerance"):
            if getattr(wanted, name):
                raise UsageError(f"--{name} is for a model.", remedy="Give --model, or leave it out.")
        return None
    return Model(
        wanted.model,
        function=wanted.function,
        inputs=wanted.inputs,
        parameters=wanted.parameters,
        tolerance=wanted.tolerance,
        trust=wanted.trust,
        allow=known_precision(request.allow_precision),
    )


def _words(op: str) -> set[str]:
    """The options that say which problem of an operation is meant: those of its own command."""
    return set(inspect.signature(getattr(operations, op)).parameters)


def _all_words() -> set[str]:
    return _words("gemm") | _words("conv") | _words("attention")


def _problem(wanted: Wanted, kernel: str | None, request: Request) -> Problem | None:
    """The problem that the words give: of the microkernel's operation, else by their form; None without --shape."""
    shape, op, dtype = wanted.shape, "gemm", wanted.dtype
    if shape is None:
        request.given.refuse(sorted(_all_words()), "says more of a --shape", remedy="Give --shape too.")
        return None
    if kernel is not None:
        manifest = find(kernel, search_folders(request.workspace))
        op, dtype = manifest.operation, dtype or manifest.dtypes[0]
        if op == "conv" and wanted.filter is None:
            raise UsageError(f"{kernel} is a convolution.", remedy="Give --filter KHxKWxF too.")
    elif wanted.filter is not None:
        op = "conv"
    elif shape.count("x") + 1 == _ATTENTION_SIZES:
        op = "attention"
    request.given.refuse(sorted(_all_words() - _words(op)), f"is not for {op}")
    kind = dtype or "f16"
    if op == "attention":
        return Attention.parse(shape=shape, dtype=kind, causal=wanted.causal)
    if op == "conv":
        layout = wanted.layout or "nhwc-hwcf"
        return Conv.parse(
            shape=shape, filter=wanted.filter or "", **wanted.window, groups=wanted.groups, dtype=kind, layout=layout
        )
    return Gemm.parse(
        shape=shape, dtype=kind, batch=wanted.batch, acc=wanted.acc, layout=wanted.layout or "nn", out=wanted.out
    )


def print_experiment(result: AbResult, console: Console) -> None:
    """The verdict, both times, and how to see it oneself."""
    colour = {"win": "bold green", "no-winner": "bold yellow"}.get(result.verdict, "bold")
    line = partial(_line, console)
    line("verdict", f"{result.verdict}: {result.reason}", style=colour)
    line("model" if result.problem["op"] == "model" else "problem", _where(result))
    for letter, arm in zip("AB", result.arms, strict=True):
        line(letter, f"{microseconds(arm.us)}  {arm.name} ({arm.kind})")
        if arm.version:
            line("", arm.version)
        for kernel in arm.kernels:
            line("", f"{kernel['variant']} for {kernel['problem']}, called {kernel['calls']} times")
        if arm.share is not None:
            names = ", ".join(arm.dispatches[:3]) + (" …" if len(arm.dispatches) > 3 else "")
            line("", f"{arm.share:.1%} of its time in what the other arm does not have: {names or 'nothing'}")
    if (ratio := result.speedup) is not None and not result.same_code:
        line("speedup", f"{ratio.median:.3f}x, B over A, 95 % interval {ratio.low:.3f} to {ratio.high:.3f}")
    _print_arms(result, console)
    if result.spec is not None and result.flagfile is not None and result.arms[1].kind == "microkernel":
        line("spec", str(result.spec))
        line("flags", str(result.flagfile))
        line("use", use_line(result.flagfile))


def _print_arms(result: AbResult, console: Console) -> None:
    """How right both are, and the commands that repeat them."""
    line = partial(_line, console)
    if result.difference is not None:
        errors = [f"{x:.1e}" if (x := arm.error) is not None else "–" for arm in result.arms]
        against = "" if result.problem["op"] == "model" else f"; A {errors[0]}, B {errors[1]} from the reference"
        line("outputs", f"relative error {result.difference:.1e} between both{against}")
    for letter, arm in zip("AB", result.arms, strict=False):
        for number, command in enumerate(arm.commands):
            line("" if number else f"repeat {letter}", command)
        if arm.repeat > 1 and arm.benchmark:
            line("", arm.divisor)


def _where(result: AbResult) -> str:
    return f"{result.problem['name']} on {result.target} ({result.device})"


def _line(console: Console, name: str, text: str, *, style: str = "") -> None:
    console.print(f"{name:<11}{text}", style=style, highlight=False, markup=False, soft_wrap=True)
