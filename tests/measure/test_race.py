from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from autotuner.measure.blocks import BlockTimes, Entrant, RaceResult
from autotuner.measure.decision import decide
from autotuner.measure.race import Timekeeper, TimingFailed, confirm, race
from autotuner.measure.shortlist import Screened, pick_for_race, shortlist
from tests.support.mock_timer import BASELINE, MockTimer, run_protocol


def quiet_timer(speeds: Mapping[str, float], *, seed: int = 0, fails: Mapping[str, int] | None = None) -> MockTimer:
    """As a device with repeated dispatches is: 0.05 % noise."""
    rng = np.random.default_rng(seed)
    return MockTimer({BASELINE: 1.0, **speeds}, rng, noise=0.0005, spikes=0.0, fails=fails)


def run(timer: MockTimer, *, complexity: Mapping[str, int] | None = None, keep: tuple[str, ...] = ()) -> RaceResult:
    entrants = [Entrant(name, (complexity or {}).get(name, 0)) for name in timer.speeds]
    return race(entrants, Timekeeper(timer, np.random.default_rng(1)), baseline=BASELINE, keep=keep)


def test_a_clear_winner_wins_at_the_first_look() -> None:
    result = run(quiet_timer({"a": 1.20, "b": 1.05, "c": 0.9}))
    decision = decide(result)
    assert (decision.verdict, decision.winner, result.blocks) == ("win", "a", 12)
    assert decision.speedup is not None
    assert decision.speedup.low < 1.20 < decision.speedup.high
    assert result.ended == "settled"


def test_candidates_as_fast_as_the_baseline_end_with_no_winner() -> None:
    result = run(quiet_timer({"a": 1.0, "b": 1.002}))
    assert decide(result).verdict == "no-winner"
    assert result.blocks == 12
    assert {drop.reason for drop in result.dropped.values()} == {"no-gain"}


def test_a_gain_below_the_smallest_worth_shipping_is_no_win() -> None:
    assert decide(run(quiet_timer({"a": 1.007}))).verdict == "no-winner"


def test_what_noise_hides_to_the_last_look_is_inconclusive() -> None:
    rng = np.random.default_rng(3)
    timer = MockTimer({BASELINE: 1.0, "a": 1.01}, rng, noise=0.05)
    result = run(timer)
    assert (decide(result).verdict, result.ended, result.blocks) == ("inconclusive", "last-look", 48)


def test_a_spent_budget_is_inconclusive_however_good_it_looks() -> None:
    timer = quiet_timer({"a": 2.0})
    result = race(
        [Entrant(BASELINE), Entrant("a")],
        Timekeeper(timer, np.random.default_rng(0), should_stop=lambda: len(timer.calls) >= 10),
        baseline=BASELINE,
    )
    assert (result.ended, result.blocks) == ("stopped", 5)
    assert decide(result).verdict == "inconclusive"
    assert decide(result).winner is None


def test_each_block_times_every_survivor_once_in_changing_order() -> None:
    timer = quiet_timer({"a": 1.0, "b": 1.0, "c": 1.0})
    run(timer)
    blocks = [tuple(timer.calls[start : start + 4]) for start in range(0, 48, 4)]
    assert all(sorted(block) == sorted(timer.speeds) for block in blocks)
    assert len(set(blocks)) > 3


def test_a_beaten_entrant_is_dropped_and_timed_no_more() -> None:
    # A rival too close to call keeps the race going, so that the drop shows in the later blocks.
    speeds = {BASELINE: 1.0, "a": 1.20, "b": 1.20, "slow": 1.04}
    timer = MockTimer(speeds, np.random.default_rng(0), noise=0.015, spikes=0.0)
    result = run(timer)
    assert result.blocks > 12
    assert result.dropped["slow"].reason == "beaten"
    at = result.dropped["slow"].block
    assert all(time is not None for time in result.times["slow"][:at])
    assert all(time is None for time in result.times["slow"][at:])
    assert "slow" not in result.survivors


