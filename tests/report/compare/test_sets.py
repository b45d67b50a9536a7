"""A run, a workspace, a database and both exports of it hold the same figures."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from autotuner.devices.conditions import Conditions
from autotuner.devices.device import Timing
from autotuner.report.compare import compare, open_set
from autotuner.space.table import Config
from autotuner.store.exports import export_records
from autotuner.store.figures import Figure
from autotuner.store.rows import NewRun, RunKind
from autotuner.store.store import Store
from tests.support.command_line import complaint, in_this_process

ENVIRONMENT = {"iree": "3.13.0", "device_name": "chip", "cores": 2, "load": 3.0}
BLOCKS = 8


def a_run(
    store: Store, *, name: str = "gemm_a", kind: RunKind = "single", parent: str | None = None, factor: float = 1.0
) -> str:
    """A baseline that was screened, raced and confirmed, and a candidate that is faster; of a suite its parts."""
    problem = {"op": "model" if kind == "model" else "gemm", "name": name}
    run = store.start_run(NewRun(kind, name, ["autotune"], problem, "cpu", "local-task", 0, parent))
    store.record_environment(run, ENVIRONMENT)
    if kind == "suite":
        row = store.add_candidate(run, ordinal=0, config=Config.of({"problem": "gemm_small"}), kind="default")
        store.record_timing(row, Timing((7.0,)), phase="screen", block=0)
        failed = store.add_candidate(run, ordinal=1, config=Config.of({"problem": "gemm_bad"}), kind="default")
        store.record_failure(failed, "environment", stderr="no device")
        store.finish_run(run, "finished", result={"verdict": "win", "timing": {"state": "sustained"}})
        return run
    baseline = store.add_candidate(run, ordinal=0, config=Config(()), kind="baseline", route="plain")
    fast = store.add_candidate(run, ordinal=1, config=Config.of({"tile": 8, "peel": -1}), route="plain")
    if kind == "ab":  # a kernel and its variants, of which the last won
        variant = store.add_candidate(run, ordinal=2, config=Config.of({"kernel": "mine"}), kind="microkernel")
        best = store.add_candidate(run, ordinal=3, config=Config.of({"kernel": "mine", "mr": 4}), kind="microkernel")
        for row, us in ((baseline, 10.0), (variant, 9.0), (best, 8.0)):
            store.record_timing(row, Timing((us,), conditions=Conditions("sustained")), phase="race", block=0)
        store.finish_run(run, "finished", result={"verdict": "win", "best": {"us": 8.0, "candidate": "c0003"}})
        return run
    for row, us in ((baseline, 20.0 * factor), (fast, 10.0 * factor)):
        warm, fresh = Conditions("sustained"), Conditions("process")
        store.record_timing(row, Timing((5 * us,), conditions=warm), phase="screen", block=0)
        for block in range(BLOCKS):
            noisy = us * (1 + 0.001 * (block % 3 - 1))
            store.record_timing(row, Timing((noisy, noisy, 9 * us), conditions=warm), phase="race", block=block)
            store.record_timing(row, Timing((noisy * 1.1,), conditions=fresh), phase="confirm", block=block)
        cold = Conditions("sustained", cache="cold")
        store.record_timing(row, Timing((2 * us,), conditions=cold), phase="cold", block=0)
    won = {"us": 10.0 * factor, "config": {"tile": 8}, "route": "plain", "candidate": "c0001"}
    if kind == "model":
        del won["candidate"]
    store.finish_run(run, "finished", result={"verdict": "win", "baseline": {"us": 20.0}, "best": won})
    return run


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(None, workspace=tmp_path / "w") as opened:
        yield opened


def sorted_figures(figures: tuple[Figure, ...]) -> list[tuple[object, ...]]:
    return sorted((f.key, f.conditions, f.us, f.interval, f.blocks, f.spread, f.run) for f in figures)


def test_figures_are_medians_over_blocks_with_intervals_by_state(store: Store, tmp_path: Path) -> None:
    a_run(store)
    found = {(f.kernel, f.place): f for f in open_set(str(tmp_path / "w")).found.figures}
    assert found.keys() == {
        (k, p) for k in ("default", "best") for p in ("sustained/warm", "process/warm", "sustained/cold")
    }
    raced = found["default", "sustained/warm"]
    assert raced.us == pytest.approx(20.0)
    assert raced.blocks == BLOCKS
    assert raced.interval == pytest.approx((19.98, 20.02), abs=0.01)
    assert raced.device == "chip, 2 cores"
    assert found["best", "process/warm"].us == pytest.approx(11.0)
    cold = found["best", "sustained/cold"]
    assert (cold.us, cold.interval) == (20.0, None)


def test_every_form_of_a_set_holds_the_same_figures(store: Store, tmp_path: Path) -> None:
    suite = a_run(store, name="shapes", kind="suite")
    part = a_run(store, parent=suite)
    model = a_run(store, name="resnet", kind="model")
    a_run(store, name="dispatch_0", parent=model)
    a_run(store, name="gemm_b", kind="ab")
    export = tmp_path / "e.json"
    export.write_text(json.dumps(export_records(store)), encoding="utf-8-sig")  # as other programs save it
    database = tmp_path / "w" / "results" / "autotune.db"
    forms = [str(tmp_path / "w"), str(database), f"sqlite:///{database}", str(export)]
    sets = [open_set(word) for word in forms]
    first = sorted_figures(sets[0].found.figures)
    assert {f.problem for f in sets[0].found.figures} == {"gemm_small", "gemm_a", "gemm_b", "resnet"}
    assert [f.us for f in sets[0].found.figures if (f.problem, f.kernel) == ("gemm_b", "mine")] == [8.0]
    for one in sets[1:]:
        assert sorted_figures(one.found.figures) == first
    assert len(first) == 15
    assert [f.reason for f in sets[0].found.failures] == ["no device"]
    of_run = open_set(suite, workspace=tmp_path / "w")
    assert {f.problem for f in of_run.found.figures} == {"gemm_small", "gemm_a"}
    assert {f.run for f in of_run.found.figures} == {suite, part}
    for other in sets[1:]:
        found = compare(sets[0], other)
        assert found.differing == [], other.name
        assert {row.verdict for row in found.rows} == {"same"}, "one and the same timings, however few"


@pytest.mark.parametrize(("name", "text"), [("a.json", "{}"), ("a.csv", "x,y\n1,2\n"), ("a.db", "hello")])
def test_what_is_no_set_is_one_line(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    complaint(in_this_process("compare", name, name, cwd=tmp_path), 2)


def test_a_regression_is_exit_6_only_where_that_is_asked_for(store: Store, tmp_path: Path) -> None:
    a_run(store)
    with Store.open(None, workspace=tmp_path / "slow") as slow:
        a_run(slow, factor=1.03)
    done = in_this_process("compare", "w", "slow", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    warm = {(row["kernel"], row["state"]): row["verdict"] for row in data["rows"] if row["cache"] == "warm"}
    assert warm.keys() == {(kernel, state) for kernel in ("default", "best") for state in ("process", "sustained")}
    assert {*warm.values()} == {"regression"}
    failing = in_this_process("compare", "w", "slow", "--fail-on-regression", cwd=tmp_path)
    assert failing.returncode == 6, failing.stderr
    assert failing.stdout.startswith("verdict  regression: 4 regression, 2 unclear")
    assert "gemm_a" in failing.stdout
    better = in_this_process("compare", "slow", "w", "--fail-on-regression", "--markdown", cwd=tmp_path)
    assert better.returncode == 0, better.stderr
    assert "improvement" in better.stdout


def test_a_check_that_has_nothing_to_compare_does_not_pass(store: Store, tmp_path: Path) -> None:
    a_run(store)
    with Store.open(None, workspace=tmp_path / "other") as other:
        a_run(other, name="gemm_b")
    assert in_this_process("compare", "w", "other", cwd=tmp_path).returncode == 0
    done = in_this_process("compare", "w", "other", "--fail-on-regression", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout.startswith("verdict  nothing could be compared: ")
    assert "nothing is known of regressions" in done.stderr


@pytest.mark.parametrize("words", [("--json", "--markdown"), ("--threshold", "-1")])
def test_options_that_cannot_be_meant_are_refused(store: Store, tmp_path: Path, words: tuple[str, ...]) -> None:
    a_run(store)
    complaint(in_this_process("compare", "w", "w", *words, cwd=tmp_path), 2)
