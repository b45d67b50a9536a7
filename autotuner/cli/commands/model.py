"""`autotune model`: the words that say which model, and what of it to tune."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autotuner.cli import options as o
from autotuner.cli.lazy import Lazy

if TYPE_CHECKING:
    from autotuner.jobs.model import context
else:
    context = Lazy("autotuner.jobs.model.context")


def model(
    path: Annotated[Path, typer.Argument(metavar="MODEL", help="An .mlir, .mlirbc or .onnx file.")],
    function: o.FunctionOption = None,
    inputs: o.InputOption = None,
    parameters: o.ParametersOption = None,
    top: Annotated[int | None, typer.Option("--top", help="Tune the first N of the ranking.")] = None,
    min_share: Annotated[
        float, typer.Option("--min-share", help="Tune what takes at least so many per cent of the time.")
    ] = 1.0,
    routes: Annotated[
        list[str] | None,
        typer.Option(
            "--route",
            help="NAME (settings: im2col+O3) keeps to these routes, 'NAME=--flag …' adds one; repeatable.",
        ),
    ] = None,
    tolerance: o.ToleranceOption = None,
    expected: o.ExpectedOption = None,
    trust: o.TrustOption = False,
) -> "context.Model":
    """Tune a whole model: its flags, and a spec for its dispatches."""
    return context.Model(
        path,
        function=function,
        inputs=tuple(inputs or ()),
        parameters=tuple(parameters or ()),
        routes=tuple(routes or ()),
        top=top,
        min_share=min_share,
        tolerance=tolerance,
        expected=tuple(expected or ()),
        trust=trust,
    )
