"""The screen of a result: it is short, agrees with itself, and -v has the rest."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest

from autotuner.jobs.ab.result import AbDetails
from autotuner.jobs.model.entries import KernelEntry
from autotuner.jobs.model.result import ModelDetails
from autotuner.measure.blocks import Interval
from autotuner.measure.caches import Caches, Pair
from autotuner.system.listing import Listing
from autotuner.system.text import count
from autotuner.tuning.printer import ROWS, Printer
from autotuner.tuning.result import Best, Counts, Measured, Result
from tests.tuning.test_result import RESULT

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
    said = result.printer().text(verbose=verbose).splitlines()
    return {line[:11].strip(): line[11:] for line in said if line.strip()}


def test_the_screen_has_verdict_times_and_files_and_no_details() -> None:
    said = lines(replace(AGREE, caches=CACHES, notes=("the device drifts",)))
    assert [*said] == ["verdict", "problem", "default", "best", "spec", "flags", "use", "more"]
    assert said["best"].split()[:4] == ["100.0", "µs", "0.0102", "GFLOP/s"]
    assert said["use"].startswith("iree-compile your_program.mlir @")


def test_details_come_with_verbose() -> None:
    said = lines(replace(RESULT, caches=CACHES, counts=AGREE.counts), verbose=True)
    assert said["over stock"].startswith("1.50x faster than the best stock flags (95 % confidence: 1.40x to 1.60x)")
    assert "default 24.0 µs, best 12.0 µs" in said["cold cache"]
    assert said["candidates"] == "2 of 9 configurations and 1 route asked, 3 built, 0 duplicates, 3 timed, 0 failed"


def test_a_note_is_counted_and_not_repeated() -> None:
    drifts = tuple(f"the device drifts: the baseline now takes 0.{n} of its first time" for n in (77, 48, 40))
    said = replace(AGREE, notes=("another", *drifts)).printer().text(verbose=True)
    assert said.count("drifts") == 1
    assert "takes 0.40 of its first time (3 times)" in said


def test_a_long_table_is_cut_on_the_screen_and_whole_with_verbose() -> None:
    printer = Printer()
    printer.table(Listing.of(["name"], [(f"row{n}",) for n in range(ROWS + 3)]))
    assert "and 3 more: -v shows them" in printer.text()
    assert f"row{ROWS}" not in printer.text()
    assert f"row{ROWS + 2}" in printer.text(verbose=True)


def test_the_default_alone_is_no_best() -> None:
    alone = replace(AGREE, verdict="no-winner", speedup=None, counts=replace(AGREE.counts, timed=1, rivals=0))
    assert "best" not in lines(alone)
    assert "best" in lines(AGREE)


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


@pytest.mark.parametrize(
    ("number", "what", "said"),
    [(1, "call", "1 call"), (2, "entry", "2 entries"), (0, "dispatch", "0 dispatches"), (1, "entry", "1 entry")],
)
def test_a_number_goes_with_its_noun(number: int, what: str, said: str) -> None:
    assert count(number, what) == said


def test_an_experiment_that_had_no_time_for_its_arms_is_told_all_the_same() -> None:
    reason = "ran out of time before both arms were compared. Try --budget 20s"
    values = {**vars(RESULT), "verdict": "inconclusive", "reason": reason, "speedup": None, "details": AbDetails()}
    assert f"verdict    inconclusive: {reason}" in str(Result(**values))


def test_what_nobody_asked_for_is_not_counted() -> None:
    assert "candidates" not in lines(replace(AGREE, verdict="inconclusive", counts=Counts()), verbose=True)
    said = "no configuration and 1 route asked, 1 built, 0 duplicates, 0 timed, 0 failed"
    assert lines(replace(AGREE, counts=Counts(asked=1, routes=1, built=1)), verbose=True)["candidates"] == said


def test_a_model_that_microkernels_alone_won_has_the_ratio_to_the_best_route() -> None:
    kernels = (cast(KernelEntry, object()),)  # counted, no more
    won: Result = Result(**{**vars(RESULT), "details": ModelDetails(shipped_kernels=kernels)})
    assert lines(won, verbose=True)["over stock"].startswith("1.50x faster")
    assert lines(won)["best"].endswith("1 microkernel")
    assert "over stock" not in lines(Result(**{**vars(won), "details": ModelDetails()}), verbose=True)
