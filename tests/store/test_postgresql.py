"""PostgreSQL: a connection that is lost, a server that restarts or stays away, clients that share a database."""

from __future__ import annotations

import json
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import select

from autotuner.devices.device import Timing
from autotuner.errors import StorageError
from autotuner.search.history import Shape
from autotuner.space.table import Config
from autotuner.store import database as transactions
from autotuner.store.database import connect, locate
from autotuner.store.rows import CANDIDATES, ENVIRONMENT, METADATA, SCHEMA, NewRun
from autotuner.store.store import Store
from autotuner.tuning.earlier import earlier_runs
from tests.store.postgresql import PASSWORD, Line, Loss, Server, own_server
from tests.support.command_line import GEMM, complaint, in_this_process
from tests.support.fake_tools import SPEC, Cli, FakeTools
from tests.support.patience import ENOUGH, wait_until

NEW = NewRun("single", "key", ["autotune", "gemm"], {"op": "gemm", "name": "gemm_64"}, "cpu", "local-task", 0)
CONFIG = Config.of({"tile": 1})


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with own_server() as started:
        yield started


@pytest.fixture
def schema(server: Server) -> str:
    """A schema of the test's own: other tests write to the same database."""
    name = f"autotune_{uuid4().hex}"
    engine = connect(locate(server.url, Path()))
    with engine.begin() as connection:
        connection.exec_driver_sql(f"CREATE SCHEMA {name}")
    engine.dispose()
    return name


@pytest.fixture
def url(server: Server, schema: str) -> str:
    return server.url_at(server.port, schema=schema)


@pytest.fixture
def short_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactions, "PATIENCE_SECONDS", 1.0)


@pytest.mark.parametrize(("loss", "written"), [("question", 0), ("answer", 1)])
def test_a_commit_whose_connection_is_lost_is_told_and_never_written_twice(
    server: Server, schema: str, tmp_path: Path, loss: Loss, written: int
) -> None:
    line = Line(server.port)
    with Store.open(server.url_at(line.port, schema=schema), workspace=tmp_path) as store:
        run = store.start_run(NEW)
        line.breaks.append(loss)
        with pytest.raises(StorageError, match=r"lost in the middle of a write\. Give the same command with --resume"):
            store.add_candidate(run, ordinal=0, config=CONFIG)
        assert line.breaks == []
        assert len(store.candidates(run)) == written
        store.finish_run(run, "interrupted")
        assert store.run(run).status == "interrupted"


def test_rows_that_are_written_while_the_server_restarts_are_all_there_once(
    server: Server, url: str, tmp_path: Path
) -> None:
    told: list[str] = []

    def on_wait(text: str) -> None:
        told.append(text)
        server.start()

    with Store.open(url, workspace=tmp_path, on_wait=on_wait) as store:
        run = store.start_run(NEW)
        server.stop()
        for ordinal in range(5):
            store.add_candidate(run, ordinal=ordinal, config=CONFIG)
        assert [row.ordinal for row in store.candidates(run)] == [0, 1, 2, 3, 4]
    assert len(told) == 1
    assert "does not answer; the run waits for it, up to 120 s" in told[0]
    assert PASSWORD not in told[0]


