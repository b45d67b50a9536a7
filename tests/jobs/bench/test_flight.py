"""A model on a GPU beside libraries: IREE's calls follow without a gap, as theirs do, and one call has its own figure.

Here the processor stands in for a GPU: two calls are really in flight, in contexts of their own.
"""

from __future__ import annotations

import csv
import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from autotuner.build import Compiled
from autotuner.devices.conditions import Conditions
from autotuner.devices.device import Timing
from autotuner.iree.run import Benchmark, Invocation
from autotuner.jobs.bench import run as bench_run
from autotuner.jobs.bench.backends import Chosen, Terms
from autotuner.jobs.bench.libraries.torch_library import OnGpu
from autotuner.jobs.bench.problem import Part
from autotuner.jobs.bench.result import BackendRow
from autotuner.jobs.bench.run import bench_model
from autotuner.jobs.bench.sides import IreeSide
from autotuner.programs.model import Model
from autotuner.report.exports import export_records
from autotuner.store.figures import RunFigures
from autotuner.store.store import Store
from autotuner.targets import Target
from autotuner.tuning.options import Options
from tests.support.bare_device import BareDevice

CPU = Target.parse("cpu")
TERMS = Terms(Chosen(("iree",), named=True), None, 2)
MODEL = """func.func @main(%a: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %0 = tosa.tanh %a : (tensor<64x64xf32>) -> tensor<64x64xf32>
  return %0 : tensor<64x64xf32>
}
"""


@pytest.fixture
def model(tmp_path: Path) -> Model:
    path = tmp_path / "model.mlir"
    path.write_text(MODEL)
    return Model(path)


def test_blocks_are_of_calls_in_flight_and_one_call_is_timed_beside(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench_run, "model_flight", lambda _: 2)
    table = tmp_path / "bench.csv"
    result = bench_model(model, replace(TERMS, csv=table), CPU, options=Options(workspace=tmp_path))
    (row,) = result.problems[0].rows
    assert row.how == "IREE's default, 2 calls in flight"
    assert row.us
    assert row.call_us
    (document,) = result.to_json()["problems"][0]["backends"]
    assert (document["us"], document["call_us"]) == (row.us, row.call_us)
    assert BackendRow.from_json(document).call_us == row.call_us
    assert [line["call_us"] for line in csv.DictReader(table.open())] == [str(row.call_us)]
    assert "one call" in str(result)
    with Store.open(None, workspace=tmp_path, create=False) as store:
        (record,) = export_records(store, result.to_json()["run"])
        (timed,) = store.timed(result.to_json()["run"])
    assert (record["us"], record["call_us"]) == (row.us, row.call_us)
    taken = [(timing["phase"], timing["block"]) for timing in record["timings"]]
    assert taken == [("bench", 0), ("bench", 1), ("call", 0), ("call", 1), ("call", 2)]
    (figure,) = RunFigures(timed.run, {}, (timed.candidate,), {timed.candidate.id: timed.timings}).of(timed.candidate)
    assert figure.blocks == 2, "what is compared later is of the blocks alone"


def test_on_a_processor_calls_are_made_one_by_one(model: Model, tmp_path: Path) -> None:
    result = bench_model(model, TERMS, CPU, options=Options(workspace=tmp_path))
    (row,) = result.problems[0].rows
    assert (row.how, row.call_us) == ("IREE's default", None)
    assert "one call" not in str(result)


@pytest.mark.parametrize(("target", "flight"), [("cpu", 1), ("sm_80", 2), ("gfx942", 2)])
def test_which_targets_have_calls_in_flight(target: str, flight: int) -> None:
    assert bench_run.model_flight(Target.parse(target)) == flight


def test_rows_of_before_have_no_time_of_one_call() -> None:
    row = BackendRow("iree", blocks_us=(1.0,)).to_json()
    del row["call_us"]
    assert BackendRow.from_json(row).call_us is None


# --- where fewer are in flight ----------------------------------------------------------------------------------------


def a_part(name: str, *timings: Timing) -> Part:
    benchmark = Benchmark(Invocation("main", (), ("f32",)), 0.05, 60.0, flight=2)
    side = IreeSide(BareDevice(), Compiled(None, "", 0.0, (), Path("once.vmfb")), benchmark, ("f32",), "by a spec")
    return Part(BackendRow(name, how="by a spec"), 1, side, timings=list(timings))


@pytest.mark.parametrize(
    ("timings", "how", "note"),
    [
        ([Timing((1.0,), flight=2)], "by a spec, 2 calls in flight", ""),
        (
            [Timing((1.0,), flight=2), Timing((1.0,))],
            "by a spec, 1 call in flight",
            "tuned had 1 call in flight, not 2: the device's memory holds no more",
        ),
        (
            [Timing((1.0,), conditions=Conditions("process"))],
            "by a spec, 1 call in flight",
            "tuned had 1 call in flight, not 2: IREE's own tools made its calls",
        ),
    ],
)
def test_fewer_calls_in_flight_are_told_with_the_reason(timings: list[Timing], how: str, note: str) -> None:
    part = a_part("tuned", *timings)
    assert (part.finished(flight=2).how, part.fewer(flight=2)) == (how, note)
    assert (part.finished(flight=1).how, part.fewer(flight=1)) == ("by a spec", "")


# --- torch, without a GPU ---------------------------------------------------------------------------------------------


class Graph:
    """What was called while it was recorded."""

    def __init__(self) -> None:
        self.calls = self.replays = 0

    def replay(self) -> None:
        self.replays += 1
        time.sleep(0.001)


class Torch:
    """As much of torch as a graph needs."""

    float32 = "float32"

    def __init__(self) -> None:
        self.graphs: list[Graph] = []
        event = SimpleNamespace(record=int, synchronize=int, elapsed_time=lambda _: 1e-3)
        stream = SimpleNamespace(wait_stream=lambda _: None, synchronize=int)
        self.synchronised = 0
        self.recording: Graph | None = None
        self.cuda = SimpleNamespace(
            Event=lambda **_: event,
            Stream=lambda: stream,
            current_stream=lambda: stream,
            stream=lambda _: nullcontext(),
            CUDAGraph=self.make,
            graph=lambda graph, **_: self.record(graph),
            synchronize=self.synchronise,
        )

    def make(self) -> Graph:
        self.graphs.append(Graph())
        return self.graphs[-1]

    def record(self, graph: Graph) -> Any:
        self.recording = graph
        return nullcontext()

    def synchronise(self) -> None:
        self.synchronised += 1
        self.recording = None

    def call(self, x: Any) -> Any:
        if self.recording is not None:
            self.recording.calls += 1
        return x


def test_torch_waits_for_a_graph_of_one_call() -> None:
    torch = Torch()
    prepared = OnGpu(torch, "by hand", (SimpleNamespace(dtype="float32"),), torch.call, None)
    assert prepared.invoke(1)[1] == 1000
    before = torch.synchronised
    assert [0.001 <= prepared.invoke_one() < 10.0 for _ in range(2)] == [True, True]
    assert [(graph.calls, graph.replays) for graph in torch.graphs] == [(1000, 1), (1, 2)]
    assert torch.synchronised == before + 3, "once when it is recorded"
