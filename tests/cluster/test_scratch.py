"""A worker leaves no folder behind."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from pathlib import Path

import pytest

from autotuner.cluster.scratch import scratch
from autotuner.iree.tools import Tools
from tests.support.clusters import local_cluster
from tests.support.patience import ENOUGH


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def aged(folder: Path) -> Path:
    """An hour old."""
    then = time.time() - 3600
    os.utime(folder, (then, then))
    return folder


def test_folders_of_workers_that_were_killed_go_at_the_next_start(temporary: Path) -> None:
    left = temporary / "autotune-worker-left"
    young, stranger, link = (temporary / f"autotune-worker-{name}" for name in ("young", "stranger", "link"))
    for folder in (left, young, stranger):
        (folder / "files").mkdir(parents=True)
    for folder in (left, young):
        (folder / "lock").touch()
    link.symlink_to(temporary)
    aged(left)
    aged(stranger)
    with scratch() as first:
        assert {path.name for path in temporary.iterdir()} == {young.name, stranger.name, link.name, first.name}
        aged(first)
        with scratch() as second:
            assert first.is_dir(), "its worker is at work"
            assert second.is_dir()
    assert {path.name for path in temporary.iterdir()} == {young.name, stranger.name, link.name}


def test_a_worker_that_ends_removes_its_folder_also_when_the_scheduler_is_gone(tools: Tools, tmp_path: Path) -> None:
    assert tools.programs
    with local_cluster(tmp_path) as cluster:
        asked, left = (cluster.start(name, "--jobs", "1") for name in ("asked", "left"))
        asked.ready()
        left.ready()
        assert len(list(cluster.scratch.glob("autotune-worker-*"))) == 2
        asked.send(signal.SIGTERM)
        asked.process.wait(ENOUGH)
        assert len(list(cluster.scratch.glob("autotune-worker-*"))) == 1
        assert cluster.scheduler is not None
        cluster.scheduler.kill()
        left.process.wait(ENOUGH)
        assert list(cluster.scratch.iterdir()) == []
