"""`autotune worker`: a process that works for coordinators."""

from __future__ import annotations

from pathlib import Path

from autotuner.cli.console import emit
from autotuner.cluster.address import Scheduler
from autotuner.cluster.opening import run_worker
from autotuner.errors import UsageError
from autotuner.tuning.options import MOST_JOBS


def run(
    address: str,
    *,
    device: str | None,
    resource: str | None,
    jobs: int | None,
    name: str | None,
    iree_tools: Path | None,
    insecure: bool,
    ca_file: Path | None,
    cert: Path | None,
    key: Path | None,
) -> None:
    """Works until it is asked to end."""
    if jobs is not None and not 1 <= jobs <= MOST_JOBS:
        raise UsageError(f"--jobs {jobs} is not from 1 to {MOST_JOBS}.", remedy="Give a number of compiles at once.")
    scheduler = Scheduler(address, insecure=insecure, ca_file=ca_file, cert=cert, key=key)
    run_worker(scheduler, device=device, resource=resource, jobs=jobs, name=name, iree_tools=iree_tools, say=emit)
