"""The way into a cluster, from where nothing of Dask is needed until somebody asks for one."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

from autotuner.cluster.address import Scheduler
from autotuner.cluster.facts import Facts
from autotuner.devices.conditions import DeviceState
from autotuner.devices.device import Device
from autotuner.errors import EnvironmentFailure, UsageError
from autotuner.iree.tools import Tools
from autotuner.system.settings import usable_cores
from autotuner.targets import Target
from autotuner.targets.backends import BACKENDS, backend_on

if TYPE_CHECKING:
    from autotuner.cluster.coordinator import Cluster


def need_dask() -> None:
    """Says how it is installed where it is not."""
    if find_spec("distributed") is None:
        raise EnvironmentFailure(
            "a cluster needs the Python package distributed (Dask).",
            remedy="Install it with `pip install 'autotune-iree[distributed]'`.",
        )


@contextmanager
def open_cluster(
    scheduler: Scheduler, tools: Tools, target: Target, *, timed: bool, wanted: str, note: Callable[[str], None]
) -> Iterator[Cluster]:
    """Joined as its coordinator, with at least one worker that can be used."""
    need_dask()
    from autotuner.cluster.coordinator import Cluster

    own = Facts.of_this_machine(tools, builds=0)
    with Cluster.open(scheduler, own, target, timed=timed, wanted=wanted, note=note) as cluster:
        yield cluster


class Opening(TypedDict):
    """How devices are opened."""

    isolate: bool
    state: DeviceState


@contextmanager
def welcome(cluster: Cluster, join: Callable[[Device], None], **how: Unpack[Opening]) -> Iterator[None]:
    """Within it, devices of workers that join the cluster are handed over, open."""
    from autotuner.cluster.newcomers import welcoming

    with welcoming(cluster, join, **how):
        yield


def run_worker(
    scheduler: Scheduler,
    *,
    device: str | None,
    resource: str | None,
    jobs: int | None,
    name: str | None,
    iree_tools: Path | None,
    say: Callable[[str], None],
) -> None:
    """Works until it is asked to end."""
    need_dask()
    from autotuner.cluster.worker import WorkerPlan, serve

    if device and backend_on(device) is None:
        known = ", ".join(driver for backend in BACKENDS for driver in backend.drivers)
        raise UsageError(f"--device {device} is no device that is tuned for.", remedy=f"URIs begin with: {known}.")
    if resource and not device:
        raise UsageError("--resource names a device, and there is none.", remedy="Give --device too.")
    tools = Tools.find(iree_tools)
    facts = Facts.of_this_machine(tools, builds=jobs or usable_cores(), device=device or "", resource=resource or "")
    serve(WorkerPlan(scheduler, facts, tools, name or f"{platform.node()}-{os.getpid()}"), say=say)
