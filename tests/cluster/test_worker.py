"""A worker leaves no folder behind, keeps what it is sent, and ends where something hangs in it."""

from __future__ import annotations

import hashlib
import os
import signal
import tempfile
import time
from pathlib import Path

import pytest

from autotuner.build.builder import Builder
from autotuner.cluster import worker
from autotuner.cluster.remote import PIECE_BYTES, Channel
from autotuner.cluster.worker import Workplace, scratch
from autotuner.errors import DeviceError, OutOfTimeError
from autotuner.iree.tools import Tools
from tests.support.clusters import local_cluster
from tests.support.near_worker import NearWorker
from tests.support.patience import ENOUGH, wait_until


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


def test_a_large_file_comes_in_pieces_and_only_under_the_name_of_its_content(builder: Builder, tmp_path: Path) -> None:
    place = Workplace(builder, tmp_path)
    data = os.urandom(PIECE_BYTES + 1)
    (tmp_path / "large.bin").write_bytes(data)
    name = hashlib.sha256(data).hexdigest()
    Channel(NearWorker(place), "session")._put(tmp_path / "large.bin", name)
    assert (tmp_path / name).read_bytes() == data
    with pytest.raises(ValueError, match="arrived damaged"):
        place.put("0" * 64, 0, data, True)
    with pytest.raises(ValueError, match="no name of a file's content"):
        place.put("../elsewhere", 0, data, True)
    assert not (tmp_path / ("0" * 64)).exists()


def test_a_coordinator_that_does_not_have_the_device_is_refused(builder: Builder, tmp_path: Path) -> None:
    channel = Channel(NearWorker(Workplace(builder, tmp_path, "local-sync")), "session")
    with pytest.raises(DeviceError, match=r"worker near: it has given its device to another\. Go on with --resume"):
        channel.ask("renew", isolated=False, longest=60.0)


def test_a_worker_ends_where_something_hangs_and_not_where_the_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[int] = []
    monkeypatch.setattr(worker, "_LATE_SECONDS", 0.0)
    monkeypatch.setattr(os, "_exit", ended.append)

    def late() -> None:
        raise OutOfTimeError

    assert isinstance(worker._guarded(late, longest=60.0), OutOfTimeError)
    assert ended == []
    worker._guarded(lambda: wait_until(lambda: bool(ended)), longest=0.01)
    assert ended == [5]
