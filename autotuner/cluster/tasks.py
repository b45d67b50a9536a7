"""What Dask calls on a worker: functions of a module, on plain data. Their state is the worker's plugin.

The scheduler imports this module as well, to pass the functions on: it must need next to nothing.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, cast

from distributed import get_worker

if TYPE_CHECKING:
    from autotuner.cluster.plugin import WorkplacePlugin
    from autotuner.cluster.wire import Message
    from autotuner.cluster.workplace import Workplace

PLUGIN = "autotune"


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
    from autotuner.cluster.workplace import MissingFile

    try:
        return _workplace().result(digest, offset)
    except MissingFile:
        return None


def _workplace() -> Workplace:
    return cast("WorkplacePlugin", get_worker().plugins[PLUGIN]).workplace
