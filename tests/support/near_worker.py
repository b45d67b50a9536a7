"""A cluster's worker without a cluster: in this process, and all that goes to and fro is pickled."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from autotuner.build.builder import Builder
from autotuner.cluster.remote import RemoteDevice
from autotuner.cluster.worker import WorkerState
from autotuner.iree.tools import Tools
from autotuner.system.cache import Cache


def near(state: WorkerState) -> Callable[..., Any]:
    """Calls a worker of this process."""

    def call(method: str, *words: Any) -> Any:
        return _sent(getattr(state, method)(*_sent(words)))

    return call


def _sent(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))  # noqa: S301 - its own


@contextmanager
def near_device(tools: Tools, folder: Path, uri: str) -> Iterator[RemoteDevice]:
    """Of a worker with this device; its files are in the folder."""
    files = folder / "files"
    files.mkdir(parents=True)
    state = WorkerState(Builder(tools, Cache(folder / "cache")), uri, files)
    device = RemoteDevice.opened("near", near(state), isolate=False)
    try:
        yield device
    finally:
        device.close()
