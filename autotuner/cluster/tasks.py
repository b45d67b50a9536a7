"""What Dask calls on a worker: functions of a module, on plain data. Their state is the worker's plugin."""

from __future__ import annotations

import json
from typing import cast

from distributed import Worker, get_worker
from distributed.diagnostics.plugin import WorkerPlugin

from autotuner.cluster.wire import Message
from autotuner.cluster.workplace import MissingFile, Workplace

PLUGIN = "autotune"


class WorkplacePlugin(WorkerPlugin):  # type: ignore[misc]
    """Keeps the workplace as long as the worker runs."""

    name = PLUGIN

    def __init__(self, workplace: Workplace) -> None:
        self.workplace = workplace

    def teardown(self, worker: Worker) -> None:
        del worker
        self.workplace.close()


def build_here(job: bytes, left: float | None) -> Message:
    """A job as JSON: of one text Dask makes less ado than of the lists and tables in it."""
    return _workplace().build(json.loads(job), left=left)


def ask_device(request: bytes, files: list[tuple[str, bytes]]) -> Message:
    """A request as JSON, with the files that it needs and that are not here yet."""
    workplace = _workplace()
    for name, data in files:
        workplace.put(name, 0, data, last=True)
    return workplace.ask(json.loads(request))


def put_file(name: str, offset: int, data: bytes, last: bool) -> None:
    _workplace().put(name, offset, data, last=last)


def read_result(digest: str, offset: int) -> bytes | None:
    """None where it is not kept any more."""
    try:
        return _workplace().result(digest, offset)
    except MissingFile:
        return None


def _workplace() -> Workplace:
    return cast(WorkplacePlugin, get_worker().plugins[PLUGIN]).workplace
