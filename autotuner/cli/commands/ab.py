"""`autotune ab`: its words and options."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from autotuner.cli import completion
from autotuner.cli import options as o


@dataclass(frozen=True)
class Wanted:
    """Race two ways to compile the same program. Both get the same inputs, and both results are checked."""

    first: Annotated[
        str | None,
        typer.Argument(
            metavar="MICROKERNEL|A",
            help="A microkernel, as --list names it; a spec (.mlir); a flagfile (@FILE or .flags); the path of an "
            "iree-compile; or `default`. Alone it races IREE's default.",
            autocompletion=completion.arm,
        ),
    ] = None
    second: Annotated[
        str | None,
        typer.Argument(metavar="B", help="Another of these: then A is the baseline.", autocompletion=completion.arm),
    ] = None
    model: Annotated[
        Path | None, typer.Option("--model", help="Do it inside this .mlir, .mlirbc or .onnx; --shape narrows it.")
    ] = None
    function: o.FunctionOption = None
    inputs: o.InputOption = None
    parameters: o.ParametersOption = None
    tolerance: o.ToleranceOption = None
    expected: o.ExpectedOption = None
    objects: Annotated[
        list[Path] | None, typer.Option("--object", help="Your own object (hsaco, PTX, cubin, .o) for the microkernel.")
    ] = None
    symbol: Annotated[str | None, typer.Option("--symbol", help="The kernel's name in that object.")] = None
    show_all: Annotated[bool, typer.Option("--list", help="List the microkernels there are.")] = False
    inspect: Annotated[
        Path | None, typer.Option("--inspect", help="Print the kernels of an object: hsaco, PTX, cubin or .o.")
    ] = None
    log: Annotated[Path | None, typer.Option("--log", help="List the kernels and figures of MISA's driver output.")] = (
        None
    )
    new: Annotated[
        str | None, typer.Option("--new", help="Begin a microkernel of this name: writes a commented manifest.")
    ] = None
    in_c: Annotated[bool, typer.Option("--c", help="With --new: a kernel in C, which works as it is.")] = False
    in_cuda: Annotated[bool, typer.Option("--cuda", help="With --new: a kernel in CUDA C++, which works as it is.")] = (
        False
    )
    trust: o.TrustOption = False
    words: Mapping[str, Any] = field(default_factory=dict)
    """What was said of a problem, as gemm, conv or attention take it."""

    @property
    def shape(self) -> str | None:
        return self.words.get("shape")
