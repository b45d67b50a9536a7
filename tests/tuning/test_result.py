"""The typed result and the contract's document say the same, both ways; its screen is short and agrees with itself; and
every verdict comes with its cause and what to do next, there and in the docs."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any, cast, get_args

import pytest

from autotuner import errors
from autotuner.build import Isa
from autotuner.jobs.ab.result import AbDetails, ArmFacts
from autotuner.jobs.model.entries import KernelEntry
from autotuner.jobs.model.result import ModelDetails
from autotuner.jobs.suite.result import Group, SuiteDetails
from autotuner.jobs.suite.rows import Row, Uplift
from autotuner.jobs.suite.workload import Entry, Workload
from autotuner.measure.blocks import Interval
from autotuner.measure.caches import Caches, Pair
from autotuner.measure.causes import CAUSES
from autotuner.measure.judgement import Cause
from autotuner.measure.reference import Reference
from autotuner.problems import Gemm
from autotuner.system.listing import Listing
from autotuner.tuning.options import EFFORTS
from autotuner.tuning.printer import ROWS, OneProblem, Printer
from autotuner.tuning.result import (
    Best,
    Counts,
    Details,
    Files,
    FinalVerdict,
    Measured,
    Result,
    read_result,
    with_details,
)

FLAGS = ("--iree-opt-data-tiling",)
RESULT: Result = Result(
    run="20260101-000000-abcdef",
    problem={"op": "gemm", "name": "gemm_8x8x8", "flops": 1024, "bytes": 768},
    target="cpu",
    device="local-task",
    verdict="win",
    reason="2.00x faster than IREE's default",
    baseline=Measured(20.0, (), "default", Isa()),
    stock=Measured(15.0, FLAGS, "data-tiling", Isa(vgpr=7)),
    best=Best(Measured(10.0, FLAGS, "data-tiling", Isa()), {"tile_m": 8}, "microkernel", "c0003"),
    speedup=Interval(2.0, 1.9, 2.1),
    speedup_over_stock=Interval(1.5, 1.4, 1.6),
    confidence=0.95,
    counts=Counts(space=9, asked=3, built=2, timed=2, failed={**Counts().failed, "run-error": 1}),
    seconds={"space": 0.1, "total": 1.5},
    environment={"iree": "3.13"},
    notes=("a note",),
    interrupted=False,
    workspace=Path("w"),
    storage=None,
    details=None,
    files=Files(Path("specs/a.mlir"), Path("specs/a.flags"), "microkernel"),
)


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


def test_what_is_read_back_from_a_document_is_what_was_written() -> None:
    estimated = Best(Measured(isa=Isa(), estimate={"score": 1.5}), {"tile_m": 4}, candidate="c0001")
    bare = replace(BARE, verdict="compile-only", best=estimated, confidence=0.0, ranking=(estimated,))
    for result in (RESULT, bare, replace(RESULT, best=None)):
        document = json.loads(json.dumps(result.to_json()))
        assert read_result(document, workspace=Path("w"), storage=None) == replace(result, cause=result.ended)


def test_what_nobody_asked_for_is_not_in_the_document() -> None:
    document = replace(RESULT, stock=Measured(), best=Best(Measured(10.0), {})).to_json()
    assert document["stock"] == {"us": None, "flags": []}
    assert document["best"] == {"us": 10.0, "flags": [], "config": {}, "kind": "codegen"}
    assert "ranking" not in document


def test_details_are_beside_the_contracts_keys() -> None:
    class Buckets:
        default_is_wrong = False

        def to_json(self) -> dict[str, object]:
            return {"buckets": []}

    whole = Result(**{**vars(RESULT), "details": Buckets()}).to_json()
    assert whole == {**RESULT.to_json(), "buckets": []}


def test_counts_add_up_by_step_and_by_class() -> None:
    total = Counts.total([RESULT.counts, RESULT.counts])
    assert (total.asked, total.failed["run-error"], total.failed["wrong-result"]) == (6, 2, 0)
    assert Counts.total([]) == Counts()
    assert Counts.from_json(total.to_json()) == total


# --- the screen -------------------------------------------------------------------------------------------------------


AGREE: Result = replace(
    RESULT,
    baseline=Measured(114.3),
    stock=Measured(),
    best=Best(Measured(100.0), {"tile_m": 8}),
    speedup=Interval(1.143, 1.101, 1.190),
    counts=Counts(space=9, asked=3, routes=1, built=3, timed=3, rivals=2),
)
CACHES = Caches(Pair(20.0, 10.0), Pair(24.0, 12.0))


def lines(result: Result, *, verbose: bool = False) -> dict[str, str]:
    said = Printer.of(result).text(verbose=verbose).splitlines()
    return {line[:11].strip(): line[11:] for line in said if line.strip()}


def test_the_screen_has_verdict_times_and_files_and_no_details() -> None:
    said = lines(replace(AGREE, caches=CACHES, notes=("the device drifts",)))
    assert [*said] == ["verdict", "problem", "default", "best", "spec", "flags", "use", "more"]
    assert said["best"].split()[:4] == ["100.0", "µs", "0.0102", "GFLOP/s"]
    assert said["use"].startswith("iree-compile your_program.mlir @")
    alone = replace(AGREE, verdict="no-winner", speedup=None, counts=replace(AGREE.counts, timed=1, rivals=0))
    assert "best" not in lines(alone)


def test_what_a_spec_without_kernels_would_give_stands_beside_a_kernel_that_wins() -> None:
    own, kernel = Best(Measured(12.0, (), "plain"), {"tile_n": 16}), RESULT.best
    won = replace(AGREE, best=kernel, best_codegen=own)
    assert lines(won)["codegen"].split()[:2] == ["12.0", "µs"]
    assert "codegen" not in lines(replace(won, best_codegen=replace(own, config={}))), "it has a line of its own"
    assert "codegen" not in lines(replace(won, best=own)), "it is the best itself"


def test_details_come_with_verbose() -> None:
    said = lines(replace(RESULT, caches=CACHES, counts=AGREE.counts), verbose=True)
    assert said["over stock"].startswith("1.50x faster than the best stock flags (95 % confidence: 1.40x to 1.60x)")
    assert "default 24.0 µs, best 12.0 µs" in said["cold cache"]
    assert said["candidates"] == "2 of 9 configurations and 1 route asked, 3 built, 0 duplicates, 3 timed, 0 failed"


def test_a_long_table_is_cut_on_the_screen_and_whole_with_verbose() -> None:
    printer = Printer()
    printer.table(Listing.of(["name"], [(f"row{n}",) for n in range(ROWS + 3)]))
    assert "and 3 more: -v shows them" in printer.text()
    assert f"row{ROWS}" not in printer.text()
    assert f"row{ROWS + 2}" in printer.text(verbose=True)


@pytest.mark.parametrize(
    ("ratio", "said"),
    [
        (Interval(2.749, 2.674, 2.856), "2.75x faster than it (95 % confidence: 2.67x to 2.86x)"),
        (Interval(250.0, 240.0, 260.4), "250x faster than it (95 % confidence: 240x to 260x)"),
        (Interval(0.362, 0.35, 0.4), "2.76x slower than it (95 % confidence: 2.50x to 2.86x)"),
        (Interval(1.004, 0.99, 1.01), "as fast as it (95 % confidence: 0.99x to 1.01x)"),
    ],
)
def test_a_ratio_is_said_as_people_say_it(ratio: Interval, said: str) -> None:
    assert ratio.over("it") == said


# --- what to do next --------------------------------------------------------------------------------------------------


WRONG = Reference("numpy", default_is_right=False, default_error=1.0)
DOCS = (Path(__file__).parents[2] / "docs" / "verdicts.md").read_text()


def result(verdict: FinalVerdict, *, timed: int = 0, interrupted: bool = False) -> Result:
    counts = replace(Counts(), timed=timed, rivals=timed)
    return replace(BARE, verdict=verdict, counts=counts, interrupted=interrupted)


@pytest.mark.parametrize(
    ("ended", "cause"),
    [
        (result("win", timed=3), None),
        (replace(result("win", timed=3), reference=WRONG), "default-fails"),
        (result("win", timed=3, interrupted=True), "interrupted"),
        (result("no-winner", timed=3), "no-gain"),
        (replace(result("no-winner"), cause="nothing-to-tune"), "nothing-to-tune"),
        (replace(result("no-winner", timed=3), reference=WRONG), "default-fails"),
        (replace(result("inconclusive"), reference=WRONG), "default-fails"),
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
    assert [line.split() for line in str(with_details(told, OneProblem())).splitlines()[:3]] == [
        ["verdict", "no-winner:"],
        ["problem", "gemm<1>", "on", "cpu", "(local-task)"],
        ["default", "10.0", "µs", "0.2", "GFLOP/s"],
    ]
    assert repr(told) == f"<Result {told.run}: no-winner, gemm<1> on cpu (local-task)>"
    slower = replace(told, speedup=Interval(0.527, 0.347, 0.926))
    assert repr(slower) == f"<Result {told.run}: no-winner, 0.527x, gemm<1> on cpu (local-task)>"


# --- one screen -------------------------------------------------------------------------------------------------------


LINES, COLUMNS = 24, 100
FOLDER = Path("/home/somebody/models/a-project/tuned")
LONG = replace(
    AGREE,
    problem={"op": "gemm", "name": "gemm_4096x4096x14336_bf16_bf16_nt_bias_residual_gelu", "flops": 10**12},
    reason=f"{Interval(2.0, 1.9, 2.1).over('IREE default')} on inputs that change (always the same: 2.31x)",
    stock=replace(RESULT.stock, flags=tuple(f"--iree-{'a-flag-of-this-length-' * 2}{n}=true" for n in range(5))),
    files=Files(FOLDER / "specs" / "a-name.mlir", FOLDER / "specs" / "a-name.flags", "microkernel"),
    notes=tuple(f"{word} is one of forty notes" for word in "abcdefgh" * 5),
    caches=CACHES,
)
ROW = Row(Entry(Gemm.parse(shape="4096x4096x14336"), 32), "win", result=LONG, speedup=LONG.speedup, error=1e-6)
GROUP = Group(FLAGS, "spec", (ROW.name,), 100.0, FOLDER / "specs" / "suite.mlir", FOLDER / "specs" / "suite.flags")


def of_a_job(details: Details, **changed: Any) -> Result[Any]:
    return Result(**{**vars(LONG), "details": details, **changed})


ARM = ArmFacts("default", "default", 114.3, command=("iree-compile …",) * 2)
MODEL = ModelDetails(
    shipped_kernels=(cast(KernelEntry, object()),) * 9,
    error=1e-4,
    executables=FOLDER / "specs" / "a-name.executables",
    kernel_spec=FOLDER / "specs" / "a-name.kernels.mlir",
    objects=FOLDER / "specs" / "a-name.objects",
    program=FOLDER / "a-name.mlir",
)
SUITE = SuiteDetails(
    Workload("unet", "a suite", "", (ROW.entry,) * 20),
    (*(ROW,) * 20, *(replace(ROW, verdict="left-out"),) * 20),
    Uplift.of([ROW] * 20, problems=40, us_total=1e6),
    (GROUP, GROUP, GROUP),
    estimate=False,
    folder=FOLDER / "results" / "unet",
)


@pytest.mark.parametrize(
    "shown",
    [
        LONG,
        replace(LONG, verdict="no-winner", files=Files()),
        replace(LONG, verdict="inconclusive", files=Files(), reference=WRONG, cause="noise"),
        replace(LONG, verdict="no-winner", best=None, files=Files(), cause="failed"),
        replace(LONG, verdict="compile-only", files=Files(), ranking=(AGREE.best,) * 5 if AGREE.best else ()),
        of_a_job(MODEL),
        of_a_job(MODEL, verdict="inconclusive", files=Files()),
        of_a_job(SUITE),
        of_a_job(replace(SUITE, groups=()), verdict="no-winner", files=Files()),
        of_a_job(AbDetails((ARM, replace(ARM, name=str(GROUP.flagfile), kind="flagfile")), difference=1e-5)),
        of_a_job(AbDetails((ARM, ARM), written=True)),
    ],
    ids=lambda shown: f"{type(shown.details).__name__}-{shown.verdict}-{shown.cause}",
)
def test_a_result_fits_one_screen(shown: Result[Any]) -> None:
    text = Printer.of(shown).text()
    assert sum(max(1, math.ceil(len(line) / COLUMNS)) for line in text.splitlines()) <= LINES, text


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
