"""`--budget` is kept by every command, whatever takes long: within ten seconds of simulated time; where it is too short
for a verdict the result says how much would do."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from time import monotonic

import pytest

from autotuner import Attention, Conv, Gemm, Options, Problem, tune
from autotuner.errors import OutOfTimeError, UsageError
from autotuner.jobs.ab.arms import parse_arm
from autotuner.jobs.ab.opening import Experiment
from autotuner.jobs.ab.run import run_experiment
from autotuner.jobs.buckets import Family, tune_family
from autotuner.jobs.model.tuner import tune_model
from autotuner.jobs.suite.load import load
from autotuner.jobs.suite.run import Selection, tune_suite
from autotuner.programs.model import Model
from autotuner.system import process
from autotuner.tuning.options import parse_effort
from tests.support.fake_tools import CPU, SPEC, FakeTools, codegen, failures, run
from tests.support.patience import ENOUGH
from tests.support.simulated_time import LATE, SimulatedTime, Takes, Words, alike

Fake = Callable[..., FakeTools]


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> SimulatedTime:
    return SimulatedTime().rule(monkeypatch)


def is_benchmark(words: Words) -> bool:
    return words[0].endswith("iree-benchmark-module")


def hanging(hangs: Callable[[Words], bool]) -> Takes:
    return lambda words: math.inf if hangs(words) else alike(words)


def test_a_compiler_that_takes_too_long_is_cut_off_and_its_candidates_are_not_blamed(
    fake: Fake, workspace: Path, time: SimulatedTime
) -> None:
    time.takes = hanging(lambda words: any(word.startswith("--iree-codegen-tuning-spec-path=") for word in words))
    result = run(fake(cold=True), workspace, budget=60.0, trials=8)
    assert result.seconds["total"] <= 60 + LATE
    assert result.verdict in ("no-winner", "inconclusive")
    assert failures(workspace, result.run) == {}
    assert {row.state for row in codegen(workspace, result.run)} <= {"asked"}


def test_a_benchmark_that_hangs_takes_no_verdict_from_the_others(
    fake: Fake, workspace: Path, time: SimulatedTime
) -> None:
    tools = fake(rules=[(SPEC, 20.0)])
    hung: set[str] = set()

    def hangs(words: Words) -> bool:
        modules = [word for word in words if is_benchmark(words) and word.startswith("--module=")]
        hung.update(module for module in modules if not hung and tools.was_built_with_a_spec(module[9:]))
        return bool(hung.intersection(modules))

    time.takes = hanging(hangs)
    result = run(tools, workspace, budget=60.0)
    assert result.verdict == "win"
    assert result.seconds["total"] <= 60 + LATE
    (hopeless,) = failures(workspace, result.run)["run-timeout"]
    assert hopeless.stderr.startswith("not timed after ")


def test_a_compile_of_what_ships_that_never_ends_is_cut_off_and_nothing_ships(
    fake: Fake, workspace: Path, time: SimulatedTime
) -> None:
    time.takes = hanging(lambda words: any(word.startswith("@") for word in words))
    result = run(fake(rules=[(SPEC, 20.0)]), workspace, budget=60.0)
    assert result.seconds["total"] <= 60 + LATE
    assert result.verdict == "inconclusive"
    assert "ran out of time while compiling what would ship, so nothing ships" in result.reason
    assert (result.spec, result.flagfile) == (None, None)


def test_a_budget_that_no_verdict_fits_into_ends_at_once_and_says_how_much_would_do(
    fake: Fake, workspace: Path, time: SimulatedTime
) -> None:
    time.takes = lambda words: 6.0 if is_benchmark(words) else 0.1
    result = run(fake(rules=[(SPEC, 20.0)]), workspace, budget=20.0)
    assert result.verdict == "inconclusive"
    assert re.search(r"Try --budget \d+s", result.reason), result.reason
    assert float(result.seconds["total"]) <= 20 + LATE
    assert not codegen(workspace, result.run)


# --- the parts -------------------------------------------------------------------------------------------------------


def test_a_program_that_the_deadline_cuts_off_raises_and_one_that_times_out_does_not() -> None:
    with process.until(monotonic() + 0.5), pytest.raises(OutOfTimeError):
        process.run(["sleep", "600"], timeout=ENOUGH)
    with process.until(monotonic() + ENOUGH):
        assert process.run(["sleep", "600"], timeout=0.2).timed_out
    with process.until(monotonic() - 1), pytest.raises(OutOfTimeError) as cut:
        process.run(["touch", "never"], timeout=60)
    assert not isinstance(cut.value, UsageError), "where those are a candidate's fault, this is not"


def test_of_nested_deadlines_the_earlier_holds_and_what_must_be_finished_has_none() -> None:
    now = monotonic()
    with process.until(now - 1), process.until(now + ENOUGH):
        with pytest.raises(OutOfTimeError):
            process.run(["true"], timeout=60)
        with process.however_late():
            assert process.run(["true"], timeout=60).ok
    assert process.run(["true"], timeout=60).ok


# --- every command ----------------------------------------------------------------------------------------------------


BUDGET = 15.0
GEMM = Gemm.parse(shape="64x32x48", dtype="f32")
THREE = Path(__file__).parents[1] / "jobs" / "model" / "examples" / "three.mlir"


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


@pytest.mark.parametrize(
    ("problem", "model"),
    [
        pytest.param(GEMM, None, id="problem"),
        pytest.param(None, Model(THREE), id="model", marks=pytest.mark.long),  # read and timed as in `test_of_a_model`
    ],
)
def test_of_an_experiment(
    problem: Problem | None, model: Model | None, time: SimulatedTime, options: Options, tmp_path: Path
) -> None:
    (tmp_path / "b.flags").write_text("--iree-opt-data-tiling")
    words = ("default", "sgemm_c" if problem else f"@{tmp_path / 'b.flags'}")
    arms = [parse_arm(word, workspace=options.workspace) for word in words]
    with in_time(time):
        result = run_experiment(Experiment(arms[0], arms[1], problem, model), CPU, options=options)
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
