"""`autotune bench`: its words and options."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from autotuner.cli import completion
from autotuner.cli import options as o
from autotuner.cli.request import CLUSTER, Request


@dataclass(frozen=True)
class BenchWords:
    """Time problems on IREE and other libraries, side by side. They take turns on the same inputs."""

    workload: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME|FILE",
            help="A suite, a file of problems as `autotune suite` takes them, or a model: .mlir, .mlirbc or .onnx.",
            autocompletion=completion.workload_or_model,
        ),
    ] = None
    backends: Annotated[
        str | None,
        typer.Option(
            "--backends",
            help="Which, comma separated: iree, tuned, numpy, torch, triton, onnxruntime, hipblaslt. "
            "[default: those that are installed]",
            autocompletion=completion.some_of("iree", "tuned", "numpy", "torch", "triton", "onnxruntime", "hipblaslt"),
        ),
    ] = None
    pythons: Annotated[
        list[str] | None,
        typer.Option("--python", help="LIBRARY=PYTHON: the interpreter that has this library; repeatable."),
    ] = None
    spec: Annotated[
        Path | None,
        typer.Option(
            "--spec",
            help="The spec or flagfile of `tuned`, or a folder with a spec of each problem's name. "
            "[default: the last that won in the workspace]",
        ),
    ] = None
    blocks: Annotated[int, typer.Option("--blocks", help="Blocks of timings of each backend, in turns.")] = 6
    sample: Annotated[int | None, typer.Option("--sample", help="Only so many problems, chosen by --seed.")] = None
    csv: Annotated[Path | None, typer.Option("--csv", help="Write the table to this file too.")] = None
    onnx: Annotated[
        Path | None,
        typer.Option("--onnx", help="The same model for the libraries, which take ONNX, where IREE is given MLIR."),
    ] = None
    function: o.FunctionOption = None
    inputs: o.InputOption = None
    parameters: o.ParametersOption = None
    tolerance: o.ToleranceOption = None
    expected: o.ExpectedOption = None
    trust: o.TrustOption = False
    words: Mapping[str, Any] = field(default_factory=dict)
    """What was said of a problem, as gemm, conv or attention take it."""


@dataclass(frozen=True)
class BenchRequest(Request):
    """The options of every tuning command but those of a search; nothing is searched here."""

    unused = frozenset(
        {
            *("effort", "trials", "isolate", "output", "keep", "microkernels", "dry_run", "chip"),
            *("fail_if_no_winner", *CLUSTER),
        }
    )

    resume: Annotated[
        bool, typer.Option("--resume/--fresh", help="Do not time again what this comparison has timed / start anew.")
    ] = False
    cache: Annotated[
        str,
        typer.Option(
            "--cache",
            help="warm: the last level cache as calls leave it; both: cold times too.",
            autocompletion=completion.one_of("warm", "both"),
        ),
    ] = "both"