def test_kept_entrants_stay_to_the_end_and_have_a_ratio() -> None:
    result = run(quiet_timer({"a": 1.5, "stock": 1.2}), keep=("stock",))
    assert "stock" in result.survivors
    over_stock = result.ratio("a", "stock", alpha=0.05)
    assert over_stock is not None
    assert over_stock.low < 1.25 < over_stock.high
    assert decide(result).winner == "a"


def test_of_two_that_cannot_be_told_apart_the_simpler_wins() -> None:
    timer = quiet_timer({"complex": 1.20, "simple": 1.20})
    decision = decide(run(timer, complexity={"complex": 5, "simple": 2}))
    assert decision.winner == "simple"
    assert set(decision.tied) == {"complex", "simple"}


def test_the_simpler_does_not_win_when_it_is_beaten() -> None:
    timer = quiet_timer({"complex": 1.20, "simple": 1.17})
    assert decide(run(timer, complexity={"complex": 5, "simple": 2})).winner == "complex"


def test_a_failing_entrant_leaves_and_the_race_goes_on() -> None:
    result = run(quiet_timer({"a": 1.3, "crashes": 1.5}, fails={"crashes": 4}))
    assert (result.dropped["crashes"].block, result.dropped["crashes"].reason) == (4, "failed")
    assert result.times["crashes"][3:] == (None,) * (result.blocks - 3)
    assert decide(result).winner == "a"


def test_a_time_that_is_no_number_counts_as_a_failure() -> None:
    times = {BASELINE: 1.0, "a": float("nan"), "b": 0.5}
    result = race(
        [Entrant(name) for name in times],
        Timekeeper(lambda name: times[name], np.random.default_rng(0)),
        baseline=BASELINE,
    )
    assert result.dropped["a"].reason == "failed"
    assert decide(result).winner == "b"


def test_when_all_candidates_fail_there_is_no_winner_and_the_reason_says_so() -> None:
    result = run(quiet_timer({"a": 1.3, "b": 1.3}, fails={"a": 1, "b": 2}))
    assert result.blocks == 2
    assert decide(result).verdict == "no-winner"
    assert "2 of 2 could not be timed" in decide(result).reason


def test_a_failing_baseline_ends_the_race() -> None:
    with pytest.raises(TimingFailed):
        run(quiet_timer({"a": 1.3}, fails={BASELINE: 3}))


def test_every_timing_is_reported_as_it_happens() -> None:
    seen: list[tuple[int, str, float]] = []
    timer = quiet_timer({"a": 1.2})
    result = race(
        [Entrant(BASELINE), Entrant("a")],
        Timekeeper(
            timer, np.random.default_rng(0), on_timing=lambda block, name, time: seen.append((block, name, time))
        ),
        baseline=BASELINE,
    )
    assert len(seen) == result.timings == len(timer.calls)
    assert all(result.times[name][block - 1] == time for block, name, time in seen)


@pytest.mark.parametrize("names", [["a", "b"], [BASELINE, "a", "a"]])
def test_entrants_without_baseline_or_with_twins_are_refused(names: list[str]) -> None:
    with pytest.raises(ValueError, match="distinct ids"):
        race([Entrant(name) for name in names], Timekeeper(lambda _: 1.0, np.random.default_rng(0)), baseline=BASELINE)


def test_a_ratio_is_taken_within_blocks_so_drift_cancels() -> None:
    drift = np.linspace(1.0, 3.0, 12)
    times = BlockTimes({"base": tuple(drift * 1.1), "cand": tuple(drift)})
    ratio = times.ratio("cand", "base", alpha=0.05)
    assert ratio is not None
    assert (ratio.low, ratio.median, ratio.high) == pytest.approx((1.1, 1.1, 1.1))


def test_confirmation_reports_an_interval_that_holds_the_truth() -> None:
    timer = quiet_timer({"a": 1.1, "stock": 1.05})
    proof = confirm("a", Timekeeper(timer, np.random.default_rng(0)), baseline=BASELINE, beside=["stock"], blocks=12)
    assert proof.holds
    assert proof.speedup is not None
    assert proof.speedup.low <= 1.1 <= proof.speedup.high
    assert proof.ratio("a", "stock", alpha=0.05) is not None
    assert proof.blocks == 12


