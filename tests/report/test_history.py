"""Lists of runs, and those that were killed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from sqlalchemy import Engine, event, update

from autotuner.report.history import history_records, run_records
from autotuner.space import Config
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


def test_a_suites_first_looks_at_defaults_are_not_counted_as_its_page_does_not(store: Store) -> None:
    suite = store.start_run(NewRun("suite", "s", ["autotune", "suite"], {"name": "s"}, "cpu", "local-task", 0))
    look = store.add_candidate(suite, ordinal=0, config=Config.of({"problem": "gemm_8x8x8_f32_f32_nn"}), kind="default")
    store.set_us(look, 12.0)
    (record,) = history_records(store, None)
    assert (record["asked"], record["timed"], record["failed"]) == (0, 0, 0)


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
    for record in run_records(store, store.runs()):
        (part,) = record["runs"]
        assert part["runs"] == []


def test_a_limit_is_positive_and_has_no_meaning_where_a_run_is_named(store: Store, tmp_path: Path) -> None:
    run = tuned(store)
    assert "--limit 0" in complaint(in_this_process("history", "--limit", "0", cwd=tmp_path), 2)
    assert "--limit chooses among runs" in complaint(in_this_process("history", run, "--limit", "1", cwd=tmp_path), 2)


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
