"""Runs by filter, and those that were killed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, event, update

from autotuner.cli.results import parse_since
from autotuner.errors import UsageError
from autotuner.report.history import history_records
from autotuner.space import Config
from autotuner.store.reader import RunFilter
from autotuner.store.rows import RUNS, NewRun
from autotuner.store.store import Store
from autotuner.system.locks import workspace_lock
from tests.support.command_line import complaint, in_this_process
from tests.support.stored_runs import a_search

DAY = datetime(2026, 11, 1, 12, tzinfo=UTC)


def tuned(
    store: Store,
    name: str = "gemm_512x512x1024_f32_f32_nn",
    *,
    day: int = 0,
    verdict: str | None = "win",
    parent: str | None = None,
    target: str = "cpu",
) -> str:
    """A run of this problem, so many days after the first."""
    op = name.partition("_")[0]
    problem = {"op": op, "name": name}
    new = NewRun("single", name, ["autotune", op], problem, target, "local-task", 0, parent)
    run = store.start_run(new)
    result = {"verdict": verdict, "baseline": {"us": 100.0}, "best": None, "speedup": None}
    store.finish_run(run, "finished" if verdict else "interrupted", result=result if verdict else None)
    started = (DAY + timedelta(days=day)).isoformat(timespec="microseconds")
    store.write(lambda connection: connection.execute(update(RUNS).where(RUNS.c.id == run).values(started=started)))
    return run


def found(store: Store, **words: Any) -> list[str]:
    return [record["run"] for record in history_records(store, None, which=RunFilter(**words))]


def test_a_suites_first_looks_at_defaults_are_not_counted_as_its_page_does_not(store: Store) -> None:
    suite = store.start_run(NewRun("suite", "s", ["autotune", "suite"], {"name": "s"}, "cpu", "local-task", 0))
    look = store.add_candidate(suite, ordinal=0, config=Config.of({"problem": "gemm_8x8x8_f32_f32_nn"}), kind="default")
    store.set_us(look, 12.0)
    (record,) = history_records(store, None)
    assert (record["asked"], record["timed"], record["failed"]) == (0, 0, 0)


def test_each_filter_keeps_the_runs_that_have_it(store: Store) -> None:
    gemm = tuned(store)
    conv = tuned(store, "conv_1x56x56x64_3x3x64_f32_nhwc", day=1, target="sm_80")
    lost = tuned(store, day=2, verdict="no-winner")
    cut = tuned(store, day=3, verdict=None)
    assert found(store) == [cut, lost, conv, gemm]
    assert found(store, op="conv") == [conv]
    assert found(store, shape="512x512x1024") == [cut, lost, gemm]
    assert found(store, shape="3x3x64") == found(store, shape="1x56x56x64") == [conv]
    assert found(store, target="sm_80") == [conv]
    assert found(store, since=DAY + timedelta(days=1)) == [cut, lost, conv]
    assert found(store, op="gemm", since=DAY + timedelta(days=1)) == [cut, lost]


@pytest.mark.parametrize("shape", ["12x512x1024", "512x512x102", "512x512", "512"])
def test_a_shape_is_found_whole_or_not_at_all(store: Store, shape: str) -> None:
    tuned(store)
    assert found(store, shape=shape) == []


@pytest.mark.parametrize("piece", ["%", "_", "\\"])
def test_signs_of_a_pattern_are_letters_like_others(store: Store, piece: str) -> None:
    tuned(store)
    assert found(store, shape=piece) == []


def test_a_problem_is_also_found_as_a_part_of_a_suite(store: Store) -> None:
    suite = tuned(store, "suite_all")
    part = tuned(store, day=1, parent=suite)
    assert found(store) == [suite]
    assert found(store, op="gemm") == found(store, shape="512x512x1024") == [part]
    assert found(store, target="cpu") == [suite]


@contextmanager
def statements() -> Iterator[list[str]]:
    said: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_more: object) -> None:
        said.append(statement)

    event.listen(Engine, "before_cursor_execute", note)
    try:
        yield said
    finally:
        event.remove(Engine, "before_cursor_execute", note)


def test_more_runs_are_not_more_questions(store: Store) -> None:
    def asked() -> int:
        with statements() as said:
            history_records(store, None)
        return len(said)

    suite = tuned(store, "suite_all", verdict=None)
    tuned(store, parent=suite)
    tuned(store, verdict=None)
    few = asked()
    for _ in range(5):
        tuned(store, parent=suite)
        tuned(store, verdict=None)
    assert asked() == few


def test_parts_that_are_parts_of_each_other_are_listed_once(store: Store) -> None:
    one = tuned(store)
    two = tuned(store, parent=one)
    store.write(lambda connection: connection.execute(update(RUNS).where(RUNS.c.id == one).values(parent=two)))
    for record in history_records(store, None, which=RunFilter(op="gemm")):
        (part,) = record["runs"]
        assert part["runs"] == []


def test_the_command_says_when_nothing_is_like_that(store: Store, tmp_path: Path) -> None:
    tuned(store)
    nothing = in_this_process("history", "--op", "conv", cwd=tmp_path)
    assert (nothing.returncode, nothing.stdout) == (0, "no run is like that; `autotune history` lists them all\n")
    assert in_this_process("history", "--op", "conv", "--json", cwd=tmp_path).stdout == "[]\n"


@pytest.mark.parametrize("words", [("--since", "yesterday"), ("--since", "99999w99"), ("--limit", "0")])
def test_words_that_cannot_be_meant_are_refused(store: Store, tmp_path: Path, words: tuple[str, str]) -> None:
    tuned(store)
    assert words[0] in complaint(in_this_process("history", *words, cwd=tmp_path), 2)


def test_filters_have_no_meaning_where_a_run_is_named(store: Store, tmp_path: Path) -> None:
    run = tuned(store)
    assert "--op chooses among runs" in complaint(in_this_process("history", run, "--op", "gemm", cwd=tmp_path), 2)


def test_a_date_is_read_as_written_or_as_so_long_ago() -> None:
    assert parse_since("7d", now=DAY) == DAY - timedelta(days=7)
    assert parse_since(" 90M", now=DAY) == DAY - timedelta(minutes=90)
    assert parse_since("2026-11-01T12:00+00:00") == DAY
    assert parse_since("2026-11-01").date() == DAY.date()
    with pytest.raises(UsageError, match="Write 2026-11-01"):
        parse_since("soon")


def test_a_run_that_was_killed_does_not_pass_for_one_that_goes_on(tmp_path: Path) -> None:
    with Store.open(None, workspace=tmp_path) as store:
        run = a_search(store, finished=False)
    with workspace_lock(tmp_path), Store.open(None, workspace=tmp_path, create=False) as store:
        assert store.run(run).status == "running", "somebody works here"
    with Store.open(None, workspace=tmp_path, create=False) as store:
        assert store.run(run).status == "interrupted"
    assert "interrupted" in in_this_process("history", cwd=tmp_path).stdout


def test_runs_of_another_workspace_are_left_alone(tmp_path: Path) -> None:
    """In a shared database nobody knows whether another's run goes on."""
    url = f"sqlite:///{tmp_path / 'shared.db'}"
    with Store.open(url, workspace=tmp_path / "a") as store:
        run = a_search(store, finished=False)
    with Store.open(url, workspace=tmp_path / "b", create=False) as store:
        assert store.run(run).status == "running"
    with Store.open(url, workspace=tmp_path / "a", create=False) as store:
        assert store.run(run).status == "interrupted"
