"""A run that was killed goes on where it was: the same run, nothing finished is done again."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from autotuner.build import Isa
from autotuner.devices.many import Devices
from autotuner.store.rows import BuildRow, CandidateRow, TimingRow
from autotuner.store.store import Store
from autotuner.system.progress import Silent, Stop
from autotuner.targets import Target
from autotuner.tuning.options import Options
from autotuner.tuning.run import Question
from autotuner.tuning.session import Session
from tests.support.contract import hold_contract
from tests.support.fake_tools import ONE_ROUTE, SHAPE, Cli, FakeTools, candidates, codegen, run

MakeCli = Callable[..., Cli]
WORDS = (*SHAPE, "--effort", "quick", "--trials", "5")


def rows(workspace: Path, run: str) -> tuple[list[CandidateRow], list[BuildRow], list[TimingRow]]:
    with Store.open(None, workspace=workspace, create=False) as store:
        return store.candidates(run), store.builds(run), store.timings(run)


def kill_when(cli: Cli, query: str, at_least: int) -> str:
    """Starts a run, kills it with SIGKILL when the database shows so many rows; the run's id."""
    cli.fake.slow_down("time")
    process = cli.start(*WORDS, "--resume")
    cli.wait_for(process, query, at_least)
    process.kill()
    process.communicate()
    cli.fake.slow_down("time", slow=False)
    with Store.open(None, workspace=cli.workspace, create=False) as store:
        return store.runs(1)[0].id


def test_a_killed_run_goes_on_and_repeats_nothing_that_was_finished(cli: MakeCli) -> None:
    line = cli(bench_roles=["benchmark-dies"])
    query = "SELECT count(*) FROM candidates WHERE kind = 'codegen' AND state IN ('timed', 'failed')"
    killed = kill_when(line, query, 3)
    before, builds_before, timings_before = rows(line.workspace, killed)
    finished = {row.id: row for row in before if row.state in ("timed", "failed", "duplicate")}
    assert sum(row.state == "timed" for row in before) >= 2
    assert any(row.failure == "run-error" for row in before)

    code, document, err = line.finish(*WORDS, "--resume")
    assert code == 0, err
    assert document["run"] == killed
    assert killed in err
    after, builds, timings = rows(line.workspace, killed)
    assert [row.id for row in after[: len(before)]] == [row.id for row in before]
    assert {row.id: row for row in after if row.id in finished} == finished
    assert builds[: len(builds_before)] == builds_before
    assert timings[: len(timings_before)] == timings_before
    built = Counter(build.candidate for build in builds)
    assert {row: built[row] for row in finished} == dict.fromkeys(finished, 1)
    again = {t.candidate for t in timings[len(timings_before) :] if t.phase == "screen"}
    assert not again & finished.keys()
    assert sum(row.kind == "codegen" for row in after) == 5
    assert len({row.config.key for row in after if row.kind == "codegen"}) == 5
    hold_contract(document, line.workspace)


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


def test_a_compile_only_run_goes_on_without_asking_twice(fake: Callable[..., FakeTools], workspace: Path) -> None:
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


def test_a_run_is_not_gone_on_with_by_another_iree(fake: Callable[..., FakeTools], workspace: Path) -> None:
    """By another benchmark neither: the tests of suites."""
    tools = fake()
    first = run(tools, workspace, trials=1)
    interrupted(workspace)
    path = tools.folder / "iree-compile"
    path.write_text(path.read_text() + "\n# another build\n")
    tools.tools = replace(tools.tools)
    other = run(tools, workspace, trials=1, resume=True)
    assert other.run != first.run
    assert f"run {first.run} is not continued" in " ".join(other.notes)
