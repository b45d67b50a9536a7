"""Every verdict comes with what it means and what to do, on the screen and in the docs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from autotuner import errors
from autotuner.measure.blocks import Interval
from autotuner.measure.reference import Reference
from autotuner.microkernels.variants import Kernel
from autotuner.tuning.advice import ENDS, advice
from autotuner.tuning.effort import EFFORTS
from autotuner.tuning.options import Options
from autotuner.tuning.printer import Printer
from autotuner.tuning.result import Counts, Files, FinalVerdict, Measured, Result

WRONG = Reference("numpy", default_is_right=False, default_error=1.0)
DOCS = (Path(__file__).parents[2] / "docs" / "verdicts.md").read_text()


def result(verdict: FinalVerdict, *, timed: int = 0, interrupted: bool = False) -> Result:
    return Result(
        run="r",
        problem={"name": "x"},
        target="cpu",
        device="local-task",
        seconds={},
        environment={},
        details=None,
        verdict=verdict,
        reason="",
        baseline=Measured(),
        stock=Measured(),
        best=None,
        speedup=None,
        speedup_over_stock=None,
        confidence=0.95,
        counts=replace(Counts(), timed=timed, rivals=timed),
        notes=(),
        interrupted=interrupted,
        workspace=Path(),
        storage=None,
        files=Files(),
        timing=None,
    )


@pytest.mark.parametrize(
    ("ended", "said"),
    [
        (result("no-winner"), "keep IREE's default; `autotune history RUN` says why"),
        (
            replace(result("no-winner"), counts=Counts(duplicate=7)),
            "keep IREE's default; to look further: --microkernels auto where kernels fit",
        ),
        (
            replace(result("no-winner"), counts=Counts(duplicate=7, failed={"run-error": 1})),
            "keep IREE's default; `autotune history RUN` says why",
        ),
        (
            result("no-winner", timed=3),
            "keep IREE's default; to look further: --effort full, or --microkernels auto where kernels fit",
        ),
        (result("inconclusive"), "run the same command with a longer --budget: builds are kept"),
        (replace(result("inconclusive"), cause="obstacles"), "`--input`"),
        (replace(result("no-winner"), cause="no-knobs"), "to look further: --microkernels auto where kernels fit"),
        (replace(result("no-winner"), cause="no-operations"), "keep IREE's default\n"),
        (replace(result("no-winner", timed=3), stand_in="decomposed"), "not with IREE's default"),
        (result("inconclusive", timed=3), "on a quieter machine"),
        (result("inconclusive", timed=3, interrupted=True), "--resume: it goes on from here"),
        (result("win", timed=3, interrupted=True), "--resume: it goes on from here"),
        (replace(result("inconclusive"), timed_elsewhere=True), "give `autotune bundle run` a longer --budget"),
        (
            replace(result("inconclusive"), timed_elsewhere=True, reference=WRONG),
            "do not use IREE's default; compile with the flags of the `stock` line where there is one; there, give",
        ),
        (replace(result("inconclusive", interrupted=True), timed_elsewhere=True), "import the same file again"),
        (replace(result("no-winner", timed=3), timed_elsewhere=True), "a bundle of more --trials"),
        (result("compile-only"), "where the device is"),
        (replace(result("compile-only"), bundle={}), "`autotune bundle run` on the machine"),
        (replace(result("compile-only", interrupted=True), bundle={}), "run the same command again"),
    ],
)
def test_a_result_without_a_spec_says_what_to_do_next(ended: Result, said: str) -> None:
    printer = Printer()
    printer.files(ended)
    assert printer.text().startswith("next       ")
    assert said in f"{printer.text()}\n"


EFFORT, KERNELS, BUDGET = "--effort full", "--microkernels auto", "a longer --budget"


@pytest.mark.parametrize(
    ("given", "advised"),
    [
        (Options(), {EFFORT, KERNELS}),
        (Options(microkernels=(Kernel("gemm_neon"),)), {EFFORT, KERNELS}),
        (Options(microkernels=(Kernel("auto"),)), {EFFORT}),
        (Options(effort=EFFORTS["full"]), {KERNELS}),
        (Options(budget=30.0), {BUDGET, KERNELS}),
        (Options(budget=30.0, effort=EFFORTS["full"]), {BUDGET, KERNELS}),
        (Options(effort=EFFORTS["full"], microkernels=(Kernel("auto"),)), set()),
    ],
)
def test_what_was_given_is_not_advised(given: Options, advised: set[str]) -> None:
    looked = replace(result("no-winner", timed=3), looked=given.looked)
    for ended, possible in (
        (looked, {EFFORT, KERNELS, BUDGET}),
        (replace(looked, timed_elsewhere=True), {KERNELS}),
        (replace(looked, cause="no-knobs"), {KERNELS}),
    ):
        said = advice(ended).to_do(ended.looked)
        assert said.startswith("keep IREE's default")
        assert {option for option in (EFFORT, KERNELS, BUDGET) if option in said} == advised & possible
        assert ("to look further" in said) == (ended.timed_elsewhere or bool(advised & possible))


def test_a_result_prints_as_on_a_terminal_and_is_a_table_in_a_notebook() -> None:
    told = replace(result("no-winner", timed=3), problem={"name": "gemm<1>", "flops": 2000}, baseline=Measured(10.0))
    assert str(told).splitlines()[:3] == [
        "verdict    no-winner: ",
        "problem    gemm<1> on cpu (local-task)",
        "default    10.0 µs (0.2 GFLOP/s)",
    ]
    assert repr(told) == f"<Result {told.run}: no-winner, gemm<1> on cpu (local-task)>"
    slower = replace(told, speedup=Interval(0.527, 0.347, 0.926))
    assert repr(slower) == f"<Result {told.run}: no-winner, 0.527x, gemm<1> on cpu (local-task)>"
    page = told._repr_html_()
    assert page.startswith("<table>")
    left = 'style="text-align: left"'
    assert f"<tr><th {left}>problem</th><td {left}>gemm&lt;1&gt; on cpu (local-task)</td></tr>" in page


def test_every_verdict_has_advice_and_stands_in_the_docs() -> None:
    for verdict in get_args(FinalVerdict):
        for timed in (0, 1):
            assert advice(result(verdict, timed=timed)).verdict == verdict
    for end in ENDS:
        assert f"| `{end.verdict}` | {end.case} | {end.means} | {end.to_do()} |" in DOCS


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
