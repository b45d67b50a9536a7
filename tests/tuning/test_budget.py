"""`--budget` is kept, whatever takes long; where it is too short for a verdict the result says how much would do."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from time import monotonic

import pytest

from autotuner.errors import OutOfTimeError, UsageError
from autotuner.system import process
from autotuner.system.execution import local_executor
from tests.support.fake_tools import SPEC, FakeTools, codegen, failures, run
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
    assert failures(workspace, result.run) == {}
    assert "built" in {row.state for row in codegen(workspace, result.run)}


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


def test_work_that_is_handed_to_threads_keeps_its_deadline() -> None:
    def submit() -> Future[process.Finished]:
        return executor.submit(process.run, ["true"], timeout=60)

    with local_executor(1) as executor:
        with process.until(monotonic() - 1):
            late = submit()
        assert isinstance(late.exception(), OutOfTimeError)
        assert submit().result().ok
