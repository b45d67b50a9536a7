"""Locks: one run a workspace, one timing a device, and nothing left behind by a kill."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from autotuner.errors import BusyError, StorageError
from autotuner.system import locks
from autotuner.system.locks import device_lock, one_at_a_time, workspace_lock
from tests.support.patience import ENOUGH

HOLD = """
import sys, time
from pathlib import Path
from autotuner.system.locks import device_lock, workspace_lock
place = Path(sys.argv[2])
with workspace_lock(place) if sys.argv[1] == "workspace" else device_lock(sys.argv[1], place):
    sys.stdout.write("held\\n")
    sys.stdout.flush()
    time.sleep(3600)
"""


@contextmanager
def another_process_holding(what: str, place: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", HOLD, what, str(place)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "held\n"
    try:
        yield child
    finally:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.communicate()


def test_a_second_run_in_a_workspace_is_told_at_once_who_is_there_until_that_one_is_killed(tmp_path: Path) -> None:
    with another_process_holding("workspace", tmp_path) as child:
        with pytest.raises(BusyError) as failure, workspace_lock(tmp_path):
            pass
        assert failure.value.exit_code == 5
        message = str(failure.value)
        assert message.startswith(f"another autotune run (pid {child.pid}, started 2")
        assert message.endswith(") is using this workspace; wait for it or choose another --workspace.")
        (tmp_path / "results" / ".autotune.lock").write_text('{"pid": ')  # it has not yet signed
        unsigned = pytest.raises(BusyError, match=r"^another autotune run is using this workspace;")
        with unsigned, workspace_lock(tmp_path):
            pass
        child.kill()
        child.wait()
        with workspace_lock(tmp_path):
            pass


def test_the_lock_file_says_who_holds_it(tmp_path: Path) -> None:
    file = tmp_path / "results" / ".autotune.lock"
    with workspace_lock(tmp_path):
        holder = json.loads(file.read_text())
    assert (holder["pid"], holder["command"]) == (os.getpid(), sys.argv)
    assert holder["started"]
    assert file.read_text() == ""


def test_a_workspace_that_cannot_be_written_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match=r"cannot be locked \(Not a directory\)"), workspace_lock(tmp_path / "file"):
        pass


def test_a_device_is_waited_for_and_the_user_is_told_who_uses_it(tmp_path: Path) -> None:
    messages: list[str] = []
    with another_process_holding("cuda://0", tmp_path) as child:
        with pytest.raises(KeyboardInterrupt), device_lock("cuda://0", tmp_path, given_up=lambda: True):
            pass
        busy = pytest.raises(BusyError, match=r"is using device cuda://0; wait for it or choose another --device")
        with busy, device_lock("cuda://0", tmp_path, timeout=0.3):
            pass

        def on_wait(message: str) -> None:
            messages.append(message)
            child.kill()
            child.wait()

        with device_lock("cuda://0", tmp_path, on_wait=on_wait):
            pass
    (message,) = messages
    assert message.startswith(f"waiting for device cuda://0: another autotune run (pid {child.pid}, started")
    assert message.endswith(") is using it")


def test_devices_are_locked_apart_even_when_their_names_look_alike_as_files(tmp_path: Path) -> None:
    names = ["cuda://0", "cuda:/0", "cuda_0", "hip://" + "x" * 300]
    with ExitStack() as held:
        for name in names:
            held.enter_context(device_lock(name, tmp_path, timeout=0))
        assert len(list((tmp_path / "locks").iterdir())) == len(names)


def test_who_wants_the_same_waits_and_who_wants_another_thing_does_not() -> None:
    inside, leave, went = threading.Event(), threading.Event(), threading.Event()

    def first() -> None:
        with one_at_a_time("a"):
            inside.set()
            assert leave.wait(ENOUGH)

    def second() -> bool:
        with one_at_a_time("a"):
            went.set()
            return leave.is_set()

    with ThreadPoolExecutor(2) as pool:
        holding = pool.submit(first)
        assert inside.wait(ENOUGH)
        waiting = pool.submit(second)
        with one_at_a_time("b"):
            assert not went.is_set()
        leave.set()
        assert waiting.result(ENOUGH), "the second went in before the first was out"
        holding.result(ENOUGH)


def test_who_has_it_may_take_it_again_and_what_nobody_holds_is_forgotten_also_after_an_error() -> None:
    with pytest.raises(ValueError, match="of its work"), one_at_a_time("c"), one_at_a_time("c"):
        raise ValueError("of its work")
    assert "c" not in locks._locks
