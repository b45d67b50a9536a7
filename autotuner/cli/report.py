"""`autotune report`: a page of runs, in a file or from a server on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from autotuner.cli.console import emit, make_console
from autotuner.devices.environment import capture
from autotuner.errors import UsageError
from autotuner.iree.tools import Tools
from autotuner.jobs.bandwidth import measure_bandwidth
from autotuner.report.report import OVERVIEW
from autotuner.report.report import report as make_page
from autotuner.report.serve import Server
from autotuner.store.store import Store
from autotuner.system.text import count
from autotuner.system.workspace import write_whole
from autotuner.targets import NO_DEVICE, Target


def report(
    runs: Sequence[str], *, output: Path, bandwidth: bool, workspace: Path, storage: str | None, no_color: bool
) -> None:
    """Write one page that opens by itself."""
    if output.suffix not in (".html", ".htm"):
        raise UsageError(f"-o {output} is not an .html file.", remedy="Name a page, such as -o report.html.")
    with Store.open(storage, workspace=workspace, create=False) as store, store.intact():
        measured = _measured(store, runs, no_color=no_color) if bandwidth else {}
        page = make_page(store, runs, workspace=workspace, bandwidth=measured)
    write_whole(output, page)
    what = count(len(set(runs)), "run") if runs else "all runs"
    emit(f"{output}: {what}, {len(page.encode()) / 1e6:.1f} MB")


def _measured(store: Store, runs: Sequence[str], *, no_color: bool) -> dict[str, float]:
    """GB/s of the devices of these runs, so far as they are this machine's and answer."""
    rows = [store.run(run) for run in runs] if runs else store.runs(OVERVIEW, top=True)
    console = make_console(stderr=True, no_color=no_color)
    tools, found = Tools.find(), {}
    for target, device in dict.fromkeys((row.target, row.device) for row in rows if row.device != NO_DEVICE):
        first = device.partition(",")[0]
        name = capture(first, tools).device_name
        if not any(store.environment(row.id).get("device_name") == name for row in rows if row.device == device):
            console.print(
                f"note: no run was on this machine's {device}: its bandwidth is not measured",
                markup=False,
                soft_wrap=True,
            )
            continue
        found[name] = measure_bandwidth(first, Target.parse(target))
    return found


def serve(runs: Sequence[str], *, port: int, workspace: Path, storage: str | None) -> None:
    """Serve the page on this machine until Ctrl-C; it follows a run that goes on."""

    def state() -> str:
        with Store.open(storage, workspace=workspace, create=False) as store:
            return store.pulse()

    def page(now: str) -> str:
        with Store.open(storage, workspace=workspace, create=False) as store, store.intact():
            return make_page(store, runs, workspace=workspace, live=now)

    page(state())  # what cannot be shown is said at once
    with Server(port=port, state=state, page=page) as server:
        emit(f"{server.address} (Ctrl-C ends it)")
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            return
