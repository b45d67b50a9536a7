"""The results database: rows are there when written, survive a kill, and every failure says what to do."""

from __future__ import annotations

import math
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import Engine, event
from sqlalchemy.exc import SQLAlchemyError

from autotuner.build import Isa
from autotuner.devices.conditions import Conditions, Sample
from autotuner.devices.device import Timing
from autotuner.errors import EnvironmentFailure, StorageError, UsageError
from autotuner.space.table import Config
from autotuner.store.exports import export_records, frame
from autotuner.store.listing import tallies_of
from autotuner.store.rows import BuildRow, NewRun
from autotuner.store.store import Store, run_key

POSTGRESQL = "AUTOTUNE_TEST_POSTGRESQL"
"""The URL of a database that the tests may write to, where there is one."""

PROBLEM = {"op": "gemm", "name": "gemm_64x64x64_f32", "flops": 524288, "bytes": 49152}


@pytest.fixture(params=["sqlite", *(["postgresql"] if POSTGRESQL in os.environ else [])])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    url = os.environ[POSTGRESQL] if request.param == "postgresql" else None
    with Store.open(url, workspace=tmp_path) as opened:
        yield opened


NEW = NewRun(
    kind="single",
    key="key",
    command=("autotune", "gemm"),
    problem=PROBLEM,
    target="cpu",
    device="local-task",
    seed=0,
)


def new_run(store: Store, *, space_size: int | None = None, **changes: Any) -> str:
    return store.start_run(replace(NEW, **changes), space_size=space_size)


def new_candidate(store: Store, run: str, ordinal: int = 0, us: float | None = None, **values: object) -> int:
    config = Config.of({"tile_m": ordinal + 1, "route": "default"})
    candidate = store.add_candidate(run, **{"ordinal": ordinal, "config": config, **values})  # type: ignore[arg-type]
    if us is not None:
        store.record_timing(candidate, Timing((us,)), phase="screen", block=0)
    return candidate


def database(workspace: Path) -> Path:
    return workspace / "results" / "autotune.db"


# Rows


def test_a_run_is_read_back_as_it_was_written(store: Store) -> None:
    run = new_run(store, seed=7, space_size=12)
    row = store.run(run)
    assert (row.id, row.command, row.problem) == (run, ("autotune", "gemm"), PROBLEM)
    assert (row.target, row.device, row.seed, row.space_size) == ("cpu", "local-task", 7, 12)
    assert (row.status, row.ended, row.result) == ("running", None, None)
    assert run.startswith(f"{row.started:%Y%m%d-%H%M%S}-")

    store.finish_run(run, "finished", result={"verdict": "win"})
    row = store.run(run)
    assert (row.status, row.result) == ("finished", {"verdict": "win"})
    assert row.ended is not None
    assert row.ended >= row.started


def test_a_candidate_goes_through_its_states(store: Store) -> None:
    run = new_run(store)
    candidate = new_candidate(store, run, kind="microkernel", route="ukernel")

    def state() -> str:
        return store.candidates(run)[0].state

    assert state() == "asked"
    isa = Isa(vgpr=128, occupancy=4)
    store.record_build(BuildRow(candidate, 0.5, True, "abc", 1, ("iree-compile", "x"), "x.vmfb", isa))
    assert state() == "built"
    store.record_check(candidate, error=1e-6)
    assert state() == "checked"
    store.record_timing(candidate, Timing((3.0, 1.0, 2.0)), phase="screen", block=0)
    assert state() == "timed"

    row = store.candidates(run)[0]
    assert row.config == Config.of({"tile_m": 1, "route": "default"})
    assert (row.kind, row.route) == ("microkernel", "ukernel")
    assert (row.error, row.us) == (1e-6, 2.0)
    (build,) = store.builds(run)
    assert (build.candidate, build.cached, build.binary, build.applied) == (candidate, True, "abc", 1)
    assert (build.command, build.vmfb) == (("iree-compile", "x"), "x.vmfb")
    assert build.isa == isa


def build_row(store: Store, candidate: int, isa: Isa) -> None:
    store.record_build(BuildRow(candidate, 1.0, False, "x", 1, (), "", isa))


