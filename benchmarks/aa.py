"""How often the judge claims a win that is not there, and how soon it finds one that is.

python -m benchmarks.aa                  pairs of all kinds, then whole searches on a mock timer
python -m benchmarks.aa --replay         the recorded blocks of results/reference, each backend against each other
"""

from __future__ import annotations

import argparse
import json
import math
from collections import Counter
from collections.abc import Iterator
from itertools import permutations
from pathlib import Path
from statistics import median

import numpy as np
import numpy.typing as npt

from autotuner.measure.blocks import Rules
from autotuner.measure.evidence import evidence
from autotuner.measure.judge import MOST_PAIRS
from tests.support.mock_timer import Outcome, run_protocol

Logs = npt.NDArray[np.float64]
CANDIDATES = 50
KINDS = (
    *[(noise, "even") for noise in (0.005, 0.015, 0.05, 0.15)],
    *[(0.015, kind) for kind in ("drift", "spikes", "heavy", "spells")],
    (0.05, "spells"),
)
"""Of a repetition: a quiet machine, a busy one, one that others use, too; and what else is wrong with it."""
GAINS = (1.0, 1.03, 1.2, 3.0, 10.0)


def decided(logs: Logs) -> tuple[str, int]:
    """The verdict of a confirmation, and after how many pairs: looked at after each."""
    rules, values = Rules(), [float(one) for one in logs]
    needed, worth = math.log(2 / rules.alpha), math.log(rules.worth)
    for count in range(1, len(values) + 1):
        if evidence(values[:count], worth) > needed:
            return "win", count
        if evidence([-one for one in values[:count]], -worth) > needed:
            return "no-winner", count
    return "inconclusive", len(values)


def pairs(rng: np.random.Generator, *, gain: float, noise: float, kind: str) -> Logs:
    """Log ratios; a timing is the median of three repetitions."""

    def timing(place: npt.NDArray[np.int64]) -> Logs:
        noises = (
            noise * rng.standard_t(2, (MOST_PAIRS, 3)) if kind == "heavy" else rng.normal(0, noise, (MOST_PAIRS, 3))
        )
        if kind == "drift":  # slow waves of 2 %, and one repetition in fifty takes up to 1.8 times as long
            noises += np.log(1 + 0.01 * np.sin(2 * np.pi * place[:, None] / 133))
            noises += (rng.random(noises.shape) < 0.02) * np.log(rng.uniform(1, 1.8, noises.shape))
        if kind == "spikes":  # one repetition in ten takes 1.2 to 2 times as long
            noises += (rng.random(noises.shape) < 0.1) * rng.uniform(0.2, 0.7, noises.shape)
        if kind == "spells":  # for some timings the machine is slow
            noises += (rng.random((MOST_PAIRS, 1)) < 0.15) * rng.uniform(0.1, 0.6, (MOST_PAIRS, 1))
        return np.asarray(np.median(noises, axis=1))

    first = rng.integers(0, 2, MOST_PAIRS)
    turns = 2 * np.arange(MOST_PAIRS) + int(rng.integers(0, 133))
    return math.log(gain) + timing(turns + first) - timing(turns + 1 - first)


def simulated(runs: int) -> None:
    print(f"pairs of one candidate and the baseline, at most {MOST_PAIRS}, looked at after each: {runs} runs a row")
    print(f"{'noise':>6} {'kind':7}{'true':>6}{'win':>9}{'no winner':>11}{'open':>8}{'pairs: median':>15}{'90 %':>6}")
    for noise, kind in KINDS:
        for gain in GAINS:
            rng = np.random.default_rng((runs, round(1e4 * noise), round(100 * gain)))
            found = [decided(pairs(rng, gain=gain, noise=noise, kind=kind)) for _ in range(runs)]
            shares = [
                sum(verdict == one for verdict, _ in found) / runs for one in ("win", "no-winner", "inconclusive")
            ]
            counts = sorted(count for _, count in found)
            wins, none, rest = shares
            print(
                f"{noise:6.3f} {kind:7}{gain:6.2f}{wins:9.2%}{none:11.1%}{rest:8.1%}"
                f"{median(counts):15.0f}{counts[int(0.9 * (runs - 1))]:6}",
                flush=True,
            )


