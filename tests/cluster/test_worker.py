"""A worker leaves no folder behind, keeps what it is sent, and ends where something hangs in it."""

from __future__ import annotations

import hashlib
import os
import signal
from pathlib import Path

import pytest

from autotuner.build.builder import Builder
from autotuner.cluster import worker
from autotuner.cluster.remote import PIECE_BYTES, Channel
from autotuner.cluster.worker import Workplace
from autotuner.errors import DeviceError, OutOfTimeError
from autotuner.iree.tools import Tools
from tests.support.clusters import LocalCluster, local_cluster
from tests.support.near_worker import NearWorker
from tests.support.patience import ENOUGH, wait_until


def folders(cluster: LocalCluster) -> list[Path]:
    return list(cluster.scratch.glob("dask-scratch-space/worker-*/"))


def test_a_worker_leaves_no_folder_behind_however_it_ends(tools: Tools, tmp_path: Path) -> None:
    assert tools.programs
    with local_cluster(tmp_path) as cluster:
        asked, killed = (cluster.start(name, "--jobs", "1") for name in ("asked", "killed"))
        asked.ready()
        killed.ready()
        assert len(folders(cluster)) == 2
        asked.send(signal.SIGTERM)
        killed.send(signal.SIGKILL)
        asked.process.wait(ENOUGH)
        killed.process.wait(ENOUGH)
        assert len(folders(cluster)) == 1
        left = cluster.start("left", "--jobs", "1").ready()
        assert len(folders(cluster)) == 1, "what a killed one left goes at the next start"
        assert cluster.scheduler is not None
        cluster.scheduler.kill()
        left.process.wait(ENOUGH)
        assert folders(cluster) == []


def test_a_large_file_comes_in_pieces_and_only_under_the_name_of_its_content(builder: Builder, tmp_path: Path) -> None:
    place = Workplace(builder, folder=tmp_path)
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
    channel = Channel(NearWorker(Workplace(builder, "local-sync", tmp_path)), "session")
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
