"""Programs that end well, badly, too late, or by a signal; and nothing of them stays behind."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import subprocess
import sys
from contextvars import copy_context
from pathlib import Path

import pytest

from autotuner.errors import OutOfTimeError, ToolMissingError
from autotuner.system import process
from autotuner.system.execution import local_executor
from autotuner.system.process import in_parts
from tests.support.patience import ENOUGH, alive, wait_until


def test_output_and_errors_are_kept_apart() -> None:
    done = process.run(["sh", "-c", "echo out; echo err >&2"], timeout=60)
    assert done.ok
    assert (done.code, done.stdout, done.stderr) == (0, "out\n", "err\n")
    assert 0 < done.seconds < 60


def test_a_failure_keeps_what_was_said() -> None:
    done = process.run(["sh", "-c", "echo the reason >&2; exit 3"], timeout=60)
    assert not done.ok
    assert done.code == 3
    assert done.why() == "the reason"
    assert process.run(["sh", "-c", "exit 3"], timeout=60).why() == "exit code 3 without a message"


def test_no_word_of_a_command_reaches_a_shell() -> None:
    done = process.run(["echo", "$HOME; `id` && *"], timeout=60)
    assert done.stdout == "$HOME; `id` && *\n"


def test_a_program_runs_in_its_folder_and_reads_nothing(tmp_path: Path) -> None:
    done = process.run(["sh", "-c", "pwd -P; cat"], timeout=60, cwd=tmp_path)
    assert done.stdout == f"{tmp_path.resolve()}\n"


def test_bytes_that_are_no_text_do_not_raise() -> None:
    done = process.run(["printf", r"\377ok"], timeout=60)
    assert done.stdout.endswith("ok")


@pytest.mark.parametrize("name", ["SEGV", "ABRT", "KILL"])
def test_the_signal_that_ended_a_program_is_named(name: str) -> None:
    done = process.run(["sh", "-c", f"echo last words >&2; kill -{name} $$"], timeout=60)
    assert not done.ok
    assert done.code < 0
    assert not done.timed_out
    assert done.why() == f"ended by SIG{name}\nlast words"


def test_a_time_out_kills_grandchildren_too_and_keeps_stderr() -> None:
    script = "sleep 3600 & echo $!; echo so far >&2; trap '' TERM; wait; sleep 3600"
    done = process.run(["sh", "-c", script], timeout=2.0)
    assert done.timed_out
    assert not done.ok
    assert "killed after" in done.why()
    assert "so far" in done.why()
    grandchild = int(done.stdout)
    assert wait_until(lambda: not alive(grandchild))


def test_a_grandchild_that_outlives_its_parent_does_not_hold_the_run_up() -> None:
    done = process.run(["sh", "-c", "sleep 3600 & echo $!"], timeout=2.0)
    grandchild = int(done.stdout)
    assert wait_until(lambda: not alive(grandchild))


def test_who_leaves_the_group_and_keeps_the_pipes_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_LAST_WORDS", 0.2)
    done = process.run(["sh", "-c", "setsid sleep 3600 & echo $!; sleep 3600"], timeout=1.0)
    assert done.timed_out
    os.kill(int(done.stdout), signal.SIGKILL)


def test_who_is_left_with_the_pipes_of_a_program_that_has_ended_is_not_waited_for() -> None:
    left = "import subprocess, sys; subprocess.Popen(['sleep', '30'], start_new_session=True)"
    words = f"{left}; print('said'); print('x' * 100_000); sys.exit(3)"
    done = process.run([sys.executable, "-c", words], timeout=ENOUGH)
    assert (done.code, done.timed_out, len(done.stdout)) == (3, False, 100_006)


def test_a_flood_on_stderr_keeps_its_beginning_and_its_end() -> None:
    flood = "import sys; sys.stderr.write('at first' + 'x' * 100_000_000 + 'the end')"
    done = process.run([sys.executable, "-c", flood], timeout=ENOUGH)
    assert done.ok
    assert done.stderr.startswith("at first")
    assert done.stderr.endswith("the end")
    assert len(done.stderr) <= 64 * 1024 + 10


def test_a_flood_on_stdout_is_not_waited_for() -> None:
    done = process.run(["yes"], timeout=ENOUGH)
    assert not done.ok
    assert not done.timed_out
    assert len(done.stdout) < 1 << 20
    assert done.why().endswith("killed: it printed more than 256 MiB")


def test_a_program_that_finds_no_room_is_there_and_need_not_be_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def full() -> Path:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(process, "_own_temporary", full)
    with pytest.raises(ToolMissingError, match=r"No space left on device\. Free some space"):
        process.run(["true"], timeout=ENOUGH)


def test_a_program_that_does_not_exist_says_what_to_install() -> None:
    with pytest.raises(ToolMissingError, match="pip install"):
        process.run(["/no/such/program"], timeout=1)


KILLED = """
import os, signal, threading, time
from pathlib import Path
from autotuner.system import process
for name in ("one", "two"):
    script = f"sleep 3600 & echo $! > {name}.tmp; mv {name}.tmp {name}; wait"
    threading.Thread(target=process.run, args=(["sh", "-c", script],), kwargs={"timeout": 3600}).start()
