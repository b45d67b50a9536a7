"""`autotune report`: a page of runs."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autotuner.cli import options as o
from autotuner.cli.options import option
from autotuner.errors import UsageError
from autotuner.system.text import count

if TYPE_CHECKING:
    from autotuner.store.store import Store


def report(
    runs: Annotated[
        list[str] | None, typer.Argument(metavar="RUN", help="Runs, as `history` names them. [default: all]")
    ] = None,
    output: Annotated[Path, option("-o --output", "The file of the page.")] = Path("report.html"),
    force: o.Force = False,
    bandwidth: Annotated[
        bool, option("--bandwidth", "Measure the device's memory bandwidth now, for the roofline.")
    ] = False,
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

    if output.suffix not in (".html", ".htm"):
        raise UsageError(f"-o {output} is not an .html file.", remedy="Name a page, such as -o report.html.")
    claim(output, OUR_PAGE, force=force)
    with Store.open(storage, workspace=workspace, create=False) as store, store.intact():
        measured = _measured(store, runs or (), no_color=no_color) if bandwidth else {}
        page = make_page(store, runs or (), workspace=workspace, bandwidth=measured)
    write_whole(output, page, OUR_PAGE, force=force)
    what = count(len(set(runs)), "run") if runs else "all runs"
    emit(f"{output}: {what}, {len(page.encode()) / 1e6:.1f} MB")


def _measured(store: "Store", runs: Sequence[str], *, no_color: bool) -> dict[str, float]:
    """GB/s of the devices of these runs, so far as they are this machine's and answer."""
    from autotuner.cli.console import note
    from autotuner.devices.environment import capture
    from autotuner.iree.tools import Tools
    from autotuner.jobs.bandwidth import measure_bandwidth
    from autotuner.report.report import OVERVIEW
    from autotuner.targets import NO_DEVICE, Target

    rows = [store.run(run) for run in runs] if runs else store.runs(OVERVIEW, top=True)
    tools, found = Tools.find(), {}
    for target, device in dict.fromkeys((row.target, row.device) for row in rows if row.device != NO_DEVICE):
        first = device.partition(",")[0]
        name = capture(first, tools)["device_name"]
        if any(store.environment(row.id).get("device_name") == name for row in rows if row.device == device):
            found[name] = measure_bandwidth(first, Target.parse(target))
        else:
            note(f"no run was on this machine's {device}: its bandwidth is not measured", no_color=no_color)
    return found
