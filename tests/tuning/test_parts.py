"""The parts of a job, one after the other: each in its time, each with an end of its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from autotuner.errors import AutotuneError, BusyError, DeviceError, OutOfTimeError, StorageError, ToolMissingError
from autotuner.system import process
from autotuner.targets import Target
from autotuner.tuning.options import Options
from autotuner.tuning.run import Account, Question, Run, Turn
from autotuner.tuning.session import Session
from tests.support.clocks import Simulated

CPU = Target.parse("cpu")
SHARES = {"a": 6.0, "b": 3.0, "c": 1.0}


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Run]:
    options = Options(workspace=tmp_path, device="none", output=tmp_path / "out.mlir")
    with Session.open(CPU, options) as session:
        account = Account(session.reporter, Simulated(100.0))
        question = Question("suite", {"op": "suite", "name": "letters"}, CPU, asks={}, reads=())
        with Run.begin(question, session=session, options=options, account=account) as run:
            yield run


def clock_of(run: Run) -> Simulated:
    assert isinstance(run.clock, Simulated)
    return run.clock


def test_each_has_its_share_and_what_one_leaves_the_others_have(job: Run) -> None:
    def takes(turn: Turn[str]) -> float:
        assert turn.options.output is None, "what ships is the job's"
        assert turn.session.parent == job.id
        assert process.deadline() == job.clock.latest
        clock_of(job).now += 10.0
        return turn.options.budget or 0.0

    parts = dict(job.parts([*SHARES], takes, name=str, share=SHARES.__getitem__))
    assert parts == {"a": pytest.approx(60.0), "b": pytest.approx(90.0 * 3 / 4), "c": pytest.approx(80.0)}
    assert process.deadline() == float("inf"), "no deadline outlives its part"


def test_without_a_budget_each_has_its_own(job: Run) -> None:
    endless = replace(job, account=replace(job.account, clock=Simulated(float("inf"))))
    assert dict(endless.parts(["a", "b"], lambda turn: turn.options.budget is None, name=str)) == {"a": True, "b": True}


def test_what_goes_wrong_with_one_is_its_own_end(job: Run) -> None:
    def fails(turn: Turn[str]) -> str:
        if turn.what == "b":
            raise DeviceError("it is lost")
        return turn.what.upper()

    a, b, c = (part_result for _, part_result in job.parts(["a", "b", "c"], fails, name=str))
    assert (a, c) == ("A", "C")
    assert isinstance(b, DeviceError)


@pytest.mark.parametrize("error", [StorageError, ToolMissingError, BusyError])
def test_what_is_no_parts_fault_ends_all(job: Run, error: type[AutotuneError]) -> None:
    def fails(_: Turn[str]) -> None:
        raise error("of all")

    with pytest.raises(error):
        list(job.parts(["a", "b"], fails, name=str))


def test_whose_turn_does_not_come_in_time_is_told_and_the_first_says_itself_that_its_time_was_up(job: Run) -> None:
    clock_of(job).now = 98.0

    def late(_: Turn[str]) -> None:
        raise OutOfTimeError

    first, second = (part_result for _, part_result in job.parts(["a", "b"], late, name=str))
    assert isinstance(first, OutOfTimeError)
    assert second is None


def test_after_ctrl_c_none_begins(job: Run) -> None:
    def stops(turn: Turn[str]) -> str:
        job.session.stop.request()
        return turn.what

    assert dict(job.parts(["a", "b", "c"], stops, name=str)) == {"a": "a", "b": None, "c": None}
