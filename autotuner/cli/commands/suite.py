"""`autotune suite`: its words, and what the options of a tuning command mean for many problems."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from autotuner.cli import completion
from autotuner.cli.request import Request
from autotuner.jobs.suite import THRESHOLD


@dataclass(frozen=True)
class SuiteWords:
    """Tune a workload: many problems, each weighed by its share. The winners come out as one spec."""

    workload: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME|FILE",
            help="A suite, or a file: .csv of shapes, .yaml/.yml/.log of hipBLASLt, .txt of MIOpen.",
            autocompletion=completion.workload,
        ),
    ] = None
    show: Annotated[bool, typer.Option("--list", help="List the suites, or the problems of NAME|FILE.")] = False
    sample: Annotated[int | None, typer.Option("--sample", help="Only so many problems, chosen by --seed.")] = None
    threshold: Annotated[
        float, typer.Option("--threshold", help="Leave out what contributes less than this per cent of the time.")
    ] = THRESHOLD


@dataclass(frozen=True)
class SuiteRequest(Request):
    """The options of every tuning command, some of them in the words of a suite."""

    trials: Annotated[int | None, typer.Option("--trials", help="At most this many candidates a problem.")] = None
    budget: Annotated[
        str | None,
        typer.Option("--budget", help="At most this long for all of it, divided by share. [default: effort's, each]"),
    ] = None
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Where the merged spec goes. [default: specs/<suite>-<target>.mlir]"),
    ] = None
    resume: Annotated[
        bool, typer.Option("--resume/--fresh", help="Do not run again what this suite has finished / start anew.")
    ] = False
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the problems, and a rehearsal of the largest; build nothing.")
    ] = False