def test_figures_are_those_of_a_candidates_last_build_that_has_some(store: Store) -> None:
    run = new_run(store)
    built, bare, asked = (new_candidate(store, run, ordinal, us=1.0) for ordinal in range(3))
    for isa in (Isa(vgpr=1), Isa(vgpr=2), Isa()):
        build_row(store, built, isa)
    build_row(store, bare, Isa())
    assert store.isa(run) == {built: Isa(vgpr=2)}
    table = frame(store, run)
    assert [name for name in table if str(name).startswith("isa.")] == ["isa.vgpr"]
    assert table["isa.vgpr"].dtype == "Int64"
    assert table["isa.vgpr"][0] == 2
    assert list(table["isa.vgpr"].isna()) == [False, True, True]
    assert asked not in store.isa(run)


def test_raw_repetitions_are_kept_and_the_time_is_what_set_us_says(store: Store) -> None:
    run = new_run(store)
    candidate = new_candidate(store, run)
    store.record_timing(candidate, Timing((10.0, 11.0)), phase="screen", block=0)
    store.record_timing(candidate, Timing((9.0,)), phase="race", block=3)
    assert store.candidates(run)[0].us == 10.5
    store.set_us(candidate, 9.5)
    assert store.candidates(run)[0].us == 9.5
    found = [(t.candidate, t.phase, t.block, t.repetitions_us) for t in store.timings(run)]
    assert found == [(candidate, "screen", 0, (10.0, 11.0)), (candidate, "race", 3, (9.0,))]


def test_the_devices_state_is_kept_with_each_timing(store: Store) -> None:
    run = new_run(store)
    candidate, bare = (new_candidate(store, run, ordinal) for ordinal in range(2))
    states = [Conditions("sustained", before=Sample(1980, 100), after=Sample(mhz, 690.0)) for mhz in (1400, 1500, 1420)]
    for block, conditions in enumerate(states):
        store.record_timing(candidate, Timing((1.0,), conditions=conditions), phase="race", block=block)
    store.record_timing(bare, Timing((1.0,)), phase="screen", block=0)
    assert [t.conditions for t in store.timings(run)][:3] == states
    assert store.timings(run)[-1].conditions is None


def test_a_failure_keeps_its_class_and_both_ends_of_stderr_whatever_a_crashed_tool_wrote(store: Store) -> None:
    run = new_run(store)
    candidate = new_candidate(store, run)
    store.record_failure(candidate, "compile-error", stderr=f"what is wrong{'x' * 100_000}\0 \udcff the cause")
    row = store.candidates(run)[0]
    assert (row.state, row.failure) == ("failed", "compile-error")
    assert row.stderr.startswith("what is wrong")
    assert row.stderr.endswith("the cause")
    assert len(row.stderr) < 10_000


def test_a_candidate_that_is_tried_once_more_forgets_what_it_came_to_and_keeps_its_timings(store: Store) -> None:
    run = new_run(store)
    candidate = new_candidate(store, run, us=5.0)
    store.record_failure(candidate, "run-error", stderr="lost")
    store.restart_candidate(candidate)
    (row,) = store.candidates(run)
    assert (row.state, row.us, row.failure, row.stderr) == ("asked", None, "", "")
    store.record_timing(candidate, Timing((7.0,)), phase="screen", block=0)
    assert store.candidates(run)[0].us == 7.0
    assert [timing.repetitions_us for timing in store.timings(run)] == [(5.0,), (7.0,)]


def test_a_duplicate_names_the_candidate_whose_binary_it_has(store: Store) -> None:
    run = new_run(store)
    first, second = new_candidate(store, run, 0), new_candidate(store, run, 1)
    store.record_duplicate(second, of=first)
    assert [(c.state, c.duplicate_of) for c in store.candidates(run)] == [("asked", None), ("duplicate", first)]


def test_an_environment_is_the_last_recorded(store: Store) -> None:
    run = new_run(store)
    assert store.environment(run) == {}
    store.record_environment(run, {"iree": "3.12.0"})
    store.record_environment(run, {"iree": "3.13.0", "load": 0.5})
    assert store.environment(run) == {"iree": "3.13.0", "load": 0.5}


def test_a_not_a_number_is_refused_as_a_bug_and_not_blamed_on_the_disk(store: Store) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        store.record_environment(new_run(store), {"load": math.nan})


# Resuming