@pytest.mark.long
@pytest.mark.usefixtures("short_patience")
def test_a_server_that_stays_away_ends_the_run_in_one_line_and_resume_goes_on(
    server: Server, url: str, tmp_path: Path, warm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = (*GEMM, "--device", "none", "--trials", "2", "--budget", "5m", "--storage", url)
    add = Store.add_candidate

    def stop_then(store: Store, run: str, **values: Any) -> int:
        candidate = add(store, run, **values)
        server.stop()
        return candidate

    monkeypatch.setattr(Store, "add_candidate", stop_then)
    try:
        given_up = in_this_process(*words, cwd=tmp_path, cache=warm / "cache")
    finally:
        server.start()
    line = complaint(given_up, StorageError.exit_code)
    assert "has not answered for 1 s" in line
    assert line.endswith("start the server, then give the same command with --resume.")
    assert PASSWORD not in given_up.stderr
    monkeypatch.undo()
    with Store.open(url, workspace=tmp_path) as store:
        (before,) = store.runs()
        assert (before.status, len(store.candidates(before.id))) == ("running", 1)
    went_on = in_this_process(*words, "--resume", "--json", "--quiet", cwd=tmp_path, cache=warm / "cache")
    assert went_on.returncode == 0, went_on.stderr
    assert json.loads(went_on.stdout)["run"] == before.id
    assert_no_password(went_on, tmp_path, url)


def assert_no_password(done: subprocess.CompletedProcess[str], workspace: Path, url: str) -> None:
    """Neither in what was said, nor in a file, nor in a row, nor in what is made of the rows."""
    texts = [done.stdout, done.stderr]
    texts += [path.read_bytes().decode(errors="replace") for path in workspace.rglob("*") if path.is_file()]
    with Store.open(url, workspace=workspace) as store:
        texts += [str(row) for table in METADATA.tables.values() for row in store._read(select(table))]
        (run,) = store.runs()
        assert "--storage" in run.command, "the command is kept, without the password"
    asked = (["history", "--json"], ["report", "-o", str(workspace / "page.html")], ["export", "--json"])
    for words in asked:
        made = in_this_process(*words, "--storage", url, cwd=workspace)
        assert made.returncode == 0, made.stderr
        texts += [made.stdout, made.stderr]
    texts.append((workspace / "page.html").read_text())
    assert [text[:200] for text in texts if PASSWORD in text] == []


def test_clients_that_make_the_tables_at_once_make_them_once(url: str, tmp_path: Path) -> None:
    clients = 8
    together = threading.Barrier(clients)

    def first_run(number: int) -> int:
        together.wait()
        with Store.open(url, workspace=tmp_path / str(number)) as store:
            store.start_run(NEW)
            return len(store._read(select(SCHEMA.c.version)))

    with ThreadPoolExecutor(clients) as pool:
        assert list(pool.map(first_run, range(clients))) == [1] * clients
    with Store.open(url, workspace=tmp_path) as store:
        assert len(store.runs()) == clients


def test_a_machine_of_the_same_name_and_path_does_not_go_on_with_anothers_run(url: str, tmp_path: Path) -> None:
    here = tmp_path / "workspace"
    with Store.open(url, workspace=here) as store:
        run = store.start_run(NEW)
        found = store.unfinished_run("key")
        assert found is not None
        assert found.id == run
    here.rename(tmp_path / "elsewhere")  # what is at its place now is another machine's
    with Store.open(url, workspace=here) as store:
        assert store.unfinished_run("key") is None
        other = store.start_run(NEW)
        found = store.unfinished_run("key")
        assert found is not None
        assert found.id == other


def test_what_one_workspace_timed_is_seen_from_another_and_learned_from(url: str, tmp_path: Path) -> None:
    shape = Shape("contraction", ("f32", "f32", "f32"), {"m": 64, "n": 64, "k": 64})
    problem = {**NEW.problem, "shape": shape.to_json()}
    with Store.open(url, workspace=tmp_path / "one") as store:
        run = store.start_run(replace(NEW, problem=problem))
        store.record_environment(run, {"device_name": "chip"})
        store.record_timing(store.add_candidate(run, ordinal=0, config=CONFIG), Timing((3.0,)), phase="screen", block=0)
    with Store.open(url, workspace=tmp_path / "other") as store:
        assert [row.id for row in store.runs()] == [run]
        assert store.unfinished_run("key") is None
        (known,) = earlier_runs(store, shape, target="cpu", device_name="chip", but="its own")
        assert (known.name, list(known.us)) == (f"gemm_64 ({run})", [3.0])
        assert earlier_runs(store, shape, target="cpu", device_name="another chip", but="its own") == []


# Two coordinators


@pytest.fixture
def start(
    tmp_path: Path, url: str, share_digests: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], subprocess.Popen[str]]:
    """start(shape): with chosen times, each of which takes a while.

    Each has a cache of its own: with one they would wait for each other's device.
    """

    def begun(shape: str) -> subprocess.Popen[str]:
        folder = tmp_path / shape
        share_digests(folder / "cache")
        monkeypatch.setenv("AUTOTUNE_CACHE_DIR", str(folder / "cache"))
        fake = FakeTools(folder / "fake", folder / "labels", rules=[(SPEC, 50.0)])
        fake.slow_down("time")
        words = ("gemm", "--shape", shape, "--dtype", "f32", "--trials", "2", "--budget", "20m", "--json", "--quiet")
        return Cli(fake, folder / "workspace", 1).start(*words, "--storage", url)

    return begun


