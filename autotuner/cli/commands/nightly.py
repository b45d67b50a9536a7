"""`autotune nightly`: its words and options."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autotuner.cli import options as o
from autotuner.cli.lazy import Lazy

if TYPE_CHECKING:
    from autotuner.cli import nightly as actions
else:
    actions = Lazy("autotuner.cli.nightly")


def nightly(
    file: Annotated[Path, typer.Argument(metavar="FILE.toml", help="Which suites and models, how long, how judged.")],
    everything: Annotated[bool, typer.Option("--all", help="Run every part, whether it is due or not.")] = False,
    only_page: Annotated[bool, typer.Option("--page", help="Run nothing; write the page from the history.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what is due, with its command; run nothing.")] = False,
    as_json: o.JsonOption = False,
    quiet: o.QuietOption = False,
    no_color: o.NoColorOption = False,
) -> None:
    """Run the suites that are due, compare, and write a page. It compares with the golden set and earlier nights."""
    actions.run_nightly(
        file,
        everything=everything,
        only_page=only_page,
        dry_run=dry_run,
        as_json=as_json,
        quiet=quiet,
        no_color=no_color,
    )
