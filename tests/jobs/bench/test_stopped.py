"""A comparison of many problems that is stopped or killed: what was measured stays, the rest is named."""

from __future__ import annotations

import csv
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autotuner.jobs.bench.backends import Chosen, Terms
from autotuner.jobs.bench.run import bench
from autotuner.jobs.suite.workload import Entry, Workload
from autotuner.problems import Gemm
from autotuner.store.store import Store
from autotuner.system.progress import Silent, Stop
from autotuner.targets import Target
from autotuner.tuning.options import Options

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
