"""A worker keeps what it is sent, and lends its device to one coordinator."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from autotuner.build.builder import Builder
from autotuner.cluster.remote import PIECE_BYTES, Channel
from autotuner.cluster.worker import WorkerState
from autotuner.errors import DeviceError
from tests.support.near_worker import near


def test_a_large_file_comes_in_pieces(builder: Builder, tmp_path: Path) -> None:
    data = os.urandom(PIECE_BYTES + 1)
    (tmp_path / "large.bin").write_bytes(data)
    name = f"{hashlib.sha256(data).hexdigest()}.bin"
    channel = Channel("near", near(WorkerState(builder, folder=tmp_path)))
    assert channel._put(tmp_path / "large.bin") == Path(name)
    assert (tmp_path / name).read_bytes() == data


def test_a_coordinator_that_does_not_have_the_device_is_refused(builder: Builder, tmp_path: Path) -> None:
    channel = Channel("near", near(WorkerState(builder, "local-sync", tmp_path)))
    with pytest.raises(DeviceError, match=r"worker near: it has given its device to another\. Go on with --resume"):
        channel.ask("renew", isolated=False)
