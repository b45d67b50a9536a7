"""PostgreSQL: a server that stays away, clients that share a database."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import select, update

from autotuner.devices.device import Timing
from autotuner.errors import StorageError
from autotuner.search.history import Shape
from autotuner.space.table import Config
from autotuner.store.database import connect, locate
from autotuner.store.rows import METADATA, RUNS, SCHEMA, NewRun
from autotuner.store.store import Store
from autotuner.tuning.earlier import earlier_runs
from tests.store.postgresql import PASSWORD, Server, own_server
from tests.support.command_line import GEMM, complaint, in_this_process

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


@pytest.mark.long
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
    assert "What was written is kept: the same command with --resume goes on when it answers." in line
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


@pytest.fixture
def trap(tmp_path: Path) -> str:
    return f"'); DROP TABLE runs; -- $(touch {tmp_path}/owned) `touch {tmp_path}/owned` <script>x</script> ../../../x"


def test_words_of_strangers_are_values_and_never_sql(url: str, tmp_path: Path, trap: str) -> None:
    problem = {**NEW.problem, "name": trap, "op": trap}
    with Store.open(url, workspace=tmp_path) as store:
        run = store.start_run(replace(NEW, key=trap, problem=problem, target=trap, command=["autotune", trap]))
        row = store.add_candidate(run, ordinal=0, config=Config.of({"tile": trap}), route=trap)
        store.record_failure(row, "compile-error", stderr=trap)
        assert store.unfinished_run(trap) is not None
    for words in (
        ["history", "--op", trap],
        ["history", "--target", trap, "--json"],
        ["export", "--json", "--run", trap],
    ):
        assert in_this_process(*words, "--storage", url, cwd=tmp_path).returncode in (0, 2)
    page = in_this_process("report", "-o", "page.html", "--storage", url, cwd=tmp_path)
    assert page.returncode == 0, page.stderr
    assert "<script>x</script>" not in (tmp_path / "page.html").read_text()
    assert not (tmp_path / "owned").exists()
    with Store.open(url, workspace=tmp_path) as store:
        assert [one.problem["name"] for one in store.runs()] == [trap]


@pytest.mark.parametrize("column", ["problem", "result", "command", "started", "status", "workspace"])
def test_a_teams_database_with_broken_rows_ends_no_command_in_a_traceback(
    url: str, tmp_path: Path, column: str
) -> None:
    """Whoever writes to the database may write anything: a command says so, or goes on without."""
    with Store.open(url, workspace=tmp_path) as store:
        store.start_run(NEW)
        garbage: object = "no time" if column in ("started", "status", "workspace") else [1, {"name": None}]
        with store._engine.begin() as connection:
            connection.execute(update(RUNS).values({column: garbage}))
    for words in (["history"], ["history", "--json"], ["export", "--json"], ["report", "-o", "page.html"]):
        done = in_this_process(*words, "--storage", url, cwd=tmp_path)
        assert done.returncode in (0, 2, 5), done.stderr
        assert "Traceback" not in done.stderr
