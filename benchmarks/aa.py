"""How often the judge claims a win that is not there, and misses one that is: on a mock timer."""

from __future__ import annotations

import argparse
from collections import Counter
from statistics import median

from autotuner.measure.timeplan import LEAST_BLOCKS, SURE_BLOCKS
from tests.support.mock_timer import Outcome, claims_without_a_race, run_protocol

CANDIDATES = 50
NOISES = (0.015, 0.05, 0.15)
"""Of a repetition: a quiet machine, a busy one, one that others use, too."""


def identical() -> dict[str, float]:
    return {f"c{index}": 1.0 for index in range(CANDIDATES)}


def one_better(*, by: float, seed: int) -> dict[str, float]:
    """All as fast as the baseline but one, whose place in the screening the seed gives."""
    return identical() | {f"c{seed * 7 % CANDIDATES}": 1.0 + by}


def report(title: str, outcomes: list[Outcome], *, right: int) -> None:
    claims = [outcome.claimed for outcome in outcomes if outcome.claimed is not None]
    print(f"{title}: {len(outcomes)} runs of {CANDIDATES} candidates")
    print(f"  wins claimed   {len(claims)} ({len(claims) / len(outcomes):.1%}), right: {right}")
    print(f"  race verdicts  {dict(Counter(outcome.race_verdict for outcome in outcomes))}")
    if claims:
        print(f"  claimed ratio  median {median(claims):.4f}, {min(claims):.4f} to {max(claims):.4f}")
    print(f"  blocks raced   {dict(sorted(Counter(outcome.race_blocks for outcome in outcomes).items()))}")
    for part in ("screen", "race", "confirm"):
        mean = sum(outcome.repetitions_by_phase[part] for outcome in outcomes) / len(outcomes)
        print(f"  repetitions {part:8}{mean:6.0f}")
    print(f"  repetitions in all {sum(outcome.repetitions for outcome in outcomes) / len(outcomes):6.0f}")


def in_a_hurry(runs: int) -> None:
    """Where there is no time for a race, the best of the screening alone is confirmed."""
    print(f"A/A without a race: {runs} runs of {CANDIDATES} candidates each")
    for noise in NOISES:
        for blocks in (LEAST_BLOCKS, SURE_BLOCKS):
            claims = sum(
                claims_without_a_race(identical(), seed=seed, noise=noise, blocks=blocks) for seed in range(runs)
            )
            print(f"  noise {noise:5.1%}, {blocks} blocks: wins claimed {claims} ({claims / runs:.1%})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3000)
    parser.add_argument("--gain", type=float, default=0.03, help="how much faster the one better candidate is")
    options = parser.parse_args()
    outcomes = [run_protocol(identical(), seed=seed) for seed in range(options.runs)]
    report("A/A, nothing to find", outcomes, right=0)
    outcomes, right, screened_out = [], 0, 0
    for seed in range(options.runs):
        speeds = one_better(by=options.gain, seed=seed)
        better = max(speeds, key=lambda name: speeds[name])
        outcome = run_protocol(speeds, seed=seed)
        outcomes.append(outcome)
        right += outcome.winner == better
        screened_out += better not in outcome.in_race
    report(f"one candidate {options.gain:.0%} faster", outcomes, right=right)
    print(f"  lost in the screening {screened_out}")
    in_a_hurry(options.runs)


if __name__ == "__main__":
    main()