@pytest.mark.parametrize(("speed", "verdict"), [(1.1, "win"), (1.002, "no-winner"), (0.9, "no-winner")])
def test_what_does_not_hold_up_is_not_confirmed(speed: float, verdict: str) -> None:
    timer = quiet_timer({"a": speed})
    proof = confirm("a", Timekeeper(timer, np.random.default_rng(0)), baseline=BASELINE, blocks=12)
    assert proof.verdict == verdict


def test_too_few_blocks_confirm_nothing() -> None:
    timer = quiet_timer({"a": 1.5})
    proof = confirm("a", Timekeeper(timer, np.random.default_rng(0)), baseline=BASELINE, blocks=4)
    assert (proof.verdict, proof.speedup) == ("inconclusive", None)


def test_a_winner_that_fails_on_the_second_occasion_is_not_confirmed() -> None:
    timer = quiet_timer({"a": 1.5}, fails={"a": 9})
    proof = confirm("a", Timekeeper(timer, np.random.default_rng(0)), baseline=BASELINE, blocks=12)
    assert proof.verdict == "inconclusive"
    assert "block 9" in proof.reason


def test_the_screening_takes_drift_out_of_the_order() -> None:
    # The device gets 1 % slower with every timing: as read, the slowest candidate comes first.
    names = ["base", "slow", "base", "even", "base", "fast", "base"]
    true = {"base": 1.0, "slow": 1.01, "even": 1.0, "fast": 0.99}
    screened = [Screened(name, true[name] * 1.01**place) for place, name in enumerate(names)]
    assert pick_for_race(screened, baseline="base", count=2) == ["fast", "even"]


def test_the_shortlist_screens_again_what_was_near_the_line() -> None:
    lucky = {f"c{i}": 1.0 for i in range(10)} | {"fast": 1.1}
    timer = quiet_timer(lucky)
    screened = [Screened(BASELINE, 1e-3), *(Screened(name, 1e-3) for name in lucky), Screened(BASELINE, 1e-3)]
    screened[-2] = Screened("fast", 1.0004e-3)
    assert pick_for_race(screened, baseline=BASELINE, count=8).count("fast") == 0
    assert "fast" in shortlist(screened, baseline=BASELINE, time_one=timer, count=8)


def test_identical_candidates_are_never_called_a_win() -> None:
    outcomes = [run_protocol({f"c{i}": 1.0 for i in range(50)}, seed=1000 + seed) for seed in range(40)]
    assert not [outcome for outcome in outcomes if outcome.winner is not None]


def test_one_candidate_three_percent_faster_is_found() -> None:
    found = 0
    for seed in range(40):
        speeds = {f"c{i}": 1.0 for i in range(50)} | {f"c{seed}": 1.03}
        found += run_protocol(speeds, seed=2000 + seed).winner == f"c{seed}"
    assert found >= 38


def test_a_confirmation_ends_at_the_look_where_its_verdict_is_certain() -> None:
    for speed, verdict in ((1.5, "win"), (0.8, "no-winner")):
        keeper = Timekeeper(quiet_timer({"a": speed}), np.random.default_rng(0))
        proof = confirm("a", keeper, baseline=BASELINE, blocks=24, looks=(7, 12))
        assert (proof.verdict, proof.blocks, proof.cut) == (verdict, 7, False)


def test_looks_of_a_confirmation_do_not_make_false_wins() -> None:
    """No gain at all beyond what is needed, and 5 % noise: at 5 % in all, 2.5 % on the side of a win."""
    wins, rounds = 0, 1200
    for seed in range(rounds):
        rng = np.random.default_rng(seed)
        keeper = Timekeeper(MockTimer({BASELINE: 1.0, "a": 1.01}, rng, noise=0.05, spikes=0.0), rng)
        wins += confirm("a", keeper, baseline=BASELINE, blocks=24, looks=(7, 12)).holds
    assert wins / rounds < 0.03
