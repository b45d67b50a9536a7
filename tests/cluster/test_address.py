"""Which schedulers are taken: beyond this machine only encrypted ones, unless the user insists."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import dask
import pytest

from autotuner.cluster.address import Scheduler
from autotuner.errors import UsageError
from tests.support.command_line import GEMM, complaint, in_this_process

TUNE, WORK = (*GEMM, "--cluster"), ("worker",)


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:8786", "tcp://localhost:1", "tcp://[::1]:8786", "tls://far:8786"])
def test_this_machine_and_tls_are_taken(address: str) -> None:
    assert Scheduler(address).address == address


@pytest.mark.parametrize("command", [TUNE, WORK])
@pytest.mark.parametrize("address", ["tcp://10.0.0.1:8786", "tcp://localhost.evil.example:8786", "tcp://0.0.0.0:8786"])
def test_plain_tcp_beyond_this_machine_is_refused(command: tuple[str, ...], address: str, tmp_path: Path) -> None:
    words = complaint(in_this_process(*command, address, cwd=tmp_path), 2)
    assert "whoever reaches it can run code on its workers" in words
    assert "--insecure-cluster" in words
    assert Scheduler(address, insecure=True).address == address


@pytest.mark.parametrize("address", ["127.0.0.1:8786", "http://127.0.0.1:80", "tcp://127.0.0.1", "tcp://a:99999", ""])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(UsageError, match="is no address of a Dask scheduler"):
        Scheduler(address)


def test_without_certificates_one_line_says_where_they_are_named(tmp_path: Path) -> None:
    words = complaint(in_this_process(*TUNE, "tls://localhost:9", cwd=tmp_path), 5)
    assert "no certificate authority is named for tls://localhost:9. Set DASK_CONFIG" in words


def test_insecure_has_no_meaning_without_a_cluster(tmp_path: Path) -> None:
    words = complaint(in_this_process(*GEMM, "--insecure-cluster", cwd=tmp_path), 2)
    assert "--insecure-cluster has no meaning without --cluster" in words


@pytest.mark.parametrize("command", [TUNE, WORK])
def test_without_dask_one_line_says_how_to_install_it(
    command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = importlib.util.find_spec
    absent = "autotuner.cluster.address.find_spec"
    monkeypatch.setattr(absent, lambda name: None if name == "distributed" else found(name))
    words = complaint(in_this_process(*command, "tcp://127.0.0.1:9", cwd=tmp_path), 5)
    assert "pip install distributed" in words


def test_a_scheduler_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with dask.config.set({"distributed.comm.timeouts.connect": "500ms"}):
        words = complaint(in_this_process(*TUNE, "tcp://127.0.0.1:9", cwd=tmp_path), 5)
    assert "the scheduler tcp://127.0.0.1:9 does not answer" in words
