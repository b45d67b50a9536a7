"""`autotune compare`: its words and options."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autotuner.cli import completion
from autotuner.cli import options as o
from autotuner.cli.lazy import Lazy

if TYPE_CHECKING:
    from autotuner.cli import compare as actions
else:
    actions = Lazy("autotuner.cli.compare")

_SET = "A run, a workspace, a database (FILE.db or URL) or an export (.json, .csv, .parquet)."


def compare(
    golden: Annotated[str, typer.Argument(metavar="GOLDEN", help=f"What was good. {_SET}")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="What is to be judged by it, in the same forms.")],
    rule: Annotated[
        str,
        typer.Option(
            "--rule",
            help="interval (both 95 % intervals apart), aiter or ratio (medians alone).",
            autocompletion=completion.one_of("interval", "aiter", "ratio"),
        ),
    ] = "interval",
    threshold: Annotated[
        float | None,
        typer.Option("--threshold", help="Per cent that count as a change. [default: interval 1, ratio 5]"),
    ] = None,
    kernels: Annotated[
        str,
        typer.Option(
            "--kernels",
            help="named (default, best, arms) or all (each route and configuration too).",
            autocompletion=completion.one_of("named", "all"),
        ),
    ] = "named",
    across: Annotated[
        str,
        typer.Option(
            "--across",
            help="Compare although these differ: state, cache, device; comma separated.",
            autocompletion=completion.some_of("state", "cache", "device"),
        ),
    ] = "",
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Also write a page: an .html file that stands alone.")
    ] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="As CSV.")] = False,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="As markdown, for a pull request.")] = False,
    as_json: o.JsonOption = False,
    fail_on_regression: Annotated[
        bool, typer.Option("--fail-on-regression", help="Exit 6 where something is slower, or fails now.")
    ] = False,
    workspace: o.WorkspaceOption = Path(),
    storage: o.StorageOption = None,
    no_color: o.NoColorOption = False,
) -> None:
    """Say which kernels of NEW are slower or faster than in GOLDEN. Each with where it was measured."""
    actions.run_compare(
        (golden, new),
        rule=rule,
        threshold=threshold,
        kernels=kernels,
        across=across,
        output=output,
        forms={"csv": as_csv, "markdown": as_markdown, "json": as_json},
        fail_on_regression=fail_on_regression,
        workspace=workspace,
        storage=storage,
        no_color=no_color,
    )
