"""A run that was killed or interrupted goes on where it was; nothing is done again, and nothing is left running."""

from __future__ import annotations

import json
import math
import signal
import sqlite3
from collections import defaultdict
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest

from autotuner.build import Builder, Isa
from autotuner.build.executor import BuildExecutor
from autotuner.devices.many import Devices
from autotuner.measure.clock import Clock
from autotuner.problems import Gemm
from autotuner.store.rows import BuildRow, CandidateRow, NewRun, TimingRow
from autotuner.store.store import Store
from autotuner.system.progress import Silent, Stop
from autotuner.system.workspace import Workspace
from autotuner.targets import Target
from autotuner.tuning.evaluate import Evaluator
from autotuner.tuning.loop import Loop, SearchLane
from autotuner.tuning.options import Options
from autotuner.tuning.plan import Plan
from autotuner.tuning.run import Question
from autotuner.tuning.session import Session
from tests.support.contract import hold_contract
from tests.support.fake_tools import ONE_ROUTE, SHAPE, Cli, FakeTools, candidates, codegen, end, failures, run
from tests.support.patience import ENOUGH, wait_until

MakeCli = Callable[..., Cli]
WORDS = (*SHAPE, "--effort", "quick", "--trials", "5")


def rows(workspace: Path, run: str) -> tuple[list[CandidateRow], list[BuildRow], list[TimingRow]]:
    with Store.open(None, workspace=workspace, create=False) as store:
        return store.candidates(run), store.builds(run), store.timings(run)


def test_a_run_that_was_killed_and_then_interrupted_goes_on_and_repeats_nothing_that_was_finished(cli: MakeCli) -> None:
    line, words = cli(bench_roles=["benchmark-dies"]), (*WORDS, "--resume")
    finished_rows = "SELECT count(*) FROM candidates WHERE kind = 'codegen' AND state IN ('timed', 'failed')"
    line.fake.slow_down("time")
    killed = line.start(*words)
    line.wait_for(killed, finished_rows, 2)
    killed.kill()
    killed.communicate()
    process = line.start(*words)
    line.wait_for(process, finished_rows, 3)
    process.send_signal(signal.SIGINT)
    out, err = end(process)
    assert process.returncode == 130
    assert "Ctrl-C again" in err
    document = json.loads(out)
    assert (document["verdict"], document["spec"], document["flagfile"]) == ("inconclusive", None, None)
    assert wait_until(lambda: line.fake.running() == [])  # the watcher looks around a few times more
    with Store.open(None, workspace=line.workspace, create=False) as store:
        (row,) = store.runs()
    assert (row.id, row.status, row.result) == (document["run"], "interrupted", document)
    before, builds_before, timings_before = rows(line.workspace, row.id)
    finished = {row.id: row for row in before if row.state in ("timed", "failed", "duplicate")}
    assert document["counts"]["timed"] == sum(row.us is not None for row in before) >= 2
    assert any(row.failure == "run-error" for row in before)

    line.fake.slow_down("time", slow=False)
    code, document, err = line.finish(*words)
    assert code == 0, err
    assert document["run"] == row.id
    assert row.id in err
    after, builds, timings = rows(line.workspace, row.id)
    assert [row.id for row in after[: len(before)]] == [row.id for row in before]
    assert {row.id: row for row in after if row.id in finished} == finished
    assert builds[: len(builds_before)] == builds_before
    assert timings[: len(timings_before)] == timings_before
    assert not {build.candidate for build in builds[len(builds_before) :]} & finished.keys()
    again = {t.candidate for t in timings[len(timings_before) :] if t.phase == "screen"}
    assert not again & finished.keys()
    assert sum(row.kind == "codegen" for row in after) == 5
    assert len({row.config.key for row in after if row.kind == "codegen"}) == 5
    hold_contract(document, line.workspace)


def test_what_was_left_unfinished_is_proposed_once_and_keeps_its_row(
    make_plan: Callable[[Gemm, str], Plan], builder: Builder, tmp_path: Path
) -> None:
    """Also where others are asked for before it is timed."""
    plan = make_plan(Gemm.parse(shape="64x64x64", dtype="f32"), "cpu")
    with Store.open(None, workspace=tmp_path) as store, BuildExecutor.local(builder, 1) as executor:
        run = store.start_run(NewRun("single", "", (), {}, "cpu", "cpu", seed=0))
        tools, workspace = builder.tools, Workspace.open(tmp_path)
        session = Session("none", Silent(), Stop(), tools, workspace, store, executor, Devices(()), jobs=1)

        def search(rows: list[CandidateRow]) -> SearchLane:
            evaluator = Evaluator(plan, builder, store, run, tmp_path, frozenset(), ENOUGH, Devices(()))
            left = evaluator.restore(rows, {})
            return Loop(evaluator, session, Clock(math.inf), Options(), 5, defaultdict(float), left)._lane()

        killed = [outcome.row for outcome, _ in search([]).ask(2)]
        lane = search(store.candidates(run))
        assert lane.room == 5
        asked = [outcome.row for _ in range(5) for outcome, _ in lane.ask(1)]
        assert lane.room == 0
        assert asked[:2] == killed
        assert len({row.config.key for row in store.candidates(run)}) == len(store.candidates(run)) == 5


def interrupted(workspace: Path) -> None:
    """As if the runs so far had been killed."""
    with closing(sqlite3.connect(workspace / "results" / "autotune.db")) as connection, connection:
        connection.execute("UPDATE runs SET status = 'interrupted'")