def test_resume_finds_the_latest_unfinished_run_of_the_same_question(store: Store) -> None:
    flags = ["--iree-opt-level=O3"]
    key = run_key(problem={**PROBLEM, "name": uuid4().hex}, target="cpu", flags=flags, reads=["iree"])
    assert store.unfinished_run(key) is None
    runs = [new_run(store, key=key) for _ in range(3)]
    new_run(store, key="another question")
    store.finish_run(runs[2], "finished", result={})
    store.finish_run(runs[1], "interrupted")
    found = store.unfinished_run(key)
    assert found is not None
    assert (found.id, found.status) == (runs[1], "interrupted")
    store.resume_run(runs[1])
    resumed = store.run(runs[1])
    assert (resumed.status, resumed.ended) == ("running", None)


def test_a_run_that_is_part_of_another_is_found_there_and_nowhere_else(store: Store) -> None:
    key = uuid4().hex
    suite = new_run(store, kind="suite", key=key)
    part, own = new_run(store, key=key, parent=suite), new_run(store, key=key)
    assert [(r.kind, r.parent) for r in map(store.run, (suite, part, own))] == [
        ("suite", None),
        ("single", suite),
        ("single", None),
    ]
    found = [store.unfinished_run(key, kind=k, parent=p) for k, p in (("suite", None), ("single", suite))]  # type: ignore[arg-type]
    assert [run and run.id for run in found] == [suite, part]
    assert (mine := store.unfinished_run(key)) is not None
    assert mine.id == own
    store.finish_run(part, "finished")
    assert (found_part := store.finished_run(key, parent=suite)) is not None
    assert found_part.id == part
    assert store.finished_run(key) is None
    assert [run.id for run in store.parts(suite)] == [part]
    assert part not in [run.id for run in store.runs(top=True)]
    new_candidate(store, part, us=5.0)
    assert [(record["run"], record["us"]) for record in export_records(store, suite)] == [(part, 5.0)]


def test_the_key_of_a_run_depends_on_problem_target_flags_and_files_and_not_on_key_order() -> None:
    problem = {"op": "gemm", "m": 4}
    key = run_key(problem=problem, target="cpu", flags=["-x"], reads=["a"])
    assert key == run_key(problem={"m": 4, "op": "gemm"}, target="cpu", flags=("-x",), reads=("a",))
    others = [
        run_key(problem={**problem, "m": 5}, target="cpu", flags=["-x"], reads=["a"]),
        run_key(problem=problem, target="sm_80", flags=["-x"], reads=["a"]),
        run_key(problem=problem, target="cpu", flags=[], reads=["a"]),
        run_key(problem=problem, target="cpu", flags=["-x"], reads=["b"]),
    ]
    assert len({key, *others}) == 5


