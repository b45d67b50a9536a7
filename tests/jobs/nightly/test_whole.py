"""A real night: killed in the middle, run again, and its page."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from autotuner.errors import BusyError, NoCandidateError
from autotuner.jobs.nightly import run as history
from autotuner.system.locks import workspace_lock
from tests.support.command_line import AUTOTUNE, in_this_process
from tests.support.patience import ENOUGH, wait_until

FILE = """
[[parts]]
suite = "shapes.csv"
budget = "20s"
effort = "quick"
trials = 1
"""


@pytest.mark.long
def test_a_night_that_is_killed_goes_on_when_it_is_run_again(
    tmp_path: Path, share_digests: Callable[[Path], None]
) -> None:
    share_digests(tmp_path / "cache")
    (tmp_path / "shapes.csv").write_text("op,shape,dtype\ngemm,64x64x64,f32\n")
    (tmp_path / "n.toml").write_text(FILE)
    lines, database = tmp_path / "results" / "nightly" / "n.jsonl", tmp_path / "results" / "autotune.db"
    environment = {**os.environ, "AUTOTUNE_CACHE_DIR": str(tmp_path / "cache")}
    with subprocess.Popen([*AUTOTUNE, "nightly", "n.toml", "--quiet"], cwd=tmp_path, env=environment) as night:
        assert wait_until(database.exists, seconds=ENOUGH)
        night.send_signal(signal.SIGKILL)
    assert [entry.status for entry in history.read(lines)] == ["begun"]
    assert wait_until(lambda: _free(tmp_path)), "its part goes on without it"
    done = in_this_process("nightly", "n.toml", "--json", "--quiet", cwd=tmp_path, cache=tmp_path / "cache")
    found, entries = json.loads(done.stdout), history.read(lines)
    assert [entry.status for entry in entries[:2]] == ["begun", "begun"]
    if entries[-1].exit_code == NoCandidateError.exit_code:
        return  # on a machine that is too busy nothing is timed in that time: that too is told, and no more
    assert done.returncode == 0, done.stderr
    assert [part["status"] for part in found["parts"]] == ["finished"]
    assert "default" in {figure.kernel for figure in entries[-1].figures}
    assert "gemm_64x64x64_f32_f32_nn" in (tmp_path / "results" / "nightly" / "n.html").read_text()
    idle = in_this_process("nightly", "n.toml", "--dry-run", "--json", cwd=tmp_path, cache=tmp_path / "cache")
    assert [part["due"] for part in json.loads(idle.stdout)] == [False]


def _free(workspace: Path) -> bool:
    try:
        with workspace_lock(workspace):
            return True
    except BusyError:
        return False
