"""Ctrl-C once ends the row and reports; twice ends at once; neither leaves anything running or spoils the next run."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable

import pytest

from autotuner.store.store import Store
from tests.support.fake_tools import HANGING, SHAPE, TIMED, Cli, candidates, failures
from tests.support.patience import wait_until

MakeCli = Callable[..., Cli]
WORDS = (*SHAPE, "--effort", "quick", "--trials", "4")


def unseen(seed: int) -> tuple[str, ...]:
    """A search whose candidates no other test has built: their compilers are started, and nothing else is."""
    return (*SHAPE, "--effort", "quick", "--trials", "2", "--seed", str(seed), "--jobs", "2")


def end(process: subprocess.Popen[str]) -> tuple[str, str]:
    """Who would wait for what hangs would not end before it is killed here."""
    out, err = process.communicate(timeout=HANGING / 2)
    assert "Traceback" not in err, err
    return out, err


def interrupt_twice(process: subprocess.Popen[str]) -> None:
    """The second comes when the first is heard: two at once would be one."""
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    assert any("Ctrl-C again" in line for line in process.stderr)
    process.send_signal(signal.SIGINT)


def test_ctrl_c_reports_what_there_is_and_resume_goes_on(cli: MakeCli) -> None:
    line = cli()
    line.fake.slow_down("time")
    process = line.start(*WORDS)
    line.wait_for(process, TIMED, 2)
    process.send_signal(signal.SIGINT)
    out, err = end(process)
    assert process.returncode == 130
    assert "Ctrl-C again" in err
    document = json.loads(out)
    assert document["verdict"] == "inconclusive"
    assert (document["spec"], document["flagfile"]) == (None, None)
    with Store.open(None, workspace=line.workspace, create=False) as store:
        row = store.run(document["run"])
    assert row.status == "interrupted"
    assert row.result == document
    kept = [r for r in candidates(line.workspace, document["run"]) if r.us is not None]
    assert document["counts"]["timed"] == len(kept) >= 2
    assert line.fake.running() == []

    line.fake.slow_down("time", slow=False)
    code, again, err = line.finish(*WORDS, "--resume")
    assert code == 0, err
    assert again["run"] == document["run"]
    assert again["verdict"] == "no-winner"
    after = {r.id: r for r in candidates(line.workspace, document["run"])}
    assert all(after[r.id].us == r.us for r in kept)


def test_ctrl_c_twice_while_timing_ends_at_once_and_leaves_nothing_running(cli: MakeCli) -> None:
    line = cli(bench_roles=["benchmark-hangs"])
    process = line.start(*WORDS)
    line.wait_for(process, "SELECT count(*) FROM candidates WHERE kind = 'codegen' AND state = 'built'", 1)
    assert wait_until(lambda: len(line.fake.running()) > 0)
    interrupt_twice(process)
    end(process)
    assert process.returncode == 130
    assert line.fake.running() == []
    with Store.open(None, workspace=line.workspace, create=False) as store:
        (row,) = store.runs()
    assert row.status == "interrupted"
    assert failures(line.workspace, row.id) == {}


@pytest.mark.parametrize("request_to_end", [signal.SIGTERM, signal.SIGHUP], ids=["request", "closed terminal"])
def test_other_requests_to_end_are_interrupts_too_also_while_the_space_is_read(
    cli: MakeCli, request_to_end: signal.Signals
) -> None:
    line = cli()
    process = line.start(*WORDS)
    assert process.stderr is not None
    assert "reading the space" in process.stderr.readline()
    process.send_signal(request_to_end)
    out, _ = end(process)
    assert process.returncode == 130
    assert json.loads(out)["verdict"] == "inconclusive"


def test_kill_9_leaves_no_compiler_running(cli: MakeCli) -> None:
    line = cli()
    line.fake.slow_down("compile")
    process = line.start(*unseen(62))
    line.wait_for(process, "SELECT count(*) FROM candidates WHERE kind = 'codegen'", 2)
    assert wait_until(lambda: len(line.fake.running()) > 0)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert wait_until(lambda: line.fake.running() == [])
