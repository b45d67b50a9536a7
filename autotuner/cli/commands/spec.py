"""`autotune spec`: the words and options of merge, check and show."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autotuner.cli import completion
from autotuner.cli import options as o
from autotuner.cli.examples import examples
from autotuner.cli.lazy import Lazy

if TYPE_CHECKING:
    from autotuner.cli import spec as actions
else:
    actions = Lazy("autotuner.cli.spec")

app = typer.Typer(name="spec", help="Merge, check and show spec files.", no_args_is_help=True, rich_markup_mode=None)
OutputArgument = Annotated[Path, typer.Option("-o", "--output", help="Where the merged spec goes, an .mlir file.")]


@app.command(epilog=examples("spec merge"))
def merge(
    specs: Annotated[list[Path], typer.Argument(metavar="SPEC", help="Tuning specs, ours or others'.")],
    output: OutputArgument,
    force: Annotated[
        bool, typer.Option("--force", help="Where no figures tell which entry is faster, the later file's wins.")
    ] = False,
    trust: o.TrustOption = False,
    iree_tools: o.IreeToolsOption = None,
    as_json: o.JsonOption = False,
    no_color: o.NoColorOption = False,
) -> None:
    """Put tuning specs into one. Of entries that match the same, the faster is kept."""
    actions.merge(
        specs, output=output, force=force, trust=trust, iree_tools=iree_tools, as_json=as_json, no_color=no_color
    )


@app.command(epilog=examples("spec check"))
def check(
    spec: Annotated[
        Path, typer.Argument(metavar="SPEC", help="A tuning spec, microkernel spec or configured executable.")
    ],
    model: Annotated[
        Path | None,
        typer.Argument(metavar="MODEL", help="A program (.mlir, .mlirbc): which entries apply to it, how often?"),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            "--target",
            help="Chip or product. [default: the flagfile's, or what the spec records]",
            autocompletion=completion.target,
        ),
    ] = None,
    flags: o.FlagOption = None,
    trust: o.TrustOption = False,
    iree_tools: o.IreeToolsOption = None,
    as_json: o.JsonOption = False,
    no_color: o.NoColorOption = False,
) -> None:
    """Verify a spec with its flagfile and objects. With MODEL, show which entries apply there."""
    actions.check(
        spec,
        model,
        target=target,
        flags=flags or (),
        trust=trust,
        iree_tools=iree_tools,
        as_json=as_json,
        no_color=no_color,
    )


@app.command(epilog=examples("spec show"))
def show(
    spec: Annotated[
        Path, typer.Argument(metavar="SPEC", help="A tuning spec, microkernel spec or configured executable.")
    ],
    as_json: o.JsonOption = False,
    no_color: o.NoColorOption = False,
) -> None:
    """List the entries of a spec. What each matches, what it was measured to gain, and where it comes from."""
    actions.show(spec, as_json=as_json, no_color=no_color)
