"""What a Dask worker keeps of ours for as long as it runs."""

from __future__ import annotations

from distributed import Worker
from distributed.diagnostics.plugin import WorkerPlugin

from autotuner.cluster.tasks import PLUGIN
from autotuner.cluster.workplace import Workplace


class WorkplacePlugin(WorkerPlugin):  # type: ignore[misc]
    """Keeps the workplace."""

    name = PLUGIN

    def __init__(self, workplace: Workplace) -> None:
        self.workplace = workplace

    def teardown(self, worker: Worker) -> None:
        del worker
        self.workplace.close()
