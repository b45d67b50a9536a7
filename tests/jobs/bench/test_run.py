"""A comparison that is stopped, killed or out of time: what was measured stays, and what was not reached is named."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autotuner.devices.conditions import Conditions, Sample
from autotuner.devices.device import Computed, Timing
from autotuner.errors import OutOfTimeError
from autotuner.iree.run import Invocation
from autotuner.jobs.bench.backends import Terms
from autotuner.jobs.bench.given import Given
from autotuner.jobs.bench.problem import ProblemBench
from autotuner.jobs.bench.run import bench, bench_model
from autotuner.jobs.bench.sides import Manner, Side
from autotuner.jobs.suite.workload import Entry, Workload
from autotuner.measure.check import Check
from autotuner.measure.clock import Clock
from autotuner.problems import Gemm
from autotuner.programs.model import Model
from autotuner.store.store import Store
from autotuner.system.progress import Silent, Stop
from autotuner.targets import Target
from autotuner.tuning.options import Options
from autotuner.tuning.run import Account, Question, Run
from autotuner.tuning.session import Session
from tests.support.bare_device import BareDevice
from tests.support.models import EXAMPLES
from tests.support.simulated_time import SimulatedTime

CPU = Target.parse("cpu")
FIRST, SECOND, THIRD = (Gemm.parse(shape=shape, dtype="f32") for shape in ("8x8x8", "8x8x16", "8x8x24"))


@dataclass
class Impatient(Silent):
    """Looks at what is kept, then stops, when the second problem is about to be timed."""

    workspace: Path
    stop: Stop
    said: list[str] = field(default_factory=list)
    kept: dict[str, Any] = field(default_factory=dict)

    def stage(self, text: str) -> None:
        self.said.append(text)
        if text.startswith("2/3") and "preparing" in text:
            with Store.open(None, workspace=self.workspace, create=False) as store:
                self.kept = next(dict(run.result or {}) for run in store.runs() if run.parent is None)
            self.stop.request()


def test_what_is_measured_is_kept_at_once_and_the_rest_is_named(tmp_path: Path) -> None:
    stop = Stop()
    watcher = Impatient(tmp_path, stop)
    workload = Workload("three", "", "", (Entry(FIRST), Entry(SECOND), Entry(THIRD)))
    options = Options(workspace=tmp_path, cache="warm")
    result = bench(workload, Terms(("iree",), blocks=1), CPU, options=options, reporter=watcher, stop=stop)
    assert [one["name"] for one in watcher.kept["problems"]] == [FIRST.name], "a kill at that moment loses nothing"
    assert watcher.kept["not_reached"] == [SECOND.name, THIRD.name]
    assert any(text.startswith(f"1/3 {FIRST.name}: iree ") and text.endswith("µs") for text in watcher.said)
    document = result.to_json()
    assert document["interrupted"]
    assert [one["name"] for one in document["problems"]] == [FIRST.name]
    assert document["not_reached"] == [SECOND.name, THIRD.name]
    assert re.search(r"^no time +2 problems", str(result), re.MULTILINE)
    with Store.open(None, workspace=tmp_path, create=False) as store:
        assert store.run(document["run"]).status == "interrupted"


@dataclass
class Timed:
    """A backend; after some blocks the time is up."""

    us: float
    blocks: int
    version = "1"

    def prepare(self, given: Given, manner: Manner) -> Side:
        del given, manner
        computed = Computed((np.zeros(1, np.float32),))
        return Side("1", ("f32",), computed, self.time, lambda warm_us: Timing((2 * warm_us,)))

    def time(self, repetitions: int) -> Timing:
        if not self.blocks:
            raise OutOfTimeError("the time is up")
        self.blocks -= 1
        return Timing((self.us,) * repetitions, conditions=Conditions("sustained", after=Sample(mhz=1500.0)))


@pytest.mark.parametrize(("blocks", "says"), [(6, ""), (2, "2 of 6 blocks fit into --budget"), (0, "0 of 6 blocks")])
def test_blocks_count_that_all_were_timed_in(blocks: int, says: str, tmp_path: Path) -> None:
    given = Given({}, Invocation("main", (), ("f32",)), (), ("f32",), lambda *_: Check(None, 0.0))
    with Session.open(CPU, Options(workspace=tmp_path, device="none")) as session:
        question = Question("bench", FIRST.describe(), CPU, asks={}, reads=())
        account = Account(session.reporter, Clock(60.0, session.began))
        with Run.begin(question, session=session, options=Options(), account=account) as run:
            backends = {"iree": Timed(100.0, 6), "numpy": Timed(50.0, blocks)}
            manner = Manner(BareDevice(), 0.02, 60.0, on_host=True)
            found = ProblemBench(run, backends, given, manner, 6, cold=True)
            rows = {row.name: row for row in found.go()}
            kinds = {row.route: row.kind for row in session.store.candidates(run.id)}
    assert kinds == {"iree": "baseline", "numpy": "library"}
    assert "".join(found.notes).startswith(says)
    assert rows["numpy"].blocks_us == (50.0,) * blocks
    assert rows["iree"].blocks_us == (100.0,) * blocks
    assert rows["iree"].cold_us == (200.0 if blocks else None)
    assert rows["iree"].sample.mhz == (1500.0 if blocks else None)
    assert rows["numpy"].failure == ("" if blocks else "not-timed")
    assert ("ran out of time" in rows["numpy"].reason) is (blocks == 0)


def test_what_a_compile_that_never_ends_leaves_undone_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model is read as `ab --model` reads it."""
    SimulatedTime(lambda words: 0.1 if "--version" in words else math.inf).rule(monkeypatch)
    options = Options(workspace=tmp_path / "workspace", budget=5.0)
    alone = Workload(FIRST.name, "", "", (Entry(FIRST),))
    found = bench(alone, Terms(("iree",)), CPU, options=options)
    assert (found.problems, found.not_reached) == ((), (FIRST.name,))
    assert any("ran out of time: nothing was timed. Try --budget" in note for note in found.to_json()["notes"])
    with pytest.raises(OutOfTimeError, match=r"reading the model had not ended after \d+ s\. Give"):
        bench_model(Model(EXAMPLES / "three.mlir"), Terms(("iree",)), CPU, options=options)