def test_only_the_same_question_goes_on_and_only_where_it_is_asked_for(
    fake: Callable[..., FakeTools], workspace: Path
) -> None:
    tools = fake()
    first = run(tools, workspace, trials=1)
    interrupted(workspace)
    before = rows(workspace, first.run)
    fresh, other = run(tools, workspace, trials=1), run(tools, workspace, trials=1, resume=True, seed=1)
    assert len({first.run, fresh.run, other.run}) == 3
    assert f"run {first.run} is not continued" in " ".join(other.notes)
    assert rows(workspace, first.run) == before
    assert run(tools, workspace, trials=1, resume=True).run == first.run
    assert run(tools, workspace, trials=1, resume=True).run != first.run, "a finished run is not continued"


def test_a_run_goes_on_only_in_its_own_states() -> None:
    """Warm and cold, sustained and isolated."""
    question = Question("single", {}, Target.parse("cpu"), asks={}, reads=())
    others = dict.fromkeys(("tools", "workspace", "store", "executor"), cast(Any, None))
    session = Session("local-task", Silent(), Stop(), devices=Devices(()), **others)
    given = [Options(), Options(cache="warm"), Options(isolate=True), Options(cache="cold")]
    keys = [question.row(session, options).key for options in given]
    assert len(set(keys)) == 3
    assert keys[0] == keys[1], "both is a warm search that tells more in the end"
    assert [options.timing() for options in given[1:]] == [
        {"state": "sustained", "cache": "warm"},
        {"state": "process", "cache": "warm"},
        {"state": "sustained", "cache": "cold"},
    ]


def test_a_candidate_that_the_space_no_longer_has_does_not_stop_the_rest(
    fake: Callable[..., FakeTools], workspace: Path
) -> None:
    """As when a run goes on with fewer cores, or after an upgrade: the space is another."""
    tools = fake()
    first = run(tools, workspace, trials=2)
    (row, other) = codegen(workspace, first.run)
    strange = {**row.config.as_dict(), "vector_m": 999}
    with closing(sqlite3.connect(workspace / "results" / "autotune.db")) as connection, connection:
        connection.execute("UPDATE runs SET status = 'interrupted'")
        connection.execute("UPDATE candidates SET config = ? WHERE id = ?", (json.dumps(strange), row.id))
    result = run(tools, workspace, trials=4, budget=1200, resume=True)
    assert result.run == first.run
    after = {r.id: r for r in candidates(workspace, first.run)}
    assert after[other.id] == other
    assert len({r.ordinal for r in after.values()}) == len(after)
    assert result.verdict in ("no-winner", "win", "inconclusive")


def test_a_compile_only_run_goes_on_without_asking_twice_and_another_takes_its_builds_from_the_cache(
    fake: Callable[..., FakeTools], workspace: Path, tmp_path: Path
) -> None:
    tools = fake(cold=True)
    first = run(tools, workspace, device="none", trials=3)
    interrupted(workspace)
    compiled = tools.compiled()
    result = run(tools, workspace, device="none", trials=3, resume=True, target=ONE_ROUTE)
    assert result.run == first.run
    assert result.verdict == "compile-only"
    assert tools.compiled() == compiled
    assert result.baseline.isa == first.baseline.isa != Isa(), "what is not built again has its figures from before"
    configs = [row.config.key for row in codegen(workspace, first.run)]
    assert len(configs) == len(set(configs)) == 3
    assert result.counts.asked == first.counts.asked
    second = run(tools, tmp_path / "second", device="none", trials=3)
    assert first.counts.cached <= 1, "the baseline may have been built once before, to see how long it takes"
    assert second.counts.cached == second.counts.built == first.counts.built
    assert tools.compiled() == compiled


# --- two requests to end, and kill -9 ---------------------------------------------------------------------------------


def unseen(seed: int) -> tuple[str, ...]:
    """A search whose candidates no other test has built: their compilers are started, and nothing else is."""
    return (*SHAPE, "--effort", "quick", "--trials", "2", "--seed", str(seed), "--jobs", "2")


def test_two_requests_to_end_while_timing_end_it_at_once_and_leave_nothing_running(cli: MakeCli) -> None:
    line = cli(bench_roles=["benchmark-hangs"])
    process = line.start(*WORDS)
    line.wait_for(process, "SELECT count(*) FROM candidates WHERE kind = 'codegen' AND state = 'built'", 1)
    assert wait_until(lambda: len(line.fake.running()) > 0)
    # The second comes when the first is heard: two at once would be one.
    process.send_signal(signal.SIGTERM)
    assert process.stderr is not None
    assert any("Ctrl-C again" in line for line in process.stderr)
    process.send_signal(signal.SIGINT)
    end(process)
    assert process.returncode == 130
    assert wait_until(lambda: line.fake.running() == [])
    with Store.open(None, workspace=line.workspace, create=False) as store:
        (row,) = store.runs()
    assert row.status == "interrupted"
    assert failures(line.workspace, row.id) == {}


def test_a_terminal_that_is_closed_is_an_interrupt_too_also_while_the_space_is_read(cli: MakeCli) -> None:
    line = cli()
    process = line.start(*WORDS)
    assert process.stderr is not None
    assert "reading the space" in process.stderr.readline()
    process.send_signal(signal.SIGHUP)
    out, _ = end(process)
    assert process.returncode == 130
    assert json.loads(out)["verdict"] == "inconclusive"


def test_kill_9_leaves_no_compiler_running_and_no_temporary_file(
    cli: MakeCli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    line = cli()
    line.fake.slow_down("compile")
    process = line.start(*unseen(62))
    line.wait_for(process, "SELECT count(*) FROM candidates WHERE kind = 'codegen'", 2)
    assert wait_until(lambda: len(line.fake.running()) > 0)
    assert [*temporary.iterdir()]
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert wait_until(lambda: line.fake.running() == [])
    assert wait_until(lambda: not [*temporary.iterdir()])