def ended(running: Sequence[subprocess.Popen[str]]) -> list[str]:
    return [str(one.communicate()) for one in running if one.poll() is not None]


def said(one: subprocess.Popen[str]) -> str:
    out, err = one.communicate(timeout=ENOUGH)
    assert one.returncode == 0, err
    return out


def asking(url: str, workspace: Path) -> set[str]:
    """The runs that have a candidate."""
    with Store.open(url, workspace=workspace) as store:
        return {row.run for row in store._read(select(CANDIDATES.c.run))}


def test_two_coordinators_lose_no_row_and_write_none_twice_when_the_server_restarts(
    server: Server, url: str, tmp_path: Path, start: Callable[[str], subprocess.Popen[str]]
) -> None:
    running = [start(shape) for shape in ("96x64x128", "64x64x128")]
    try:
        assert wait_until(lambda: len(asking(url, tmp_path)) == 2 or bool(ended(running)), seconds=ENOUGH)
        assert not ended(running)
        server.stop()
        moment = datetime.now(UTC)
        server.start()
        results = [json.loads(out) for out in map(said, running)]
    finally:
        for one in running:
            one.kill()
            one.wait()
    with Store.open(url, workspace=tmp_path) as store:
        assert {run.id for run in store.runs()} == {result["run"] for result in results}
        for result in results:
            assert_rows_are_those_of(store, result, after=moment)
        listed = in_this_process("history", "--json", "--storage", url, cwd=tmp_path)
        assert {record["run"] for record in json.loads(listed.stdout)} == {result["run"] for result in results}


def assert_rows_are_those_of(store: Store, result: dict[str, Any], *, after: datetime) -> None:
    """What the coordinator counted is what the database has, and some of it came after the restart."""
    run, counts = store.run(result["run"]), result["counts"]
    assert (run.status, run.result) == ("finished", result)
    candidates = store.candidates(run.id)
    assert [row.ordinal for row in candidates] == list(range(counts["asked"]))
    assert len(store.builds(run.id)) == len({build.candidate for build in store.builds(run.id)})
    timings = store.timings(run.id)
    assert max(timing.time for timing in timings) > after
    seen = Counter((timing.candidate, timing.phase, timing.block) for timing in timings)
    assert set(seen.values()) == {1}
    for candidate, phase in {(timing.candidate, timing.phase) for timing in timings}:
        blocks = [timing.block for timing in timings if (timing.candidate, timing.phase) == (candidate, phase)]
        if phase in ("race", "confirm"):
            assert blocks == list(range(1, len(blocks) + 1)), phase
    assert len(store._read(select(ENVIRONMENT).where(ENVIRONMENT.c.run == run.id))) == 1


def test_a_view_in_the_place_of_a_table_is_refused(url: str, tmp_path: Path) -> None:
    """Somebody who shares the server has put a question without an end there."""
    Store.open(url, workspace=tmp_path).close()
    engine = connect(locate(url, Path()))
    with engine.begin() as connection:
        connection.exec_driver_sql("DROP TABLE timings")
        endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x FROM n) SELECT x FROM n"
        connection.exec_driver_sql(f"CREATE VIEW timings AS {endless}")
    engine.dispose()
    done = in_this_process("history", "--storage", url, cwd=tmp_path)
    assert "holds views or triggers" in complaint(done, 5)
    assert PASSWORD not in done.stderr
