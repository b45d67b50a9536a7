"""`--budget` is kept, whatever takes long; where it is too short for a verdict the result says how much would do."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path

import pytest

from autotuner import Attention, Conv, Gemm, Problem
from autotuner.errors import OutOfTimeError, UsageError
from autotuner.measure.schedule import longer
from autotuner.system import process
from autotuner.system.execution import local_executor
from autotuner.tuning.options import parse_effort
from tests.support.fake_tools import CPU, SPEC, FakeTools, codegen, failures, run
from tests.support.patience import ENOUGH, LATE, one_of_three

Fake = Callable[..., FakeTools]


@pytest.mark.parametrize(
    "problem",
    [
        Gemm.parse(shape="256x256x512", dtype="f32"),
        pytest.param(Conv.parse(shape="1x16x16x32", filter="3x3x32", dtype="f32"), marks=pytest.mark.long),
        pytest.param(Attention.parse(shape="1x2x64x64x32", dtype="f32"), marks=pytest.mark.long),
    ],
    ids=["gemm", "conv", "attention"],
)
@one_of_three
def test_a_short_budget_is_kept_with_all_routes_and_real_programs(problem: Problem, workspace: Path) -> None:
    started = time.monotonic()
    # On a very busy machine the compiler may not have read the problem by then: that, too, is told in time.
    with suppress(OutOfTimeError):
        result = run(None, workspace, problem=problem, target=CPU, effort=parse_effort("quick"), budget=4.0)
        assert result.verdict in ("win", "no-winner", "inconclusive")
        assert result.seconds["total"] <= 4 + LATE
    assert time.monotonic() - started <= 4 + LATE


@one_of_three
def test_a_compiler_that_takes_too_long_is_cut_off_and_its_candidates_are_not_blamed(
    fake: Fake, workspace: Path
) -> None:
    tools = fake(cold=True)
    tools.slow_down("compile")
    result = run(tools, workspace, budget=5.0, trials=8)
    assert result.seconds["total"] <= 5 + LATE
    assert result.verdict in ("no-winner", "inconclusive")
    assert failures(workspace, result.run) == {}
    assert {row.state for row in codegen(workspace, result.run)} <= {"asked"}
    assert tools.running() == []


@one_of_three
def test_a_benchmark_that_hangs_takes_no_verdict_from_the_others(fake: Fake, workspace: Path) -> None:
    result = run(fake(rules=[(SPEC, 20.0)], bench_roles=["benchmark-hangs"]), workspace, budget=30.0)
    assert result.verdict == "win"
    assert result.seconds["total"] <= 30 + LATE
    assert failures(workspace, result.run) == {}
    assert "built" in {row.state for row in codegen(workspace, result.run)}


@pytest.mark.long
@one_of_three
def test_a_compile_of_what_ships_that_never_ends_is_cut_off_and_nothing_ships(fake: Fake, workspace: Path) -> None:
    tools = fake(rules=[(SPEC, 20.0)])
    tools.slow_down("ship")
    result = run(tools, workspace, budget=25.0)
    assert result.seconds["total"] <= 25 + LATE
    assert result.verdict == "inconclusive"
    assert "the compile of what would ship had not ended when the time was up, so nothing ships" in result.reason
    assert (result.spec, result.flagfile) == (None, None)
    assert tools.running() == []


@one_of_three
def test_a_budget_that_no_verdict_fits_into_ends_at_once_and_says_how_much_would_do(
    fake: Fake, workspace: Path
) -> None:
    tools = fake(rules=[(SPEC, 20.0)])
    first = run(tools, workspace, budget=ENOUGH)
    assert first.verdict == "win"
    began = float(first.seconds["space"]) + 2
    script = tools.tools.iree_benchmark_module
    script.write_text(script.read_text().replace("sleep 0.15", "sleep 1.5"))
    tools.slow_down("time")
    result = run(tools, workspace, budget=began + 2)
    assert result.verdict == "inconclusive"
    assert re.search(r"--budget \d+s would do", result.reason), result.reason
    assert float(result.seconds["total"]) <= began + 2 + LATE
    assert not codegen(workspace, result.run)


# --- the parts -------------------------------------------------------------------------------------------------------


def test_a_program_that_the_deadline_cuts_off_raises_and_one_that_times_out_does_not() -> None:
    with process.until(time.monotonic() + 0.5), pytest.raises(OutOfTimeError):
        process.run(["sleep", "600"], timeout=ENOUGH)
    with process.until(time.monotonic() + ENOUGH):
        assert process.run(["sleep", "600"], timeout=0.2).timed_out
    with process.until(time.monotonic() - 1), pytest.raises(OutOfTimeError) as cut:
        process.run(["touch", "never"], timeout=60)
    assert not isinstance(cut.value, UsageError), "where those are a candidate's fault, this is not"


def test_of_nested_deadlines_the_earlier_holds_and_what_must_be_finished_has_none() -> None:
    now = time.monotonic()
    with process.until(now - 1), process.until(now + ENOUGH):
        with pytest.raises(OutOfTimeError):
            process.run(["true"], timeout=60)
        with process.however_late():
            assert process.run(["true"], timeout=60).ok
    assert process.run(["true"], timeout=60).ok


def test_work_that_is_handed_to_threads_keeps_its_deadline() -> None:
    def submit() -> Future[process.Finished]:
        return executor.submit(process.run, ["true"], timeout=60)

    with local_executor(1) as executor:
        with process.until(time.monotonic() - 1):
            late = submit()
        assert isinstance(late.exception(), OutOfTimeError)
        assert submit().result().ok


def test_what_would_do_is_a_round_number_with_some_air() -> None:
    assert longer(40.0) == "--budget 50s would do"
