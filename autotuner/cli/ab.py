"""`autotune ab`: is B really faster than A, alone or in a model, and does it compute the same? And which microkernels
there are, and what an object or a log holds."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autotuner.cli.operations import any_problem, named_problem
from autotuner.cli.options import option
from autotuner.cli.request import OF_A_CALL, OF_A_MODEL, ModelWords, Request, tuning_command
from autotuner.errors import UsageError

if TYPE_CHECKING:
    from autotuner.jobs.ab.opening import Experiment
    from autotuner.programs.model import Model
    from autotuner.tuning.options import Options


@dataclass(frozen=True)
class Wanted:
    """Race two ways to compile the same program. Both get the same inputs, and both results are checked."""

    first: Annotated[
        str | None,
        typer.Argument(
            metavar="MICROKERNEL|A",
            help="A microkernel (--list), a spec (.mlir), a flagfile or `default`. Alone it races IREE's default.",
        ),
    ] = None
    second: Annotated[str | None, typer.Argument(metavar="B", help="Another of these: then A is the baseline.")] = None
    model: Annotated[Path | None, option("--model", "Do it inside this .mlir, .mlirbc or .onnx.")] = None
    said: ModelWords = field(default_factory=ModelWords)
    objects: Annotated[
        list[Path] | None, option("--object", "Your own object (hsaco, PTX, cubin, .o) for the microkernel.")
    ] = None
    symbol: Annotated[str | None, option("--symbol", "The kernel's name in that object.")] = None
    show_all: Annotated[bool, option("--list", "List the microkernels there are.")] = False
    inspect: Annotated[Path | None, option("--inspect", "Print the kernels of an hsaco, PTX, cubin or .o.")] = None
    new: Annotated[str | None, option("--new", "Write the manifest of a new microkernel.")] = None
    in_c: Annotated[bool, option("--c", "With --new: a kernel in C that works.")] = False
    in_cuda: Annotated[bool, option("--cuda", "With --new: a kernel in CUDA C++ that works.")] = False
    words: Mapping[str, Any] = field(default_factory=dict)
    """The problem's options, as gemm, conv or attention take them."""

    @property
    def shape(self) -> str | None:
        return self.words.get("shape")


def run_ab(wanted: Wanted, request: Request) -> None:
    """Lists, inspects, creates or races, and ends the process with the contract's exit code."""
    given = request.given
    if wanted.show_all:
        given.only("show_all", "workspace", "as_json", where="--list")
        _list_all(request)
    elif wanted.inspect is not None:
        given.only("inspect", "as_json", where="--inspect")
        _inspect(wanted.inspect, request)
    elif wanted.new is not None:
        given.only("new", "in_c", "in_cuda", "workspace", where="--new")
        _begin(wanted.new, wanted, request)
    else:
        given.refuse(["in_c", "in_cuda"], "says more of --new", remedy="Give --new NAME too.")
        _experiment(wanted, request)


TUNING = tuning_command(Wanted, run_ab, words=any_problem(), without=["microkernels"])


# --- an experiment ---------------------------------------------------------------------------------------------------


def _experiment(wanted: Wanted, request: Request) -> None:
    from autotuner.cli.tuning import carry_out
    from autotuner.jobs.ab.arms import parse_arm
    from autotuner.jobs.ab.opening import Experiment
    from autotuner.jobs.ab.variants import failure, rehearse_ab, run_ab

    if wanted.first is None or (wanted.shape is None and wanted.model is None):
        raise UsageError(
            "ab needs a microkernel and --shape (or another arm, or --model).",
            remedy="`autotune ab --list` names the microkernels there are.",
        )
    target, options = request.built_for(), request.options()
    own = partial(parse_arm, objects=wanted.objects or (), symbol=wanted.symbol)
    parse = partial(own, workspace=request.workspace, trust=wanted.said.trust)
    arms = [parse(word) for word in (wanted.first, wanted.second) if word]
    kernels = [kernel for arm in arms for kernel in arm.kernels]
    if (wanted.objects or wanted.symbol) and len(kernels) != 1:
        raise UsageError("--object and --symbol belong to one microkernel.", remedy="Name it as one of the arms.")
    problem = named_problem(wanted.words, request, kernel=kernels[0].name if kernels else None)
    if problem is not None:
        problem = problem.allowing(request.allow_precision)
    asked = Experiment.of(arms[0], arms[1] if arms[1:] else None, problem, _model(wanted, request))
    _refuse_unused(asked, options, request)
    carry_out(
        request,
        lambda watch: run_ab(asked, target, options=options, **watch),
        rehearse=lambda: rehearse_ab(asked, target, options=options),
        kernels=kernels,
        failure=lambda result: failure(asked, result),
    )


