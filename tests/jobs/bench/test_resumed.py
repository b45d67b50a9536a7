"""`bench --resume` of what is finished: nothing is timed again while it would come to the same question."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autotuner.jobs.bench.backends import Chosen, Terms, given_arm
from autotuner.jobs.bench.run import bench, bench_model
from autotuner.jobs.suite.workload import Entry, Workload
from autotuner.problems import Gemm
from autotuner.programs.model import Model
from autotuner.store.store import Store
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
