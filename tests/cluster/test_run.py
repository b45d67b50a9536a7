"""A whole run on a cluster of real processes, two of which are lost in the middle of it."""

from __future__ import annotations

import signal
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from autotuner.cluster import roster
from autotuner.cluster.address import Scheduler
from autotuner.problems import Gemm
from autotuner.store.store import Store
from autotuner.system.progress import Progress
from autotuner.targets import Target
from autotuner.tuning.effort import parse_effort
from autotuner.tuning.options import Options
from autotuner.tuning.tune import tune
from tests.support.clusters import LocalCluster


@dataclass
class Disaster:
    """Ends one worker and stops another when the search begins."""

    cluster: LocalCluster
    notes: list[str] = field(default_factory=list)
    happened: bool = False

    def stage(self, text: str) -> None:
        if text.startswith("searching") and not self.happened:
            self.happened = True
            self.cluster.workers["cpu-killed"].send(signal.SIGKILL)
            self.cluster.workers["cpu-stopped"].send(signal.SIGSTOP)

    def note(self, text: str) -> None:
        self.notes.append(text)

    def progress(self, now: Progress) -> None:
        del now


def test_a_product_is_tuned_to_a_verdict_though_a_worker_dies_and_one_hangs(
    cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(roster, "SILENT_SECONDS", 4.0)
    lost = ("cpu-killed", "cpu-stopped")
    for name in lost:
        cluster.start(name, "--jobs", "1", "--device", "local-task")
    for name in lost:
        cluster.workers[name].ready()
    disaster = Disaster(cluster)
    options = Options(
        effort=parse_effort("quick"),
        trials=4,
        budget=45.0,
        cache="warm",
        device="cpu",
        workspace=tmp_path,
        cluster=Scheduler(cluster.address),
    )
    try:
        result = tune(
            Gemm.parse(shape="16x16x16", dtype="f32"), Target.parse("cpu"), options=options, reporter=disaster
        )
    finally:
        for name in lost:
            cluster.end(name)
    assert disaster.happened
    assert result.verdict in ("win", "no-winner", "inconclusive")
    assert result.environment["cluster"] == cluster.address
    assert result.device == "local-task"
    told = "\n".join(disaster.notes)
    assert "worker cpu-killed is gone: its work goes to others" in told
    assert "worker cpu-stopped has said nothing for 4 s: its work goes to others" in told
    with Store.open(None, workspace=tmp_path) as store:
        rows = store.candidates(result.run)
    assert [row.stderr for row in rows if row.failure] == [], "no candidate is blamed for a worker"
