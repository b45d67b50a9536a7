"""What is due is run once a night; what fails is a line; what was cut short goes on, also in a real night."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from autotuner.devices.conditions import Conditions
from autotuner.devices.device import Timing
from autotuner.errors import BusyError, NoCandidateError, StorageError
from autotuner.jobs.nightly import run as history
from autotuner.jobs.nightly.plan import Plan, read_plan
from autotuner.jobs.nightly.run import GRACE_SECONDS, Entry, due, run_night
from autotuner.report.nightly import look_at, page
from autotuner.space.table import Config
from autotuner.store.figures import Figure
from autotuner.store.rows import NewRun
from autotuner.store.store import Store
from autotuner.system.locks import workspace_lock
from autotuner.system.process import Finished
from autotuner.system.progress import Silent
from tests.support.command_line import AUTOTUNE, in_this_process
from tests.support.patience import ENOUGH, wait_until

FILE = """
[defaults]
budget = "60s"
[[parts]]
suite = "shapes.csv"
[[parts]]
suite = "shapes.csv"
name = "again"
"""
ENVIRONMENT = {"iree": "3.13.0", "device_name": "chip", "cores": 2}


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    (tmp_path / "shapes.csv").write_text("op,shape,dtype\ngemm,64x64x64,f32\n")
    (tmp_path / "n.toml").write_text(FILE)
    return read_plan(tmp_path / "n.toml")


class Autotune:
    """Writes the rows of a run, as the program would, and prints its document."""

    def __init__(self, plan: Plan, *, us: float = 10.0) -> None:
        self.plan, self.us = plan, us
        self.asked: list[list[str]] = []
        self.timeouts: list[float] = []
        self.instead: Callable[[], Finished] | None = None

    def __call__(self, words: Sequence[str], timeout: float) -> Finished:
        self.asked.append([*words])
        self.timeouts.append(timeout)
        if self.instead is not None:
            return self.instead()
        return said(json.dumps({"run": self.measure(), "environment": ENVIRONMENT, "reason": "fine"}))

    def measure(self) -> str:
        with Store.open(None, workspace=self.plan.workspace) as store:
            problem = {"op": "gemm", "name": "gemm_a"}
            new = NewRun(kind="single", key="k", command=[], problem=problem, target="cpu", device="local-task", seed=0)
            run = store.start_run(new)
            store.record_environment(run, ENVIRONMENT)
            row = store.add_candidate(run, ordinal=0, config=Config(()), kind="baseline")
            for block in range(8):
                timing = Timing((self.us * (1 + 0.0001 * block),), conditions=Conditions("sustained"))
                store.record_timing(row, timing, phase="race", block=block)
            store.finish_run(run, "finished", result={"verdict": "no-winner"})
            return run


def said(out: str, *, code: int = 0, err: str = "", timed_out: bool = False) -> Finished:
    return Finished(code=code, stdout=out, stderr=err, seconds=1.0, timed_out=timed_out)


def night(plan: Plan, runner: Autotune, date: str, **more: Any) -> list[Entry]:
    return run_night(plan, reporter=Silent(), night=date, runner=runner, **more)


def test_what_is_due_is_run_once_a_night_and_written_down(plan: Plan) -> None:
    runner = Autotune(plan)
    first = night(plan, runner, "2026-01-01")
    assert [(entry.part, entry.status) for entry in first] == [("shapes-cpu", "finished"), ("again", "finished")]
    assert first[0].figures[0].us == pytest.approx(10.0, rel=0.01)
    assert runner.timeouts[0] == 60 + GRACE_SECONDS
    assert runner.asked[0][-3:] == [f"--workspace={plan.workspace}", "--json", "--quiet"]
    assert night(plan, runner, "2026-01-01") == []
    assert [entry.part for entry in night(plan, runner, "2026-01-02")] == ["shapes-cpu", "again"]
    assert due(plan, history.read(plan.history), "2026-01-02") == []


def test_a_clock_that_goes_backwards_holds_up_no_night(plan: Plan) -> None:
    """A night that is dated in ten years counts as measured, and neither as the last one nor as one to wait for."""
    runner = Autotune(plan)
    for date in ("2026-01-01", "2036-01-01", "2026-01-02"):
        assert night(plan, runner, date)[0].part == "shapes-cpu"
    assert night(plan, runner, "2026-01-02") == []
    assert history.nights(history.read(plan.history)) == ["2026-01-01", "2036-01-01", "2026-01-02"]
    seen = look_at(plan, history.read(plan.history))
    assert seen.night == "2026-01-02"
    assert [point.night for point in seen.trends[0].points] == list(seen.nights)


@pytest.mark.parametrize(
    ("finished", "code", "reason"),
    [
        (
            said("", code=5, err="stage\nautotune: no device answers. Look at the driver.\n"),
            5,
            "no device answers. Look",
        ),
        (said("", code=-11), 1, "ended by SIGSEGV"),
        (said("", code=-9, timed_out=True), 1, "killed after 1 s"),
        (said('{"reason": "2 problems failed"}', code=3), 3, "2 problems failed"),
        (said("not json"), 1, "without a message"),
        (said('{"run": "none"}'), 2, "there is no run 'none'"),
    ],
)
def test_a_part_that_fails_is_a_line_and_the_others_are_run(
    plan: Plan, finished: Finished, code: int, reason: str
) -> None:
    runner = Autotune(plan)
    runner.measure()
    runner.instead = lambda: finished
    ended = night(plan, runner, "2026-01-01")
    assert [(entry.status, entry.exit_code) for entry in ended] == [("failed", code)] * 2
    assert reason in ended[0].reason
    tonight = look_at(plan, history.read(plan.history))
    assert tonight.exit_code == code
    assert "2 parts failed" in tonight.verdict
    assert "failed" in page(tonight)
    runner.instead = None
    assert [entry.status for entry in night(plan, runner, "2026-01-01")] == ["finished"] * 2
    assert look_at(plan, history.read(plan.history)).exit_code == 0


def test_a_night_that_was_killed_goes_on_with_the_part_that_was_cut_short(plan: Plan) -> None:
    runner = Autotune(plan)

    def killed() -> Finished:
        raise KeyboardInterrupt

    runner.instead = lambda: 1 // 0  # type: ignore[assignment]
    assert {entry.reason.partition(":")[0] for entry in night(plan, runner, "2025-12-31")} == {"ZeroDivisionError"}
    runner.asked.clear()
    runner.instead = killed
    with pytest.raises(KeyboardInterrupt):
        night(plan, runner, "2026-01-01")
    runner.instead = None
    ended = night(plan, runner, "2026-01-01")
    assert [entry.status for entry in ended] == ["finished"] * 2
    assert [words[-1] for words in runner.asked[1:]] == ["--resume", "--quiet"]


def test_a_part_that_was_cut_short_before_its_run_began_starts_anew(plan: Plan) -> None:
    runner = Autotune(plan)
    (before, _) = night(plan, runner, "2026-01-01")
    history.append(plan.history, Entry("2026-01-02", "shapes-cpu", "begun", ""))
    # With --resume a finished suite is given back as it is.
    answers = iter([lambda: said(json.dumps({"run": before.run, "environment": ENVIRONMENT})), None])

    def answer() -> Finished:
        runner.instead = None
        first = next(answers)
        assert first is not None
        return first()

    runner.instead = answer
    entry, _ = night(plan, runner, "2026-01-02")
    assert entry.run != before.run
    assert [words[-1] for words in runner.asked[2:]] == ["--resume", "--quiet", "--quiet"]


@pytest.mark.parametrize("line", ["nonsense", "[]", '{"night": 1}'])
def test_a_line_that_cannot_be_read_is_told_with_its_number(plan: Plan, line: str) -> None:
    night(plan, Autotune(plan), "2026-01-01")
    plan.history.write_text(f"{line}\n{plan.history.read_text()}")
    with pytest.raises(StorageError, match=r"jsonl:1 is not a line"):
        history.read(plan.history)


def test_a_history_line_holds_all_of_an_entry(tmp_path: Path) -> None:
    figure = Figure("p", "cpu", "best", 1.0, 0.9, 1.1, 0.01, 9, "process", "cold", "chip", "r", "2026")
    entry = Entry("2026-01-01", "a", "finished", "t", ("suite", "x"), "r", 0, "why", 1.5, (figure,), (), {"iree": "3"})
    history.append(tmp_path / "h.jsonl", entry)
    assert history.read(tmp_path / "h.jsonl") == [entry]


# --- a real night -----------------------------------------------------------------------------------------------------


ALONE = """
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
    (tmp_path / "n.toml").write_text(ALONE)
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
