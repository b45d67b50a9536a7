"""A comparison that is stopped, killed or finished, and goes on: what was measured stays and is not timed again."""

from __future__ import annotations

import csv
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from autotuner.jobs.bench.backends import Chosen, Terms, given_arm
from autotuner.jobs.bench.run import bench, bench_model
from autotuner.jobs.suite.workload import Entry, Workload
from autotuner.problems import Gemm
from autotuner.programs.model import Model
from autotuner.store.store import Store
from autotuner.system.progress import Silent, Stop
from autotuner.targets import Target
from autotuner.tuning.options import Options

CPU = Target.parse("cpu")
PROBLEM = Gemm.parse(shape="8x8x8", dtype="f32")
ALONE = Workload(PROBLEM.name, "", "", (Entry(PROBLEM),))
TERMS = Terms(Chosen(("iree",), named=True), None, 2)
MODEL = """func.func @main(%a: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = arith.addf %a, %a : tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}
"""


def timings(workspace: Path, run: str) -> int:
    with Store.open(None, workspace=workspace, create=False) as store:
        assert store.run(run).status == "finished"
        return len(store.timings(run))


def test_a_finished_comparison_is_recalled_with_its_own_figures(tmp_path: Path) -> None:
    options = Options(workspace=tmp_path, cache="warm")
    before = bench(ALONE, TERMS, CPU, options=options).to_json()
    taken = timings(tmp_path, before["run"])
    table = tmp_path / "again.csv"
    again = bench(ALONE, replace(TERMS, csv=table), CPU, options=replace(options, resume=True)).to_json()
    assert (again["run"], again["problems"]) == (before["run"], before["problems"])
    assert timings(tmp_path, before["run"]) == taken, "nothing was timed"
    assert table.read_text().count(PROBLEM.name) == 1
    # It is there a third time too: to look at it costs nothing.
    third = bench(ALONE, TERMS, CPU, options=replace(options, resume=True)).to_json()
    assert third["problems"] == before["problems"]


def test_another_question_is_timed(tmp_path: Path) -> None:
    options = Options(workspace=tmp_path, cache="warm", resume=True)
    first = bench(ALONE, TERMS, CPU, options=options).to_json()
    others = [
        bench(ALONE, replace(TERMS, blocks=1), CPU, options=options),
        bench(ALONE, TERMS, CPU, options=replace(options, cache="both")),
        bench(ALONE, TERMS, CPU, options=replace(options, resume=False)),
    ]
    assert len({first["run"], *(other.to_json()["run"] for other in others)}) == 4


@pytest.mark.parametrize("several", [False, True])
def test_what_tuned_is_now_is_timed_where_it_is_another(several: bool, tmp_path: Path) -> None:
    flags = tmp_path / "own.flags"
    flags.write_text("--iree-opt-level=O2\n")
    entries = (Entry(PROBLEM), Entry(Gemm.parse(shape="8x8x16", dtype="f32")))
    workload = Workload("two", "", "", entries) if several else ALONE
    options = Options(workspace=tmp_path, cache="warm", resume=True)

    def timed() -> dict[str, Any]:
        arm = given_arm(flags, workspace=tmp_path, trust=False)
        terms = Terms(Chosen(("tuned",), named=True), arm, 1)
        return bench(workload, terms, CPU, options=options).to_json()

    before = timed()
    assert timed()["problems"] == before["problems"]
    flags.write_text("--iree-opt-level=O3\n")
    changed = timed()
    assert changed["run"] != before["run"]
    assert any("a file that it read has changed since" in note for note in changed["notes"])


def test_a_model_is_recalled_too(tmp_path: Path) -> None:
    path = tmp_path / "model.mlir"
    path.write_text(MODEL)
    options = Options(workspace=tmp_path, resume=True)
    before = bench_model(Model(path), TERMS, CPU, options=options).to_json()
    taken = timings(tmp_path, before["run"])
    again = bench_model(Model(path), TERMS, CPU, options=options).to_json()
    assert (again["run"], again["problems"]) == (before["run"], before["problems"])
    assert timings(tmp_path, before["run"]) == taken
    path.write_text(MODEL.replace("addf", "mulf"))
    assert bench_model(Model(path), TERMS, CPU, options=options).to_json()["run"] != before["run"]


# --- of many problems -----------------------------------------------------------------------------------------------

FIRST, SECOND, THIRD = (Gemm.parse(shape=shape, dtype="f32") for shape in ("8x8x8", "8x8x16", "8x8x24"))


@dataclass
class Impatient(Silent):
    """Looks at what is kept, then stops, when the second problem is about to be timed."""

    workspace: Path
    stop: Stop
    said: list[str] = field(default_factory=list)
    kept: dict[str, Any] = field(default_factory=dict)
    table: str = ""

    def stage(self, text: str) -> None:
        self.said.append(text)
        if text.startswith("2/3") and "preparing" in text:
            with Store.open(None, workspace=self.workspace, create=False) as store:
                self.kept = next(dict(run.result or {}) for run in store.runs() if run.parent is None)
            self.table = (self.workspace / "out.csv").read_text()
            self.stop.request()


def test_what_is_measured_is_kept_at_once_and_the_rest_is_named(tmp_path: Path) -> None:
    stop = Stop()
    watcher = Impatient(tmp_path, stop)
    workload = Workload("three", "", "", (Entry(FIRST), Entry(SECOND), Entry(THIRD)))
    terms = Terms(Chosen(("iree",), named=True), None, 1, tmp_path / "out.csv")
    options = Options(workspace=tmp_path, cache="warm")
    result = bench(workload, terms, Target.parse("cpu"), options=options, reporter=watcher, stop=stop)
    assert [one["name"] for one in watcher.kept["problems"]] == [FIRST.name], "a kill at that moment loses nothing"
    assert watcher.kept["not_reached"] == [SECOND.name, THIRD.name]
    assert [line["problem"] for line in csv.DictReader(watcher.table.splitlines())] == [FIRST.name]
    assert any(text.startswith(f"1/3 {FIRST.name}: iree ") and text.endswith("µs") for text in watcher.said)
    document = result.to_json()
    assert document["interrupted"]
    assert [one["name"] for one in document["problems"]] == [FIRST.name]
    assert document["not_reached"] == [SECOND.name, THIRD.name]
    assert f"not reached {SECOND.name}, {THIRD.name}" in str(result)
    assert (tmp_path / "out.csv").read_text() == watcher.table
    with Store.open(None, workspace=tmp_path, create=False) as store:
        assert store.run(document["run"]).status == "interrupted"
    _goes_on(tmp_path, workload, terms, document)


def _goes_on(workspace: Path, workload: Workload, terms: Terms, before: dict[str, Any]) -> None:
    """With --resume what was timed is not timed again, and stands in its place."""
    options = Options(workspace=workspace, cache="warm", resume=True)
    told = bench(workload, terms, Target.parse("cpu"), options=options).to_json()
    assert told["run"] == before["run"]
    assert [one["name"] for one in told["problems"]] == [FIRST.name, SECOND.name, THIRD.name]
    assert told["problems"][0] == before["problems"][0], "the very figures, of the run that took them"
    assert (told["not_reached"], told["interrupted"]) == ([], False)
    again = bench(workload, terms, Target.parse("cpu"), options=options).to_json()
    assert again["problems"] == told["problems"], "all of it is there"
    with Store.open(None, workspace=workspace, create=False) as store:
        assert store.run(told["run"]).status == "finished"
        assert len(store.parts(told["run"])) == 3