def _refuse_unused(asked: "Experiment", options: "Options", request: Request) -> None:
    """Refuses options that this experiment would not use."""
    if asked.searched is not None:
        return
    a, b = asked.a, asked.b
    if asked.model is not None and asked.problem is not None and not (a.kernels or b.kernels):
        raise UsageError("--shape beside --model says what a microkernel replaces.", remedy="Leave --shape out.")
    request.given.refuse(["trials"], "is for a search: two arms have nothing to search")
    if asked.model is not None:
        request.given.refuse(["cache"], "is for single problems: a model is timed with the cache that it leaves itself")
    request.refuse_untimed("output", *OF_A_CALL)
    if options.output is not None and not b.kernels:
        raise UsageError(f"-o: {b.name} is no microkernel, nothing is written for it.", remedy="Leave -o out.")


def _model(wanted: Wanted, request: Request) -> "Model | None":
    if wanted.model is not None:
        return wanted.said.there(wanted.model, request)
    request.given.refuse(OF_A_MODEL, "is for a model", remedy="Give --model, or leave it out.")
    return None


# --- microkernels without an experiment ------------------------------------------------------------------------------


def _begin(name: str, wanted: Wanted, request: Request) -> None:
    from autotuner.cli.console import emit
    from autotuner.microkernels.instance import own_folder
    from autotuner.microkernels.own import create

    if wanted.in_c and wanted.in_cuda:
        raise UsageError("--c and --cuda are two languages.", remedy="Give one of them.")
    for file in create(
        name, own_folder(request.workspace), language="c" if wanted.in_c else "cuda" if wanted.in_cuda else None
    ):
        emit(str(file))


def _list_all(request: Request) -> None:
    from rich.text import Text

    from autotuner.cli.console import emit_json, show
    from autotuner.microkernels.instance import search_folders
    from autotuner.microkernels.library import all_manifests
    from autotuner.problems.operations import OPERATIONS
    from autotuner.system.listing import Listing

    listing = all_manifests(search_folders(request.workspace), OPERATIONS)
    if request.as_json:
        broken = [{"name": b.name, "file": str(b.file), "error": b.why} for b in listing.broken]
        emit_json([*(m.describe() for m in listing.manifests), *broken])
        return
    rows: list[tuple[str | Text, ...]] = []
    for manifest in listing.manifests:
        chips = ", ".join(manifest.chips)
        words = (manifest.name, manifest.operation, ", ".join(manifest.dtypes), chips, manifest.provider.kind)
        rows.append((*words, manifest.summary))
    rows += [(wrong.name, Text("broken", style="red"), "", "", "", wrong.why) for wrong in listing.broken]
    titles = ("name", "op", "dtypes", "targets", "provider", "what")
    show(Listing.of(titles, rows))


def _inspect(path: Path, request: Request) -> None:
    from autotuner.cli.console import emit_json, show
    from autotuner.microkernels.kernel_table import kernels_json, kernels_table
    from autotuner.system.listing import Listing

    if request.as_json:
        emit_json(kernels_json(path))
        return
    rows = kernels_table(path)
    show(Listing.of(tuple(rows[0]), [tuple(row.values()) for row in rows]))