def test_runs_of_another_workspace_in_a_shared_database_are_not_resumed(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/shared.db"
    with Store.open(url, workspace=tmp_path / "a") as first, Store.open(url, workspace=tmp_path / "b") as second:
        run = new_run(first)
        assert second.unfinished_run("key") is None
        assert first.unfinished_run("key") == first.run(run) == second.run(run)


def test_a_workspace_that_was_moved_is_resumed(tmp_path: Path) -> None:
    with Store.open(None, workspace=tmp_path / "here") as store:
        run = new_run(store)
    (tmp_path / "here").rename(tmp_path / "there")
    with Store.open(None, workspace=tmp_path / "there") as store:
        found = store.unfinished_run("key")
    assert found is not None
    assert found.id == run


# Reading all of it


def test_the_frame_has_one_row_per_timed_candidate_with_its_speedup(store: Store) -> None:
    run = new_run(store)
    new_candidate(store, run, 0, us=10.0, kind="baseline", config=Config(()))
    new_candidate(store, run, 1, us=4.0)
    store.record_failure(new_candidate(store, run, 2, us=8.0), "run-error")
    store.record_failure(new_candidate(store, run, 3), "compile-error")
    new_candidate(store, run, 4)
    table = frame(store, run)
    assert list(table["us"]) == [10.0, 4.0, 8.0]
    assert list(table["speedup"]) == [1.0, 2.5, 1.25]
    assert list(table["failure"]) == ["", "", "run-error"]
    assert set(table["problem"]) == {PROBLEM["name"]}
    assert list(table["config.tile_m"])[1:] == [2, 3]
    assert table["config.tile_m"].dtype == "Int64"
    assert table["config.tile_m"].isna()[0]


def test_the_frame_of_an_empty_database_has_its_columns(tmp_path: Path) -> None:
    with Store.open(None, workspace=tmp_path) as store:
        table = frame(store)
    assert table.empty
    assert {"run", "problem", "target", "device", "kind", "us", "speedup", "failure"} <= set(table.columns)


def test_the_frame_of_all_runs_measures_each_against_its_own_baseline(tmp_path: Path) -> None:
    with Store.open(None, workspace=tmp_path) as store:
        for baseline in (10.0, 30.0):
            run = new_run(store)
            new_candidate(store, run, 0, us=baseline, kind="baseline")
            new_candidate(store, run, 1, us=10.0)
        untimed_baseline = new_run(store)
        new_candidate(store, untimed_baseline, 0, us=5.0)
        speedups = frame(store)["speedup"]
    assert list(speedups[:4]) == [1.0, 1.0, 1.0, 3.0]
    assert math.isnan(speedups[4])


def test_the_tally_counts_and_leaves_failed_candidates_out_of_the_best(store: Store) -> None:
    run = new_run(store)
    new_candidate(store, run, 0, us=10.0, kind="baseline")
    new_candidate(store, run, 1, us=3.0, kind="stock")
    new_candidate(store, run, 2, us=6.0)
    store.record_failure(new_candidate(store, run, 3, us=1.0), "run-error")
    tally = tallies_of(store, [run])[run]
    assert (tally.asked, tally.timed, tally.failed) == (4, 4, 1)
    assert (tally.baseline_us, tally.best_us) == (10.0, 6.0)


# Durability and company

WRITER = """
import sys
from pathlib import Path
from autotuner.devices.device import Timing
from autotuner.space.table import Config
from autotuner.store.rows import NewRun
from autotuner.store.store import Store
store = Store.open(None, workspace=Path(sys.argv[1]))
run = store.start_run(NewRun("single", sys.argv[2], [], {}, "cpu", "", 0))
for ordinal in range(int(sys.argv[3])):
    candidate = store.add_candidate(run, ordinal=ordinal, config=Config.of({"n": ordinal}))
    store.record_timing(candidate, Timing((1.0,)), phase="screen", block=0)
    sys.stdout.write(f"{ordinal}\\n")
    sys.stdout.flush()
"""


def writer(workspace: Path, key: str, rows: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, str(workspace), key, str(rows)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_kill_9_of_a_writing_process_keeps_every_row_that_it_had_written(tmp_path: Path) -> None:
    child = writer(tmp_path, "killed", 1_000_000)
    assert child.stdout is not None
    for _ in range(30):
        child.stdout.readline()
    child.send_signal(signal.SIGKILL)
    printed = 30 + len(child.communicate()[0].splitlines())
    with Store.open(None, workspace=tmp_path) as store:
        run = store.unfinished_run("killed")
        assert run is not None
        timed = [c for c in store.candidates(run.id) if c.state == "timed"]
        assert len(timed) >= printed - 1  # the last line may be cut in the pipe
        assert len(timed) == len(store.timings(run.id))
        new_candidate(store, run.id, 2_000_000)


def test_a_reader_is_not_kept_out_by_a_writer(tmp_path: Path) -> None:
    with Store.open(None, workspace=tmp_path) as store:
        run = new_run(store)
        other = sqlite3.connect(database(tmp_path), isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        assert store.run(run).id == run
        other.close()


def test_two_programs_may_make_a_database_at_once(tmp_path: Path) -> None:
    together = threading.Barrier(8)

    def first_run(number: int) -> str:
        together.wait()
        with Store.open(f"sqlite:///{tmp_path}/new.db", workspace=tmp_path / str(number)) as store:
            return new_run(store)

    with ThreadPoolExecutor(8) as pool:
        runs = set(pool.map(first_run, range(8)))
    with Store.open(f"sqlite:///{tmp_path}/new.db", workspace=tmp_path) as store:
        assert {run.id for run in store.runs()} == runs


# Failures


def test_a_database_of_another_program_is_refused(tmp_path: Path) -> None:
    database(tmp_path).parent.mkdir()
    connection = sqlite3.connect(database(tmp_path))
    connection.execute("CREATE TABLE runs (id INTEGER)")
    connection.close()
    with pytest.raises(StorageError, match="tables of another program"):
        Store.open(None, workspace=tmp_path)


def test_tables_of_a_study_may_live_in_the_same_database(tmp_path: Path) -> None:
    database(tmp_path).parent.mkdir()
    connection = sqlite3.connect(database(tmp_path))
    connection.execute("CREATE TABLE studies (study_id INTEGER)")
    connection.close()
    with Store.open(None, workspace=tmp_path) as store:
        assert store.runs() == []


def test_a_lock_that_is_not_given_back_becomes_a_storage_error(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/results.db?timeout=0.1"
    with Store.open(url, workspace=tmp_path) as store:
        other = sqlite3.connect(tmp_path / "results.db", isolation_level=None)
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StorageError, match=r"locked by another program\. Close the program"):
            new_run(store)
        other.close()
        new_run(store)


def test_a_full_database_becomes_a_storage_error_and_keeps_what_was_written(tmp_path: Path) -> None:
    def limit(connection: sqlite3.Connection, _record: object) -> None:
        connection.execute("PRAGMA max_page_count = 60")

    def fill(store: Store, run: str) -> None:
        for ordinal in range(10_000):
            new_candidate(store, run, ordinal, config=Config.of({"filler": "x" * 3000}))

    event.listen(Engine, "connect", limit)
    try:
        with Store.open(None, workspace=tmp_path) as store:
            run = new_run(store)
            with pytest.raises(StorageError, match=r"no space left to write .*Free some space"):
                fill(store, run)
            assert len(store.candidates(run)) > 5
    finally:
        event.remove(Engine, "connect", limit)


def test_times_of_many_runs_are_those_of_candidates_that_worked_and_their_knobs_are_read_apart(store: Store) -> None:
    one, two, empty = (new_run(store) for _ in range(3))
    first, second = new_candidate(store, one, 0, us=3.0), new_candidate(store, one, 1, us=2.0)
    new_candidate(store, one, 2)
    new_candidate(store, one, 3, us=1.0, kind="baseline")
    store.record_failure(new_candidate(store, one, 4, us=1.0), "wrong-result")
    other = new_candidate(store, two, 5, us=4.0)
    assert store.times([one, two, empty], kinds=("codegen",)) == {one: {first: 3.0, second: 2.0}, two: {other: 4.0}}
    assert store.configs([second, other]) == {
        second: {"tile_m": 2, "route": "default"},
        other: {"tile_m": 6, "route": "default"},
    }


def test_nothing_of_sqlalchemy_leaves_the_store(tmp_path: Path) -> None:
    with Store.open(None, workspace=tmp_path) as store:
        connection = sqlite3.connect(database(tmp_path))
        connection.execute("DROP TABLE timings")
        connection.close()
        with pytest.raises(StorageError, match=r"not a database of autotune \(no such table: timings\)") as failure:
            new_candidate(store, new_run(store), us=1.0)
    assert not isinstance(failure.value, SQLAlchemyError)


# URLs


@pytest.mark.parametrize(
    "url",
    ["results.db", "", "nosuchdatabase://host/x", "postgresql://u:p@h:sec/ret", "sqlite://", "sqlite://u:secret@h/x"],
)
def test_a_url_that_cannot_be_meant_is_a_usage_error_that_shows_the_forms(tmp_path: Path, url: str) -> None:
    with pytest.raises(UsageError, match="sqlite:///FILE or postgresql://USER") as failure:
        Store.open(url, workspace=tmp_path)
    assert "sec" not in str(failure.value)


def test_postgresql_without_its_driver_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(EnvironmentFailure, match=r"pip install 'psycopg\[binary\]'") as failure:
        Store.open("postgresql://user:secret@host/name", workspace=tmp_path)
    assert "secret" not in str(failure.value)


def test_a_server_that_does_not_answer_is_a_storage_error_without_the_password(tmp_path: Path) -> None:
    pytest.importorskip("psycopg")
    with pytest.raises(StorageError, match=r"postgresql://127\.0\.0\.1:9/name does not work") as failure:
        Store.open("postgresql://user:secret@127.0.0.1:9/name?password=secret", workspace=tmp_path)
    assert "secret" not in str(failure.value)
