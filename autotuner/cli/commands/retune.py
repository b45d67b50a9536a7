"""`autotune retune`: its words, and what the options of a tuning command mean for specs that there are."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from autotuner.cli import completion
from autotuner.cli import options as o
from autotuner.cli.request import CLUSTER, Request


@dataclass(frozen=True)
class RetuneWords:
    """Prove and race a spec's entries again, after a new IREE. Each is kept, replaced or dropped."""

    path: Annotated[
        Path, typer.Argument(metavar="SPEC|WORKSPACE", help="A spec (.mlir), a flagfile (.flags), or all of a folder.")
    ]
    model: Annotated[
        Path | None,
        typer.Option("--model", help="The model that the spec is for. [default: as the spec's own command names it]"),
    ] = None
    function: o.FunctionOption = None
    inputs: o.InputOption = None
    parameters: o.ParametersOption = None
    tolerance: o.ToleranceOption = None
    expected: o.ExpectedOption = None
    in_place: Annotated[
        bool, typer.Option("--in-place", help="Write over the old files; copies go to candidates/<run>/old.")
    ] = False
    trust: o.TrustOption = False


@dataclass(frozen=True)
class RetuneRequest(Request):
    """The options of every tuning command, some of them in the words of a spec that there is."""

    unused = frozenset(CLUSTER)

    target: Annotated[
        str,
        typer.Option(
            "--target", help="Which target's specs. [default: as they record it]", autocompletion=completion.target
        ),
    ] = ""
    trials: Annotated[
        int | None, typer.Option("--trials", help="At most this many candidates where an entry is searched again.")
    ] = None
    budget: Annotated[
        str | None,
        typer.Option("--budget", help="At most this long for all of it. [default: a tenth of the first tuning]"),
    ] = None
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Where the new spec goes. [default: specs/retuned/<name>.mlir]"),
    ] = None
    resume: Annotated[
        bool, typer.Option("--resume/--fresh", help="Do not race again what this retuning has raced / start anew.")
    ] = False
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Print the entries, how long each may take and why some are left; no more."),
    ] = False
