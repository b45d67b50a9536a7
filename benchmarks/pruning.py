"""Whether what the pruning rules reject deserves it: `python -m benchmarks.pruning --target gfx942 --count 20`.

For each rule and problem, a random sample of the configurations that this rule alone rejects is built. A false reject
is one that builds; for the register rule, one that builds and does not spill. Nothing is timed.

What the rule `copies` rejects builds. It is judged by recorded times, with `--recorded benchmarks/replay/shapes …` for
each space: how much slower the best of what it rejects is than the best of all.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from autotuner.build import Builder, Compiled
from autotuner.errors import NoCandidateError
from autotuner.iree.tools import Tools
from autotuner.problems import Attention, Conv, Gemm, Problem
from autotuner.space.prune import COPIES, REGISTERS, RULES, Rule
from autotuner.system.cache import Cache
from benchmarks.learning import Recorded, read
from benchmarks.machine import machine
from benchmarks.success import build_all, make_plan, parser, read_space, with_space

PROBLEMS: dict[str, tuple[Problem, ...]] = {
    "gemm": (Gemm.parse(shape="4096x4096x4096"), Gemm.parse(shape="1000x1280x1280")),
    "conv": (
        Conv.parse(shape="2x32x32x1280", filter="3x3x1280", pad="1x1"),
        Conv.parse(shape="1x56x56x64", filter="3x3x64", pad="1x1"),
        Conv.parse(shape="2x32x32x128", filter="3x3x128", stride="2x2", pad="1x1"),
    ),
    "attention": (Attention.parse(shape="1x8x1024x1024x64"), Attention.parse(shape="1x8x1024x1024x128")),
}
JUDGED = tuple(rule for rule in RULES if rule is not COPIES)
"""By building what they reject."""
ALLOWED = 0.01
"""The share of false rejects that a rule may have."""
BEHIND = 1.25
"""How much slower than the best all that `COPIES` rejects must be."""


@dataclass(frozen=True)
class Sample:
    """Some of the configurations of one problem that one rule alone rejects."""

    rule: Rule
    problem: str
    target: str
    rejected: int
    builds: tuple[Compiled, ...]

    @property
    def known(self) -> int:
        """Builds that say whether the rule is right: PTX tells no spills."""
        return sum(self._false(b) is not None for b in self.builds)

    @property
    def wrong(self) -> int:
        return sum(self._false(b) is True for b in self.builds)

    def _false(self, build: Compiled) -> bool | None:
        if not build.ok:
            return False
        if self.rule is not REGISTERS:
            return True
        spills = build.isa.vgpr_spills
        return None if spills is None else spills == 0

    def line(self) -> str:
        head = f"{self.rule.name:<14} {self.target:<8} {self.problem:<44}"
        return (
            f"{head} {self.rejected:>8,} rejected {self.known:>4} of {len(self.builds):<4} known {self.wrong:>3} wrong"
        )


def sample(
    problem: Problem, target: str, builder: Builder, executor: Executor, *, count: int, seed: int
) -> Iterator[Sample]:
    """One sample for each rule that rejects something of this problem on its own."""
    plan = make_plan(problem, target, builder, executor)
    for rule in JUDGED:
        others = [r for r in RULES if r is not rule]
        try:
            rejected = with_space(plan, read_space(plan, builder, [*others, rule.inverted]))
        except NoCandidateError:
            continue
        rng = np.random.default_rng(seed)
        configs = [rejected.space[int(row)] for row in rejected.space.sample(count, rng)]
        builds = build_all(rejected, configs, builder, executor)
        yield Sample(rule, problem.name, target, len(rejected.space), builds)


def rates(samples: Sequence[Sample]) -> list[str]:
    lines = []
    for rule in JUDGED:
        own = [s for s in samples if s.rule is rule]
        known, wrong = sum(s.known for s in own), sum(s.wrong for s in own)
        rate = f"{wrong / known:.1%}" if known else "no case"
        lines.append(f"{rule.name:<14} {wrong:>3} of {known:<4} false rejects ({rate})  {rule.reason}")
    return lines


@dataclass(frozen=True)
class Slow:
    """What `COPIES` rejects of one recorded space."""

    name: str
    rows: int
    rejected: int
    ratio: float
    """The best time of these over the best of all; infinite where none is rejected."""

    def line(self) -> str:
        best = f"the best of them {self.ratio:.2f}x the best of all" if self.rejected else ""
        return f"{self.name:<48} {self.rejected:>4} of {self.rows:<5} rejected  {best}".rstrip()


def recorded_copies(recorded: Recorded, target: str, builder: Builder, executor: Executor) -> Slow:
    plan, recording = make_plan(recorded.problem, target, builder, executor), recorded.recording
    times = np.where(np.isnan(recording.times), np.inf, recording.times)
    try:
        rejecting = read_space(plan, builder, [COPIES.inverted]).space
        rejected = np.array([recording.space[row] in rejecting for row in range(len(times))])
    except NoCandidateError:
        rejected = np.zeros(len(times), bool)
    fastest = np.where(rejected, times, np.inf).min()
    return Slow(recording.name, len(times), int(rejected.sum()), float(fastest / times.min()))


def judge_recorded(folders: Sequence[Path], builder: Builder, executor: Executor) -> int:
    judged = []
    for recorded in (r for r in read(folders) if isinstance(r.problem, Gemm)):
        judged.append(recorded_copies(recorded, recorded.recording.name.rpartition("-")[2], builder, executor))
        print(judged[-1].line(), flush=True)
    rows, rejected = sum(slow.rows for slow in judged), sum(slow.rejected for slow in judged)
    nearest = min(slow.ratio for slow in judged)
    print(f"copies: {rejected} of {rows:,} rejected in {len(judged)} spaces, all {nearest:.2f}x their best or slower")
    return 0 if nearest >= BEHIND else 1


def main() -> int:
    options = parser(__doc__)
    options.add_argument("--recorded", nargs="+", type=Path, default=None, help="judge `copies` by these recordings")
    arguments = options.parse_args()
    if arguments.recorded is not None:
        with tempfile.TemporaryDirectory() as cache, ThreadPoolExecutor(arguments.jobs) as executor:
            return judge_recorded(arguments.recorded, Builder(Tools.find(), Cache(Path(cache))), executor)
    lines = [f"{machine()}; seed {arguments.seed}, allowed {ALLOWED:.0%}"]
    print(lines[0], flush=True)
    samples: list[Sample] = []
    with tempfile.TemporaryDirectory() as cache, ThreadPoolExecutor(arguments.jobs) as executor:
        builder = Builder(Tools.find(), Cache(Path(cache)))
        for target in arguments.target:
            for problem in (p for op in arguments.op for p in PROBLEMS[op]):
                for found in sample(problem, target, builder, executor, count=arguments.count, seed=arguments.seed):
                    samples.append(found)
                    lines.append(found.line())
                    print(found.line(), flush=True)
    lines += rates(samples)
    print("\n".join(rates(samples)))
    if arguments.output is not None:
        arguments.output.write_text("\n".join(lines) + "\n")
    return 0 if all(s.wrong <= ALLOWED * s.known for s in samples) else 1


if __name__ == "__main__":
    sys.exit(main())