while not (Path("one").exists() and Path("two").exists()):
    time.sleep(0.1)
END
"""


@pytest.mark.parametrize(
    "how", ["os.kill(os.getpid(), signal.SIGKILL)", "process.shut_down()"], ids=["killed", "shut down"]
)
def test_what_a_process_had_started_ends_with_it_and_grandchildren_too(tmp_path: Path, how: str) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED.replace("END", how)], cwd=tmp_path, timeout=ENOUGH, check=False)
    assert done.returncode == (-signal.SIGKILL if "kill" in how else 0)
    grandchildren = [int((tmp_path / name).read_text()) for name in ("one", "two")]
    assert wait_until(lambda: not any(map(alive, grandchildren)))


def test_a_temporary_folder_is_removed_of_who_is_killed_as_soon_as_it_is_there(tmp_path: Path) -> None:
    program = (
        "import os, signal; from pathlib import Path; from autotuner.system import process; mkdir = os.mkdir\n"
        "os.mkdir = lambda *words: (mkdir(*words), os.kill(os.getpid(), signal.SIGKILL))\n"
        "with process.temporary('mine-', Path.cwd()): pass"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, timeout=ENOUGH, check=False)
    assert done.returncode == -signal.SIGKILL
    assert wait_until(lambda: not os.listdir(tmp_path))


def test_an_error_ends_what_was_started_beside_it_and_starts_no_other(tmp_path: Path) -> None:
    began, began_outside = tmp_path / "began", tmp_path / "outside"
    with local_executor(2) as threads:
        outside = threads.submit(process.run, ["sh", "-c", f"touch {began_outside}; sleep 1"], timeout=ENOUGH)
        with contextlib.suppress(ZeroDivisionError), process.ended_by_an_error():
            within = threads.submit(process.run, ["sh", "-c", f"touch {began}; sleep {ENOUGH}"], timeout=ENOUGH)
            assert wait_until(lambda: began.exists() and began_outside.exists())
            context = copy_context()
            raise ZeroDivisionError
        with pytest.raises(process.Closing):
            within.result(timeout=ENOUGH)
        with pytest.raises(process.Closing):
            context.run(process.run, ["true"], timeout=ENOUGH)
        assert outside.result(timeout=ENOUGH).ok
    assert process.run(["true"], timeout=ENOUGH).ok


def test_what_gives_way_is_nicer_than_autotune_itself() -> None:
    niceness = [sys.executable, "-c", "import os; print(os.nice(0))"]
    with process.behind_timings():
        behind = process.run(niceness, timeout=60)
    assert int(behind.stdout) == min(os.nice(0) + 10, 19)


def test_what_is_done_in_parts_ends_where_the_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    left = iter([1.0, 1.0, 0.0])
    monkeypatch.setattr(process, "seconds_left", lambda: next(left))
    done: list[str] = []
    with pytest.raises(OutOfTimeError):
        done.extend(in_parts("abcd"))
    assert done == ["a", "b"]
