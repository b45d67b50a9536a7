"""A worker process: joins a scheduler, says what it is, builds, and lends its device."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import dask
from distributed import Worker
from distributed.utils import get_ip

from autotuner.build.builder import Builder
from autotuner.cluster.address import Scheduler
from autotuner.cluster.facts import BUILD, FACTS, Facts
from autotuner.cluster.link import security_of, unreachable
from autotuner.cluster.plugin import WorkplacePlugin
from autotuner.cluster.scratch import scratch
from autotuner.cluster.workplace import Workplace
from autotuner.iree.tools import Tools
from autotuner.system.cache import Cache
from autotuner.system.settings import cache_dir

QUIET = {
    # Nothing but the scheduler's and the coordinators' connections is listened for, and nobody looks at profiles.
    "distributed.worker.http.routes": [],
    "distributed.worker.profile.enabled": False,
    # Dask looks fifty times a second whether it is late, and twice how much memory there is: a device is timed here.
    "distributed.admin.tick.interval": "500ms",
    "distributed.admin.system-monitor.interval": "5s",
}
"""Dask's settings for a worker."""
_JOIN_SECONDS = 60.0


@dataclass(frozen=True)
class WorkerPlan:
    """What a worker is started with."""

    scheduler: Scheduler
    facts: Facts
    tools: Tools
    name: str


def serve(plan: WorkerPlan, *, say: Callable[[str], None]) -> None:
    """Works until it is asked to end, by a signal or by the scheduler."""
    with scratch() as folder, dask.config.set(QUIET):
        asyncio.run(_serve(plan, folder, say))


async def _serve(plan: WorkerPlan, folder: Path, say: Callable[[str], None]) -> None:
    files = folder / "files"
    files.mkdir()
    facts, scheduler = plan.facts, plan.scheduler
    workplace = Workplace(Builder(plan.tools, Cache(cache_dir())), files, cache_dir(), facts.device)
    worker = Worker(
        scheduler.address,
        # One more than builds: a call of the device never waits for them.
        nthreads=facts.builds + 1,
        resources={BUILD: facts.builds, **({facts.resource: 1} if facts.device else {})},
        name=plan.name,
        host="127.0.0.1" if scheduler.on_loopback else get_ip(scheduler.host),
        dashboard_address="127.0.0.1:0",
        security=security_of(scheduler),
        startup_information={FACTS: lambda _: facts.to_json()},
        plugins=(WorkplacePlugin(workplace),),
        local_directory=str(folder),
        memory_limit=0,
        death_timeout=_JOIN_SECONDS,
    )
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, lambda: loop.create_task(worker.close(nanny=False)))
    try:
        await worker
    except (OSError, TimeoutError, ValueError) as error:
        raise unreachable(scheduler, error) from error
    device = f", {facts.device} ({facts.model}) as {facts.resource}=1" if facts.device else ", no device"
    say(f"worker {plan.name} of {scheduler.address}: {facts.builds} builds at once{device}")
    await worker.finished()
