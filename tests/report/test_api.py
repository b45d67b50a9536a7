"""The package as a library: a result that agrees with what was stored."""

from __future__ import annotations

import ast
import dataclasses
import inspect
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import autotuner
from autotuner import AutotuneError, Gemm, Options, Result, Target, load_results, tune
from autotuner.store.store import Store
from autotuner.system.progress import Progress
from autotuner.tuning.options import Effort
from tests.support.fake_tools import ONE_ROUTE, PROBLEM, SPEC, FakeTools
from tests.support.spec_files import FRAME

QUICK = Effort(trials=2, budget=600.0, compile_only_trials=2, race_entrants=2)


class Watcher:
    """Remembers what a run tells."""

    def __init__(self) -> None:
        self.stages: list[str] = []
        self.progresses: list[Progress] = []
        self.notes: list[str] = []

    def stage(self, text: str) -> None:
        self.stages.append(text)

    def progress(self, now: Progress) -> None:
        self.progresses.append(now)

    def note(self, text: str) -> None:
        self.notes.append(text)


@pytest.fixture(scope="module")
def watcher() -> Watcher:
    return Watcher()


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("api")


@pytest.fixture(scope="module")
def result(workspace: Path, watcher: Watcher, warm: Path) -> Result:
    """Compiler and check are real; the times are given."""
    fake = FakeTools(workspace / "fake", warm / "labels", rules=[(SPEC, 50.0)])
    options = Options(effort=QUICK, workspace=workspace, microkernels=())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AUTOTUNE_CACHE_DIR", str(warm / "cache"))
        return tune(PROBLEM, ONE_ROUTE, options=options, reporter=watcher, tools=fake.tools)


def test_tune_gives_a_result_that_is_in_the_store(result: Result, workspace: Path) -> None:
    assert isinstance(result, Result)
    assert result.verdict == "win"
    assert result.workspace == workspace
    with Store.open(None, workspace=workspace, create=False) as store:
        row = store.run(result.run)
        rows = store.candidates(result.run)
    assert row.result == result.to_json()
    assert row.status == "finished"
    assert result.counts.asked == len(rows)


def test_the_frame_of_a_result_has_its_timed_candidates(result: Result, workspace: Path) -> None:
    frame = load_results(workspace, run=result.run)
    with Store.open(None, workspace=workspace, create=False) as store:
        timed = {row.ordinal: row for row in store.candidates(result.run) if row.us is not None}
    assert len(frame) == result.counts.timed == len(timed)
    assert set(frame["run"]) == {result.run}
    assert dict(zip(frame["ordinal"], frame["us"], strict=True)) == {o: row.us for o, row in timed.items()}
    assert (frame["kind"] == "baseline").sum() == 1
    assert frame.loc[frame["kind"] == "baseline", "speedup"].tolist() == [1.0]


def test_load_results_reads_the_same(result: Result, workspace: Path) -> None:
    one = load_results(workspace, run=result.run)
    url = f"sqlite:///{workspace}/results/autotune.db"
    for same in (load_results(str(workspace)), load_results(storage=url)):
        pd.testing.assert_frame_equal(same, one)


def test_a_watcher_is_told_of_stages_and_progress(result: Result, watcher: Watcher) -> None:
    assert "timing IREE's default" in watcher.stages
    assert any("searching" in stage for stage in watcher.stages)
    last = watcher.progresses[-1]
    assert last.asked == 2
    assert last.built == result.counts.built
    assert last.baseline_us is not None
    assert tuple(watcher.notes) == result.notes


def test_results_that_are_not_there_are_an_error_of_ours(tmp_path: Path) -> None:
    with pytest.raises(AutotuneError, match="there are no results yet"):
        load_results(tmp_path)
    assert not any(tmp_path.iterdir())


def test_what_options_want_is_public() -> None:
    given = Options(
        effort=autotuner.parse_effort("quick"),
        microkernels=[autotuner.Kernel("auto")],
        cluster=autotuner.Scheduler("tcp://127.0.0.1:8786"),
        budget=np.float64(5.0),
        seed=np.int64(3),  # type: ignore[arg-type]
    )
    assert (given.budget, given.seed) == (5.0, 3)


@pytest.mark.parametrize("bad", [{"trials": 0}, {"jobs": -1}, {"seed": -1}, {"keep": ("some",)}, {"budget": -5.0}])
def test_options_are_checked_when_they_are_made(bad: dict[str, object]) -> None:
    with pytest.raises(AutotuneError) as failure:
        Options(**bad)  # type: ignore[arg-type]
    assert failure.value.exit_code == 2


def test_every_field_of_the_options_is_documented() -> None:
    """The text that follows a field stands for it in an editor."""
    (body,) = [one.body for one in ast.walk(ast.parse(inspect.getsource(Options))) if isinstance(one, ast.ClassDef)]
    fields = [number for number, one in enumerate(body) if isinstance(one, ast.AnnAssign)]
    assert len(fields) == len(dataclasses.fields(Options))
    for number in fields:
        text = body[number + 1]
        assert isinstance(text, ast.Expr), ast.unparse(body[number])
        assert isinstance(text.value, ast.Constant)


def test_specs_are_shown_merged_and_checked_from_python(tmp_path: Path) -> None:
    made = tmp_path / "all.mlir"
    one, two = tmp_path / "one.mlir", tmp_path / "two.mlir"
    for file, op in ((one, "linalg.matmul"), (two, "linalg.batch_matmul")):
        body = f'transform.match.operation_name %op ["{op}"] : !transform.any_op'
        file.write_text(FRAME.replace("HELPER", "").replace("BODY", body))
    assert len(autotuner.spec.show(one).entries) == 1
    merged = autotuner.spec.merge([one, two], output=made)
    assert (merged.spec, len(merged.merged.kept)) == (made, 2)
    assert autotuner.spec.check(made, target=Target.parse("cpu")).sound


def test_two_arms_from_python_are_compiled_and_proven(tmp_path: Path) -> None:
    (tmp_path / "b.flags").write_text("--iree-opt-data-tiling\n")
    options = Options(device="none", workspace=tmp_path, effort=QUICK, microkernels=())
    product, cpu = Gemm.parse(shape="32x32x32", dtype="f32"), Target.parse("cpu")
    raced = autotuner.ab(str(tmp_path / "b.flags"), problem=product, target=cpu, options=options)
    assert raced.verdict == "compile-only"
    assert [arm.name for arm in raced.details.arms] == ["default", str(tmp_path / "b.flags")]
    assert str(raced).startswith("verdict    compile-only")
