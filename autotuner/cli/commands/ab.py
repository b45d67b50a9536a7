"""`autotune ab`: its words and options."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from autotuner.cli import options as o


@dataclass(frozen=True)
class Wanted:
    """The command's own words."""

    first: str | None
    second: str | None
    shape: str | None
    filter: str | None
    window: dict[str, str]
    groups: int
    batch: int
    causal: bool
    dtype: str | None
    acc: str | None
    out: str | None
    layout: str | None
    model: Path | None
    function: str | None
    inputs: tuple[str, ...]
    parameters: tuple[str, ...]
    tolerance: float | None
    objects: tuple[Path, ...]
    symbol: str | None
    show_all: bool
    inspect: Path | None
    log: Path | None
    new: str | None
    trust: bool


def ab(
    first: Annotated[
        str | None,
        typer.Argument(
            metavar="MICROKERNEL|A",
            help="A microkernel, as --list names it; a spec (.mlir); a flagfile (@FILE or .flags); the path of an "
            "iree-compile; or `default`. Alone it races IREE's default.",
        ),
    ] = None,
    second: Annotated[str | None, typer.Argument(metavar="B", help="Another of these: then A is the baseline.")] = None,
    shape: Annotated[str | None, typer.Option("--shape", help="As for gemm, conv or attention.")] = None,
    filter: Annotated[str | None, typer.Option("--filter", help="KHxKWxF of a convolution.")] = None,
    stride: Annotated[str, typer.Option("--stride", help="SHxSW of a convolution.")] = "1x1",
    dilation: Annotated[str, typer.Option("--dilation", help="DHxDW of a convolution.")] = "1x1",
    pad: Annotated[str, typer.Option("--pad", help="PHxPW of a convolution.")] = "0x0",
    groups: Annotated[int, typer.Option("--groups", help="Groups of a convolution.")] = 1,
    batch: Annotated[int, typer.Option("--batch", help="Batch of a gemm.")] = 1,
    causal: Annotated[bool, typer.Option("--causal", help="Of an attention.")] = False,
    dtype: Annotated[str | None, typer.Option("--dtype", help="[default: the microkernel's first, or f16]")] = None,
    acc: Annotated[str | None, typer.Option("--acc", help="Accumulator of a gemm. [default: by dtype]")] = None,
    out: Annotated[str | None, typer.Option("--out", help="What a gemm's result is rounded to. [default: not]")] = None,
    layout: Annotated[str | None, typer.Option("--layout", help="[default: the operation's first]")] = None,
    model: Annotated[
        Path | None, typer.Option("--model", help="Do it inside this .mlir, .mlirbc or .onnx; --shape narrows it.")
    ] = None,
    function: Annotated[str | None, typer.Option("--function", help="Of the model. [default: the only one]")] = None,
    inputs: Annotated[
        list[str] | None,
        typer.Option("--input", help="@FILE.npy, SHAPExTYPE=VALUES or SHAPExTYPE, once for each input, in order."),
    ] = None,
    parameters: Annotated[
        list[str] | None, typer.Option("--parameters", help="SCOPE=FILE of a model's weights, as IREE's tools take it.")
    ] = None,
    tolerance: Annotated[
        float | None, typer.Option("--tolerance", help="Relative error of a model's outputs that is allowed. [by type]")
    ] = None,
    objects: Annotated[
        list[Path] | None, typer.Option("--object", help="Your own object (hsaco, PTX, .o) for the microkernel.")
    ] = None,
    symbol: Annotated[str | None, typer.Option("--symbol", help="The kernel's name in that object.")] = None,
    show_all: Annotated[bool, typer.Option("--list", help="List the microkernels there are.")] = False,
    inspect: Annotated[
        Path | None, typer.Option("--inspect", help="Print the kernels of an object: hsaco, PTX or .o.")
    ] = None,
    log: Annotated[
        Path | None, typer.Option("--log", help="List the kernels and figures of MISA's driver output.")
    ] = None,
    new: Annotated[
        str | None, typer.Option("--new", help="Begin a microkernel of this name: writes a commented manifest.")
    ] = None,
    trust: o.TrustOption = False,
) -> Wanted:
    """Race two ways to compile the same program: same inputs, both results checked, one verdict, both commands."""
    return Wanted(
        first=first,
        second=second,
        shape=shape,
        filter=filter,
        window={"stride": stride, "dilation": dilation, "pad": pad},
        groups=groups,
        batch=batch,
        causal=causal,
        dtype=dtype,
        acc=acc,
        out=out,
        layout=layout,
        model=model,
        function=function,
        inputs=tuple(inputs or ()),
        parameters=tuple(parameters or ()),
        tolerance=tolerance,
        objects=tuple(objects or ()),
        symbol=symbol,
        show_all=show_all,
        inspect=inspect,
        log=log,
        new=new,
        trust=trust,
    )
