"""`autotune report`: a page of runs, in a file or from a server on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from autotuner.cli.console import emit
from autotuner.report.report import report as make_page
from autotuner.report.serve import Server
from autotuner.store.store import Store
from autotuner.system.text import count
from autotuner.system.workspace import write_whole


def report(runs: Sequence[str], *, output: Path, workspace: Path, storage: str | None) -> None:
    """Write one page that opens by itself."""
    with Store.open(storage, workspace=workspace, create=False) as store, store.intact():
        page = make_page(store, runs, workspace=workspace)
    write_whole(output, page)
    what = count(len(set(runs)), "run") if runs else "all runs"
    emit(f"{output}: {what}, {len(page.encode()) / 1e6:.1f} MB")


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
