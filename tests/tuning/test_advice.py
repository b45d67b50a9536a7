"""Every verdict comes with its cause and what to do next, on the screen, in the JSON and in the docs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from autotuner import errors
from autotuner.measure.blocks import Interval
from autotuner.measure.causes import CAUSES, Cause
from autotuner.measure.reference import Reference
from autotuner.tuning.options import EFFORTS
from autotuner.tuning.printer import Printer
from autotuner.tuning.result import Counts, Files, FinalVerdict, Measured, Result
from tests.tuning.test_result import RESULT

WRONG = Reference("numpy", default_is_right=False, default_error=1.0)
DOCS = (Path(__file__).parents[2] / "docs" / "verdicts.md").read_text()


BARE = replace(
    RESULT,
    problem={"name": "x"},
    reason="",
    baseline=Measured(),
    stock=Measured(),
    best=None,
    speedup=None,
    speedup_over_stock=None,
    notes=(),
    files=Files(),
)


def result(verdict: FinalVerdict, *, timed: int = 0, interrupted: bool = False) -> Result:
    counts = replace(Counts(), timed=timed, rivals=timed)
    return replace(BARE, verdict=verdict, counts=counts, interrupted=interrupted)


@pytest.mark.parametrize(
    ("ended", "cause"),
    [
        (result("win", timed=3), None),
        (replace(result("win", timed=3), reference=WRONG), "wrong-default"),
        (result("win", timed=3, interrupted=True), "interrupted"),
        (result("no-winner", timed=3), "no-gain"),
        (replace(result("no-winner"), cause="nothing-to-tune"), "nothing-to-tune"),
        (replace(result("no-winner", timed=3), reference=WRONG), "wrong-default"),
        (replace(result("inconclusive"), reference=WRONG), "wrong-default"),
        (result("inconclusive"), "out-of-time"),
        (replace(result("inconclusive"), cause="noise"), "noise"),
        (replace(result("inconclusive"), cause="failed"), "failed"),
        (result("inconclusive", timed=3, interrupted=True), "interrupted"),
        (result("compile-only"), "no-device"),
    ],
)
def test_every_end_has_a_cause_and_its_next_step(ended: Result, cause: Cause | None) -> None:
    assert ended.to_json()["cause"] == cause
    printer = Printer()
    printer.files(ended)
    assert printer.text() == (f"next       {CAUSES[cause].do}" if cause else "")


def test_a_result_prints_as_on_a_terminal_and_is_a_line_at_a_prompt() -> None:
    told = replace(result("no-winner", timed=3), problem={"name": "gemm<1>", "flops": 2000}, baseline=Measured(10.0))
    assert [line.split() for line in str(told).splitlines()[:3]] == [
        ["verdict", "no-winner:"],
        ["problem", "gemm<1>", "on", "cpu", "(local-task)"],
        ["default", "10.0", "µs", "0.2", "GFLOP/s"],
    ]
    assert repr(told) == f"<Result {told.run}: no-winner, gemm<1> on cpu (local-task)>"
    slower = replace(told, speedup=Interval(0.527, 0.347, 0.926))
    assert repr(slower) == f"<Result {told.run}: no-winner, 0.527x, gemm<1> on cpu (local-task)>"


def test_the_causes_of_the_docs_are_those_of_the_table() -> None:
    assert len(CAUSES) <= 8
    assert set(CAUSES) == set(get_args(Cause))
    listed = [line for line in DOCS.splitlines() if line.startswith("| `")]
    assert listed == [f"| `{cause}` | {one.means} | {one.do} |" for cause, one in CAUSES.items()]
    assert len(DOCS.splitlines()) <= 60


def test_every_exit_code_stands_in_the_docs() -> None:
    classes = [x for x in vars(errors).values() if isinstance(x, type) and issubclass(x, errors.AutotuneError)]
    codes = {0, errors.EXIT_NO_WINNER, errors.EXIT_INTERRUPTED, errors.EXIT_PIPE, *(one.exit_code for one in classes)}
    listed = {
        int(line.split("|")[1]) for line in DOCS.splitlines() if line[:3] in ("| 0", "| 1") or line[2:3].isdigit()
    }
    assert listed == codes


def test_the_smallest_gain_of_the_docs_is_that_of_every_effort() -> None:
    (gain,) = {effort.smallest_gain for effort in EFFORTS.values()}
    assert f"The smallest gain that counts is {gain * 100:g} %." in DOCS
