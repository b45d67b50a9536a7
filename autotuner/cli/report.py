"""`autotune report`: a page of runs."""

from pathlib import Path
from typing import Annotated

import typer

from autotuner.cli import options as o
from autotuner.cli.options import option
from autotuner.errors import UsageError
from autotuner.system.text import count


def report(
    runs: Annotated[
        list[str] | None, typer.Argument(metavar="RUN", help="Runs, as `history` names them. [default: all]")
    ] = None,
    output: Annotated[Path, option("-o --output", "The file of the page.")] = Path("report.html"),
    force: o.Force = False,
    workspace: o.Workspace = Path(),
    storage: o.Storage = None,
    no_color: o.NoColor = False,
) -> None:
    """Make one page of runs that opens from a file. It has verdicts, charts, proofs, failures, all candidates."""
    from autotuner.cli.console import emit
    from autotuner.report.page import OUR_PAGE
    from autotuner.report.report import report as make_page
    from autotuner.store.store import Store
    from autotuner.system.files import claim, write_whole

    del no_color  # what is said here has none
    if output.suffix not in (".html", ".htm"):
        raise UsageError(f"-o {output} is not an .html file.", remedy="Name a page, such as -o report.html.")
    claim(output, OUR_PAGE, force=force)
    with Store.open(storage, workspace=workspace, create=False) as store, store.intact():
        page = make_page(store, runs or (), workspace=workspace)
    write_whole(output, page, OUR_PAGE, force=force)
    what = count(len(set(runs)), "run") if runs else "all runs"
    emit(f"{output}: {what}, {len(page.encode()) / 1e6:.1f} MB")
