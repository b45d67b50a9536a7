"""`autotune model`: make a whole model faster, and give the file."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autotuner.cli.options import option
from autotuner.cli.request import OF_A_CALL, ModelWords, Request, tuning_command
from autotuner.errors import UsageError

if TYPE_CHECKING:
    from autotuner.programs.model import Model


def model(
    path: Annotated[Path, typer.Argument(metavar="MODEL", help="An .mlir, .mlirbc or .onnx file.")],
    said: ModelWords,
    top: Annotated[int | None, option("--top", "Tune the first N of the ranking.")] = None,
    min_share: Annotated[float, option("--min-share", "Tune what takes at least this % of the time.")] = 1.0,
    routes: Annotated[
        list[str] | None,
        option("--route", "Only NAME (im2col+O3), or add 'NAME=--flag …'."),
    ] = None,
) -> "Model":
    """Tune a whole model: its flags, and a spec for its dispatches."""
    return said.model(path, routes=tuple(routes or ()), top=top, min_share=min_share)


def run_model(wanted: "Model", request: Request) -> None:
    """Tunes a model and ends the process with the contract's exit code."""
    from autotuner.cli.tuning import carry_out
    from autotuner.jobs.model.rehearse import rehearse_model
    from autotuner.jobs.model.tuner import tune_model
    from autotuner.problems.accuracy import known_precision
    from autotuner.programs.model import refuse_no_model

    refuse_no_model(wanted.path)  # before the device is waited for
    wanted = replace(wanted, allow=known_precision(request.allow_precision))
    target, options = request.built_for(), request.options()
    request.refuse_untimed(*OF_A_CALL)
    if not request.timed and len(wanted.routes) > 1:
        raise UsageError("without a device no route is faster than another.", remedy="Give --route once.")
    if "top" in request.given:
        request.given.refuse(["min_share"], "is for a model without --top", remedy="Give one of them.")
    carry_out(
        request,
        lambda watch: tune_model(wanted, target, options=options, **watch),
        rehearse=lambda: rehearse_model(wanted, target, options=options),
        kernels=options.microkernels,
    )


TUNING = tuning_command(model, run_model)