def recorded(folder: Path) -> Iterator[tuple[str, Logs]]:
    """Blocks that `autotune bench` timed side by side: whose, and log ratios of two backends."""
    for path in sorted(folder.rglob("*.json")):
        document = json.loads(path.read_text())
        bench = document.get("bench", document) if isinstance(document, dict) else {}
        problems = bench.get("problems") if isinstance(bench, dict) else None
        for problem in problems if isinstance(problems, list) else []:
            rows = [row["blocks_us"] for row in problem.get("backends", ()) if row.get("blocks_us")]
            for own, others in permutations(rows, 2):
                count = min(len(own), len(others))
                yield path.parent.name, np.log(np.array(others[:count]) / np.array(own[:count]))


def replayed(folder: Path) -> None:
    """What the rule says of them, and after how many pairs; by the ratio that all blocks together show."""
    found: dict[tuple[str, str], list[tuple[str, int]]] = {}
    for name, logs in recorded(folder):
        ratio = math.exp(float(np.median(logs)))
        kinds = ((0.98, "below 0.98"), (1.02, "0.98 to 1.02"), (1.2, "1.02 to 1.2"), (math.inf, "above 1.2"))
        kind = next(words for limit, words in kinds if ratio < limit)
        found.setdefault((name, kind), []).append(decided(logs))
    print(f"{'results of':12}{'ratio':14}{'series':>7}{'win':>6}{'no winner':>11}{'open':>6}{'pairs: median':>15}")
    for (name, kind), rows in sorted(found.items()):
        verdicts = Counter(verdict for verdict, _ in rows)
        shown = "".join(
            f"{verdicts[one]:{width}}" for one, width in (("win", 6), ("no-winner", 11), ("inconclusive", 6))
        )
        print(f"{name:12}{kind:14}{len(rows):7}{shown}{median(count for _, count in rows):15.0f}")


def report(title: str, outcomes: list[Outcome], *, right: int) -> None:
    claims = [outcome.claimed for outcome in outcomes if outcome.claimed is not None]
    print(f"{title}: {len(outcomes)} runs of {CANDIDATES} candidates")
    print(f"  wins claimed   {len(claims)} ({len(claims) / len(outcomes):.1%}), right: {right}")
    print(f"  verdicts       {dict(Counter(outcome.verdict for outcome in outcomes))}")
    if claims:
        print(f"  claimed ratio  median {median(claims):.4f}, {min(claims):.4f} to {max(claims):.4f}")
    for part in ("screen", "race", "confirm"):
        mean = sum(outcome.repetitions[part] for outcome in outcomes) / len(outcomes)
        blocks = median(outcome.blocks.get(part, 0) for outcome in outcomes)
        print(f"  {part:8} {mean:6.0f} repetitions{f', {blocks:.0f} blocks in the median' if blocks else ''}")


def searched(runs: int, gain: float) -> None:
    identical = {f"c{index}": 1.0 for index in range(CANDIDATES)}
    report("A/A, nothing to find", [run_protocol(identical, seed=seed) for seed in range(runs)], right=0)
    outcomes, right, screened_out = [], 0, 0
    for seed in range(runs):
        better = f"c{seed * 7 % CANDIDATES}"
        outcome = run_protocol(identical | {better: 1.0 + gain}, seed=seed)
        outcomes.append(outcome)
        right += outcome.winner == better
        screened_out += better not in outcome.in_race
    report(f"one candidate {gain:.0%} faster", outcomes, right=right)
    print(f"  lost in the screening {screened_out}")
    for noise in (0.015, 0.05, 0.15):
        claims = sum(run_protocol(identical, seed=s, noise=noise, entrants=1).winner is not None for s in range(runs))
        print(f"A/A without a race, noise {noise:5.1%}: wins claimed {claims} ({claims / runs:.1%})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=2000, help="of each row; whole searches have a tenth of it")
    parser.add_argument("--gain", type=float, default=0.03, help="how much faster the one better candidate is")
    parser.add_argument("--replay", action="store_true", help="recorded timings in place of simulated ones")
    options = parser.parse_args()
    if options.replay:
        replayed(Path("results/reference"))
        return
    simulated(options.runs)
    searched(max(options.runs // 10, 1), options.gain)


if __name__ == "__main__":
    main()
