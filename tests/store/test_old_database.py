"""A database that autotune 0.1.0 wrote is opened, upgraded and reported. The rows are of two real runs of that version;
only paths are shortened."""

from __future__ import annotations

import json
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from autotuner import load_results
from autotuner.build import Isa
from autotuner.store.exports import export_records
from autotuner.store.rows import VERSION, BuildRow, NewRun
from autotuner.store.store import Store
from tests.support.command_line import in_this_process

DUMP = Path(__file__).parent / "autotune-0.1.0.sql"
TIMED, COMPILED = "20261116-065151-7a6f55", "20261116-065318-0dd9af"


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "results").mkdir()
    connection = sqlite3.connect(tmp_path / "results" / "autotune.db")
    connection.executescript(DUMP.read_text())
    assert connection.execute("SELECT version FROM autotune_schema").fetchall() == [(1,)]
    connection.close()
    return tmp_path


def test_it_is_upgraded_once_and_keeps_its_rows(workspace: Path) -> None:
    for _ in range(2):
        with Store.open(None, workspace=workspace, create=False) as store:
            assert [(run.id, run.kind, run.status) for run in store.runs()] == [
                (COMPILED, "single", "finished"),
                (TIMED, "single", "finished"),
            ]
            assert [len(store.candidates(run)) for run in (TIMED, COMPILED)] == [7, 3]
            assert len(store.timings(TIMED)) == 15
            assert store.timings(TIMED)[0].conditions is None
            assert store.builds(TIMED)[0].isa == Isa()
            assert store.environment(TIMED)["autotune"] == "0.1.0"
    connection = sqlite3.connect(workspace / "results" / "autotune.db")
    assert connection.execute("SELECT version FROM autotune_schema").fetchall() == [(VERSION,)]
    connection.close()


def test_kinds_of_runs_are_told_by_what_they_were_about(workspace: Path) -> None:
    """That version had no column for them."""
    connection = sqlite3.connect(workspace / "results" / "autotune.db")
    values = ((json.dumps({"op": "model"}), TIMED), (json.dumps({"verdict": "win", "arms": [{"name": "a"}]}), COMPILED))
    connection.execute("UPDATE runs SET problem = ? WHERE id = ?", values[0])
    connection.execute("UPDATE runs SET result = ? WHERE id = ?", values[1])
    connection.commit()
    connection.close()
    with Store.open(None, workspace=workspace) as store:
        assert [(run.kind, run.parent) for run in store.runs()] == [("ab", None), ("model", None)]
        candidate = store.candidates(TIMED)[0].id
        store.record_build(BuildRow(candidate, 1.0, False, "x", 1, (), "", Isa(vgpr=3)))
        assert store.isa(TIMED) == {candidate: Isa(vgpr=3)}
        part = store.start_run(NewRun("single", "key", (), {}, "cpu", "local-task", 0, parent=TIMED))
        assert [run.id for run in store.parts(TIMED)] == [part]


def test_two_programs_may_upgrade_it_at_once(workspace: Path) -> None:
    def open_and_read(_: int) -> int:
        with Store.open(None, workspace=workspace) as store:
            return len(export_records(store))

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(open_and_read, range(8))) == [7] * 8


def test_its_runs_and_candidates_are_reported(workspace: Path) -> None:
    listed = in_this_process("history", cwd=workspace)
    assert listed.returncode == 0, listed.stderr
    assert [line.split()[0] for line in listed.stdout.splitlines()] == ["run", COMPILED, TIMED]
    assert "compile-only" in listed.stdout.splitlines()[1]
    assert "gemm_64x64x64_f32_f32_nn" in listed.stdout.splitlines()[2]
    assert "global-data-tiling+ukernels" in in_this_process("history", TIMED, cwd=workspace).stdout
    (record,) = json.loads(in_this_process("history", "--shape", "64x64x64", "--json", cwd=workspace).stdout)
    assert record["run"] == TIMED
    done = in_this_process("report", "-o", "page.html", cwd=workspace)
    assert done.returncode == 0, done.stderr
    page = (workspace / "page.html").read_text()
    assert all(text in page for text in (TIMED, COMPILED, "gemm_64x64x64_f32_f32_nn", "compile-only"))


def test_its_timings_are_exported_and_loaded(workspace: Path) -> None:
    exported = json.loads(in_this_process("export", "--json", cwd=workspace).stdout)
    assert [record["run"] for record in exported] == [TIMED] * 7
    frame = load_results(workspace)
    assert len(frame) == 7
    assert frame["us"].min() == pytest.approx(24.0355, rel=1e-4)


def test_where_nothing_may_be_written_a_copy_is_upgraded_and_read(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("autotuner.store.reader.may_be_written", lambda _: False)
    file = workspace / "results" / "autotune.db"
    before = file.read_bytes()
    assert len(load_results(workspace)) == 7
    done = in_this_process("history", "20200101-000000-000000", cwd=workspace)
    assert "results/autotune.db" in done.stderr, "messages name the file itself"
    assert file.read_bytes() == before
    assert [one.name for one in file.parent.iterdir()] == [file.name]
