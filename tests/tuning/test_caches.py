"""Warm and cold in whole runs: real compiles and checks, on a device whose times are chosen."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from autotuner import Result
from autotuner.jobs.buckets.bounds import Bucket
from autotuner.jobs.buckets.result import BucketResult
from autotuner.jobs.suite.rows import Row
from autotuner.jobs.suite.workload import Entry
from autotuner.measure.cache_timer import NO_TIME, NOT_EXCEEDED, ROUNDS
from autotuner.measure.caches import Cache, Caches, Pair
from autotuner.problems import Gemm
from autotuner.specfiles.entries import read
from autotuner.store.store import Store
from autotuner.tuning.printer import Printer
from autotuner.tuning.result import read_result
from tests.support.fake_tools import FakeTools, run
from tests.support.pretended_device import WARM, Pretended, pretend

Tune = Callable[..., tuple[Result, Pretended]]


@pytest.fixture
def tune(fake: Callable[..., FakeTools], workspace: Path, monkeypatch: pytest.MonkeyPatch) -> Tune:
    def tuned(*, cache: str = "both", trials: int = 2, **settings: object) -> tuple[Result, Pretended]:
        made = pretend(monkeypatch, **settings)
        return run(fake(), workspace, cache=cache, trials=trials), made[0]

    return tuned


def test_a_winner_is_timed_both_ways_and_all_that_is_shown_says_so(tune: Tune, workspace: Path) -> None:
    result, device = tune()
    assert result.verdict == "win"
    document = result.to_json()
    assert document["timing"] == {"state": "sustained", "cache": "warm"}
    assert document["warm"] == {"baseline_us": pytest.approx(WARM), "best_us": pytest.approx(0.5 * WARM)}
    assert document["cold"] == {"baseline_us": pytest.approx(1.1 * WARM), "best_us": pytest.approx(0.66 * WARM)}
    assert set(device.taken) == {"warm", "fresh"}, "single calls with a cold cache are no timings of the search"
    words = "default 110.000 ms, best 66.000 ms (1.667x); warm in the same turns: default 100.000 ms, best 50.000"
    assert f"cold cache {words}" in Printer.of(result).text(verbose=True)
    assert result.spec is not None
    assert f"// cold cache: {words}" in result.spec.read_text()
    (entry,) = read(result.spec).entries
    assert entry.provenance is not None
    assert entry.provenance.cold_us == pytest.approx(0.66 * WARM)
    assert entry.provenance.baseline_cold_us == pytest.approx(1.1 * WARM)
    assert not [note for note in result.notes if "cold" in note]
    with Store.open(None, workspace=workspace) as store:
        cold = [timing for timing in store.timings(result.run) if timing.phase == "cold"]
        row = Row(Entry(Gemm(8, 8, 8))).ended(result, store=store)
        assert row.listed()["cold"] == document["cold"], "a suite lists it with the problem"
    bucket = BucketResult(Bucket(1, 64, 64), result, "").to_json()
    assert (bucket["warm"], bucket["cold"]) == (document["warm"], document["cold"])
    assert len(cold) == 2 * ROUNDS
    assert all(timing.conditions is not None and timing.conditions.cache == "cold" for timing in cold)
    again = read_result(document, workspace=workspace, storage=None)
    assert (again.caches, again.timing) == (result.caches, result.timing)


def test_a_winner_that_loses_with_a_cold_cache_is_told_of(tune: Tune) -> None:
    result, _ = tune(cold=1.2, exceeds=False)
    assert result.verdict == "win"
    (note,) = [note for note in result.notes if "disagree" in note]
    assert note == "warm and cold disagree: with a cold cache the winner is slower than the baseline, 0.833x"
    assert NOT_EXCEEDED in result.notes


def test_a_cold_search_compares_single_calls_and_confirms_on_the_same_device(tune: Tune) -> None:
    result, device = tune(cache="cold", warm=1.05, cold=0.97)
    assert result.verdict == "win"
    document = result.to_json()
    assert document["timing"] == {"state": "sustained", "cache": "cold"}
    assert (document["baseline"]["us"], document["best"]["us"]) == (WARM, 0.97 * WARM)
    assert "fresh" not in device.taken
    first_cold = device.taken.index("cold")
    assert set(device.taken[first_cold : -2 * ROUNDS]) == {"cold"}, "nothing warm is compared with it"
    assert document["warm"]["best_us"] == pytest.approx(1.05 * WARM)
    assert document["cold"]["best_us"] == pytest.approx(1.1 * 0.97 * WARM)
    assert "--cache cold" in (result.spec.read_text() if result.spec else "")
    assert "warm and cold disagree: with a warm cache the winner is slower than the baseline, 0.952x" in result.notes


def test_a_warm_search_alone_says_nothing_of_a_cold_cache(tune: Tune) -> None:
    result, _ = tune(cache="warm", trials=1)
    document = result.to_json()
    assert (document["warm"], document["cold"]) == (None, None)
    assert "cold" not in Printer.of(result).text(verbose=True)


def test_where_no_time_is_left_it_is_said(tune: Tune) -> None:
    result, _ = tune(late=True)
    assert result.caches is None
    assert NO_TIME in result.notes


def test_where_only_the_default_itself_was_tried_the_verdict_says_so(tune: Tune) -> None:
    """The first configuration that is asked for is the compiler's own choice."""
    result, _ = tune(trials=1)
    if not result.counts.duplicate:
        pytest.skip("on this processor the compiler's own choice is none of the space's")
    assert (result.verdict, result.reason) == (
        "no-winner",
        "1 candidate tried, and each compiles to the code of IREE's default",
    )
    assert result.counts.rivals == 0


@pytest.mark.parametrize(
    ("warm", "cold", "judged", "won", "says"),
    [
        ((10, 5), (12, 13), "warm", True, "with a cold cache the winner is slower than the baseline, 0.923x"),
        ((10, 12), (12, 6), "cold", True, "with a warm cache the winner is slower than the baseline, 0.833x"),
        ((10, 5), (12, 6), "warm", True, None),
        ((10, 10), (12, 10), "warm", False, "with a cold cache the best beats the baseline, 1.200x"),
        ((10, 8), (12, 12), "cold", False, "with a warm cache the best beats the baseline, 1.250x"),
        ((10, 8), (12, 12), "warm", False, None),  # the verdict has said that it is not faster with a warm cache
        ((10, 10), (12, 11.9), "warm", False, None),
        ((10, None), (12, None), "warm", False, None),
    ],
)
def test_disagreement(
    warm: tuple[float, float | None], cold: tuple[float, float | None], judged: Cache, won: bool, says: str | None
) -> None:
    found = Caches(Pair(*warm), Pair(*cold)).disagreement(won=won, judged=judged)
    assert found == (f"warm and cold disagree: {says}" if says else None)
