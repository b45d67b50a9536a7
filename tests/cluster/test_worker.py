"""A worker keeps what it is sent, and lends its device to one coordinator."""

from __future__ import annotations

import hashlib
import os
from dataclasses import replace
from pathlib import Path

import pytest

from autotuner.build.builder import Builder
from autotuner.cluster.remote import PIECE_BYTES, RemoteDevice
from autotuner.cluster.worker import WorkerState
from autotuner.errors import DeviceError
from autotuner.iree.tools import Tools
from tests.support.near_worker import near, near_device


def test_a_large_file_comes_in_pieces(builder: Builder, tmp_path: Path) -> None:
    data = os.urandom(PIECE_BYTES + 1)
    (tmp_path / "large.bin").write_bytes(data)
    name = f"{hashlib.sha256(data).hexdigest()}.bin"
    device = RemoteDevice("near", near(WorkerState(builder, folder=tmp_path)), "", tmp_path, "", "process", 1.0)
    assert device._put(tmp_path / "large.bin") == tmp_path / name
    assert (tmp_path / name).read_bytes() == data


def test_a_coordinator_that_does_not_have_the_device_is_refused(tools: Tools, tmp_path: Path) -> None:
    with near_device(tools, tmp_path, "local-sync") as device:
        stranger = replace(device, session="another")
        with pytest.raises(DeviceError, match=r"it has given its device to another\. Go on with --resume"):
            stranger.renew()
        device.renew()
