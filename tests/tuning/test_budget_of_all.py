"""`--budget` is kept by every command, whatever takes long: within ten seconds of simulated time."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from autotuner import Attention, Conv, Gemm, Options, Problem, tune
from autotuner.errors import OutOfTimeError
from autotuner.jobs.ab.arms import parse_arm
from autotuner.jobs.ab.opening import Experiment
from autotuner.jobs.ab.run import run_experiment
from autotuner.jobs.buckets import Family, tune_family
from autotuner.jobs.model.tuner import tune_model
from autotuner.jobs.suite.load import load
from autotuner.jobs.suite.run import Selection, tune_suite
from autotuner.programs.model import Model
from autotuner.tuning.options import parse_effort
from tests.support.fake_tools import CPU
from tests.support.simulated_time import LATE, SimulatedTime

BUDGET = 15.0
GEMM = Gemm.parse(shape="64x32x48", dtype="f32")
THREE = Path(__file__).parents[1] / "jobs" / "model" / "examples" / "three.mlir"


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> SimulatedTime:
    return SimulatedTime().rule(monkeypatch)


@pytest.fixture
def options(workspace: Path) -> Options:
    return Options(
        effort=parse_effort("quick"), budget=BUDGET, workspace=workspace, command=("autotune", "test"), microkernels=()
    )


@contextmanager
def in_time(time: SimulatedTime) -> Iterator[None]:
    """That not even a first answer came in time is an answer, too; it comes in time."""
    ends = time.monotonic() + BUDGET + LATE
    with suppress(OutOfTimeError):
        yield
    assert time.monotonic() <= ends


@pytest.mark.parametrize(
    "problem",
    [
        GEMM,
        Conv.parse(shape="1x16x16x32", filter="3x3x32", dtype="f32"),
        Attention.parse(shape="1x2x64x64x32", dtype="f32"),
    ],
    ids=["gemm", "conv", "attention"],
)
def test_of_a_problem(problem: Problem, time: SimulatedTime, options: Options) -> None:
    with in_time(time):
        tune(problem, CPU, options=options)


def test_of_a_suite(time: SimulatedTime, options: Options, tmp_path: Path) -> None:
    file = tmp_path / "shapes.csv"
    sizes = (16, 32, 48, 64)
    file.write_text("op,shape,dtype,calls\n" + "".join(f"gemm,{m}x32x48,f32,{m}\n" for m in sizes))
    with in_time(time):
        result = tune_suite(Selection(load(str(file))), CPU, options=options)
        assert len(result.details.rows) == len(sizes)


def test_of_buckets(time: SimulatedTime, options: Options) -> None:
    """Each of eight alone would be late by some seconds."""
    with in_time(time):
        tune_family(Family.parse(GEMM, "1,2,4,8,16,32,64,any"), CPU, options=options)


def test_of_a_model(time: SimulatedTime, options: Options) -> None:
    with in_time(time):
        result = tune_model(Model(THREE), CPU, options=options)
        assert result.verdict == "win" or re.search(r"Try --budget \d+s|not proven|none|no route", result.reason)


def test_of_an_experiment(time: SimulatedTime, options: Options) -> None:
    arms = [parse_arm(word, workspace=options.workspace) for word in ("default", "sgemm_c")]
    with in_time(time):
        result = run_experiment(Experiment(arms[0], arms[1], GEMM), CPU, options=options)
        decided = result.verdict != "inconclusive" and result.speedup is not None
        assert decided or re.search(r"Try --budget \d+s", result.reason)


def test_of_an_experiment_in_a_model(time: SimulatedTime, options: Options, tmp_path: Path) -> None:
    (tmp_path / "b.flags").write_text("--iree-opt-data-tiling")
    arms = [parse_arm(word, workspace=options.workspace) for word in ("default", f"@{tmp_path / 'b.flags'}")]
    with in_time(time):
        result = run_experiment(Experiment(arms[0], arms[1], None, Model(THREE)), CPU, options=options)
        decided = result.verdict != "inconclusive" and result.speedup is not None
        assert decided or re.search(r"Try --budget \d+s", result.reason)


# --- the time before a run --------------------------------------------------------------------------------------------


def onnx(options: Options) -> object:
    pytest.importorskip("onnx")
    file = options.workspace.parent / "model.onnx"
    file.write_bytes(b"nobody reads it")
    return tune_model(Model(file), CPU, options=options)


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(lambda options: tune(GEMM, CPU, options=options), id="problem"),
        pytest.param(lambda options: tune_model(Model(THREE), CPU, options=options), id="model"),
        pytest.param(onnx, id="import"),
        pytest.param(lambda options: tune_family(Family.parse(GEMM, "8,any"), CPU, options=options), id="family"),
    ],
)
def test_the_budget_counts_from_the_commands_beginning(
    run: Callable[[Options], object], time: SimulatedTime, options: Options
) -> None:
    """It began so long ago that its time is over: all of it went into what comes before a run."""
    began = time.monotonic()
    with pytest.raises(OutOfTimeError, match=r"ran out of time before .* Give a longer --budget"):
        run(replace(options, began=began - 10 * BUDGET))
    assert time.monotonic() - began <= LATE
