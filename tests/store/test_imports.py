"""Rows of another store by way of a file: whole, once, and nothing but rows."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from autotuner.errors import UsageError
from autotuner.report.history import history_records
from autotuner.store.exports import export_records
from autotuner.store.figures import measurements
from autotuner.store.imports import Imported, Record, import_file
from autotuner.store.store import Store
from autotuner.system.fields import read
from tests.support.command_line import complaint, in_this_process
from tests.support.won_run import won_run


@pytest.fixture
def there(tmp_path: Path) -> Iterator[Store]:
    with Store.open(None, workspace=tmp_path / "there") as opened:
        yield opened


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Store]:
    with Store.open(None, workspace=tmp_path / "here") as opened:
        yield opened


def written(store: Store, folder: Path) -> Path:
    file = folder / "e.json"
    file.write_text(json.dumps(export_records(store)))
    return file


def contents(store: Store) -> list[dict[str, Any]]:
    """In the order of their names: exports tell the second in which a run began, and two may begin in one."""
    return sorted(export_records(store), key=lambda one: (one["run"], one["ordinal"]))


def test_what_is_imported_is_what_was_exported_and_comes_once(there: Store, here: Store, tmp_path: Path) -> None:
    whole = won_run(there, name="suite_all")
    won_run(there, parent=whole)
    file = written(there, tmp_path)
    assert import_file(here, file) == Imported(runs=2, candidates=6, known=0)
    assert contents(here) == contents(there)
    assert {*measurements(here).figures} == {*measurements(there).figures}
    before = export_records(here)
    assert import_file(here, file) == Imported(runs=0, candidates=0, known=2)
    assert export_records(here) == before


def test_an_imported_run_is_in_the_history_with_its_verdict(there: Store, here: Store, tmp_path: Path) -> None:
    run = won_run(there)
    import_file(here, written(there, tmp_path))
    (record,) = history_records(here)
    assert (record["run"], record["verdict"], record["baseline_us"], record["best_us"]) == (run, "win", 20.0, 10.0)
    assert record["speedup"] == {"median": 2.0, "low": 1.9, "high": 2.1, "confidence": 0.95}
    assert record["command"] == ["autotune", "import", "e.json"]
    assert record["spec"] is None


def test_a_run_that_was_measured_here_is_not_changed(there: Store, tmp_path: Path) -> None:
    won_run(there)
    before = export_records(there)
    forged = [{**before[0], "us": 0.001}, {**before[0], "ordinal": 99, "us": 0.001}]
    (tmp_path / "forged.json").write_text(json.dumps(forged))
    assert import_file(there, tmp_path / "forged.json") == Imported(0, 0, 1)
    assert export_records(there) == before


def test_what_is_imported_is_neither_continued_nor_learned_from(there: Store, here: Store, tmp_path: Path) -> None:
    won_run(there)
    import_file(here, written(there, tmp_path))
    (run,) = here.runs()
    assert here.finished_run("a-b") is None
    assert "shape" not in run.problem


def test_a_part_whose_whole_is_nowhere_is_a_run_of_its_own(there: Store, here: Store, tmp_path: Path) -> None:
    whole = won_run(there)
    part = won_run(there, parent=whole)
    records = [one for one in export_records(there) if one["run"] == part]
    (tmp_path / "part.json").write_text(json.dumps(records))
    import_file(here, tmp_path / "part.json")
    assert [(run.id, run.parent) for run in here.runs(top=True)] == [(part, None)]


def test_an_export_of_a_version_without_timings_is_taken_as_far_as_it_goes(
    there: Store, here: Store, tmp_path: Path
) -> None:
    won_run(there)
    new = ("run_facts", "timings", "figures", "kernel", "best", "environment")
    old = [{name: value for name, value in one.items() if name not in new} for one in export_records(there)]
    (tmp_path / "old.json").write_text(json.dumps(old))
    import_file(here, tmp_path / "old.json")
    assert [record["us"] for record in export_records(here)] == [20.0, 10.0, 12.0]


# Strangers


NAMES = {"run": "../../etc", "parent": "x", "kind": "virus", "started": "soon", "ordinal": -1, "us": 0}
WRONG = [
    *({name: value} for name, value in NAMES.items()),
    *({"us": value} for value in (True, "3", None, [1.0], float("inf"))),
    *({"ordinal": value} for value in (2**40, 1.5, "1")),
    *({"problem": value} for value in ("a\x1b[31m", "a\nb", 5, {"a": 1})),
    *({"config": value} for value in ([1], {"a": {"b": 1}}, {"a\0": 1})),
    {"environment": {"iree": ["a"]}},
    {"isa": {"registers": {}}},
    {"run_facts": {"status": "won"}},
    {"run_facts": {"verdict": "<b>win</b>"}},
    {"run_facts": {"verdict": 1}},
    {"run_facts": {"kind": "x"}},
    *({"timings": value} for value in ("x", [1], [{"phase": "race"}], {"us": 1})),
    {"timings": [{"phase": "race", "block": 0, "us": [-1.0], "time": "2026-01-01"}]},
    {"timings": [{"phase": "race", "block": 0, "us": [1.0], "time": "2026-01-01", "conditions": {"state": "x"}}]},
]


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    with Store.open(None, workspace=tmp_path_factory.mktemp("records")) as store:
        won_run(store)
        return export_records(store)


@pytest.mark.parametrize("fields", WRONG, ids=lambda fields: json.dumps(fields)[:40])
def test_a_record_that_cannot_be_is_refused(records: list[dict[str, Any]], fields: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as failure:
        read(Record, {**records[1], **fields}, "it")
    assert len(str(failure.value)) < 300


@pytest.mark.parametrize("missing", ["run", "ordinal", "us", "started", "problem", "op", "target", "device", "kind"])
def test_a_record_without_a_field_that_it_needs_is_refused(records: list[dict[str, Any]], missing: str) -> None:
    with pytest.raises(UsageError, match=f"it: {missing} is not "):
        read(Record, {name: value for name, value in records[1].items() if name != missing}, "it")


def test_nothing_is_written_of_a_file_with_a_bad_record(
    records: list[dict[str, Any]], here: Store, tmp_path: Path
) -> None:
    (tmp_path / "bad.json").write_text(json.dumps([records[0], {**records[1], "us": -1}]))
    with pytest.raises(UsageError, match=r"bad\.json, record 2: us is not a number .* Nothing was imported"):
        import_file(here, tmp_path / "bad.json")
    (tmp_path / "bad.json").write_text(json.dumps([records[0], {"run": records[0]["run"]}]))
    with pytest.raises(UsageError, match=r"bad\.json, record 2: started is not a line of text"):
        import_file(here, tmp_path / "bad.json")
    assert here.runs() == []


FILES = {
    "a.json": b"{",
    "b.json": b"[1]",
    "c.json": b"[]",
    "d.json": b"[" * 100_000,
    "e.json": b'[{"us": NaN}]',
    "f.json": b"\xff\xfe",
    "a.csv": b"run,us\n1,2\n",
    "a.db": b"SQLite format 3\0",
    "none.json": None,
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_no_export_is_refused_in_one_line(tmp_path: Path, name: str) -> None:
    content = FILES[name]
    if content is not None:
        (tmp_path / name).write_bytes(content)
    said = complaint(in_this_process("import", name, cwd=tmp_path), 2)
    assert name in said


def test_a_pipe_is_refused_and_not_waited_for(here: Store, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    with pytest.raises(UsageError, match="is a pipe"):
        import_file(here, tmp_path / "pipe.json")


def test_a_hostile_file_leaves_nothing_but_rows(there: Store, tmp_path: Path) -> None:
    """Paths, commands and SQL in every field that is text: nothing is opened, run or dropped."""
    won_run(there)
    trap = f"'); DROP TABLE runs; -- $(touch {tmp_path}/owned) `touch {tmp_path}/owned` ../../../x"
    records = [
        {**one, "problem": trap, "op": trap, "target": trap, "device": trap, "route": trap, "spec": f"{tmp_path}/owned"}
        for one in export_records(there)
    ]
    (tmp_path / "trap.json").write_text(json.dumps(records))
    work = tmp_path / "work"
    work.mkdir()
    for words in (["import", "../trap.json"], ["history"], ["export", "--csv"]):
        done = in_this_process(*words, cwd=work)
        assert done.returncode == 0, done.stderr
    assert not (tmp_path / "owned").exists()
    written = {path.name for path in work.rglob("*") if path.is_file()}
    assert written <= {"autotune.db", "autotune.db-wal", "autotune.db-shm"}
    connection = sqlite3.connect(work / "results" / "autotune.db")
    assert connection.execute("SELECT count(*) FROM runs").fetchall() == [(1,)]
    assert connection.execute("SELECT DISTINCT spec FROM candidates").fetchall() == [("",)]
    connection.close()


def test_the_command_says_what_it_brought(there: Store, tmp_path: Path) -> None:
    won_run(there)
    written(there, tmp_path)
    work = tmp_path / "work"
    work.mkdir()
    assert in_this_process("import", "../e.json", cwd=work).stdout == "imported 1 run with 3 candidates\n"
    again = in_this_process("import", "../e.json", "../e.json", "--json", cwd=work)
    assert json.loads(again.stdout) == {"runs": 0, "candidates": 0, "known": 2}
