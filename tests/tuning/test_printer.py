"""What the screen says of times and counts agrees with itself."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest

from autotuner.jobs.ab.result import AbDetails
from autotuner.jobs.model.entries import KernelEntry
from autotuner.jobs.model.result import ModelDetails
from autotuner.measure.blocks import Interval
from autotuner.measure.caches import Caches, Pair
from autotuner.system.text import count
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


def lines(result: Result) -> dict[str, str]:
    return {line[:11].strip(): line[11:] for line in str(result).splitlines() if line.strip()}


def test_times_that_agree_with_the_ratio_need_no_words() -> None:
    said = lines(AGREE)
    assert said["speedup"] == "1.143x over default, 95 % interval 1.101 to 1.190"
    assert "another ratio" not in str(AGREE)


def test_times_that_cannot_agree_with_the_ratio_have_one_sentence() -> None:
    apart = replace(AGREE, baseline=Measured(258.4), best=Best(Measured(306.1), {"tile_m": 8}))
    sentence = "from pairs timed side by side; the machine's speed changed between pairs, so the two times alone give"
    assert f"{sentence} another ratio (0.844)" in str(apart)
    within = replace(AGREE, baseline=Measured(118.0))
    assert f"{sentence} another ratio (1.180)" in str(within), "within the interval, and still another"


def test_configurations_and_routes_are_counted_apart() -> None:
    said = "2 of 9 configurations and 1 route asked, 3 built, 0 duplicates, 3 timed, 0 failed"
    assert lines(AGREE)["candidates"] == said


def test_the_default_alone_is_no_best() -> None:
    alone = replace(AGREE, verdict="no-winner", speedup=None, counts=replace(AGREE.counts, timed=1, rivals=0))
    assert "best" not in lines(alone)
    assert "best" in lines(AGREE)


@pytest.mark.parametrize(
    ("number", "what", "said"),
    [(1, "call", "1 call"), (2, "entry", "2 entries"), (0, "dispatch", "0 dispatches"), (1, "entry", "1 entry")],
)
def test_a_number_goes_with_its_noun(number: int, what: str, said: str) -> None:
    assert count(number, what) == said


def test_an_experiment_that_had_no_time_for_its_arms_is_told_all_the_same() -> None:
    reason = "nothing was tried, the time was up before both arms were compared: --budget 20s would do"
    values = {**vars(RESULT), "verdict": "inconclusive", "reason": reason, "speedup": None, "details": AbDetails()}
    assert f"verdict    inconclusive: {reason}" in str(Result(**values))


def test_what_nobody_asked_for_is_not_counted() -> None:
    assert "candidates" not in lines(replace(AGREE, verdict="inconclusive", counts=Counts()))
    said = "no configuration and 1 route asked, 1 built, 0 duplicates, 0 timed, 0 failed"
    assert lines(replace(AGREE, counts=Counts(asked=1, routes=1, built=1)))["candidates"] == said


CACHES = Caches(Pair(20.0, 10.0), Pair(24.0, 12.0))
OVER = "1.500x over the best"


def test_the_ratio_to_the_best_flags_stands_under_the_speedup() -> None:
    said = str(replace(RESULT, caches=CACHES)).splitlines()
    names = [line[:11].strip() for line in said]
    at = names.index("speedup")
    assert said[at + 1].strip() == f"{OVER} stock route, 1.400 to 1.600"
    assert names[at + 2] == "cold cache"


def test_a_model_that_microkernels_alone_won_has_the_ratio_to_the_best_route() -> None:
    kernels = (cast(KernelEntry, object()),)  # counted, no more
    won = Result(**{**vars(RESULT), "caches": CACHES, "details": ModelDetails(shipped_kernels=kernels)})
    said = str(won).splitlines()
    at = next(i for i, line in enumerate(said) if line.startswith("speedup"))
    assert said[at + 1].strip() == f"{OVER} route, 1.400 to 1.600"
    assert said[at + 2].startswith("cold cache")
    assert OVER not in str(Result(**{**vars(won), "details": ModelDetails()}))
