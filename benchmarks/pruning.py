"""Whether what the pruning rules reject deserves it: `python -m benchmarks.pruning --target gfx942 --count 20`.

For each rule and problem, a random sample of the configurations that this rule alone rejects is built. A false reject
is one that builds; for the register rule, one that builds and does not spill. Of rules that reject wrong results what
builds says nothing. Nothing is timed.
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
from autotuner.problems import Gemm, Problem
from autotuner.problems.attention import Attention
from autotuner.problems.conv import Conv
from autotuner.space.prune import REGISTERS, RULES, UNORDERED, UNSWIZZLED, Rule
from autotuner.system.cache import Cache
from benchmarks.machine import machine
from benchmarks.success import build_all, inverted, make_plan, parser, read_space, with_space

PROBLEMS: dict[str, tuple[Problem, ...]] = {
    "gemm": (Gemm.parse(shape="4096x4096x4096"), Gemm.parse(shape="1000x1280x1280")),
    "conv": (
        Conv.parse(shape="2x32x32x1280", filter="3x3x1280", pad="1x1"),
        Conv.parse(shape="1x56x56x64", filter="3x3x64", pad="1x1"),
        Conv.parse(shape="2x32x32x128", filter="3x3x128", stride="2x2", pad="1x1"),
    ),
    "attention": (Attention.parse(shape="1x8x1024x1024x64"), Attention.parse(shape="1x8x1024x1024x128")),
}
WRONG_RESULTS = (UNORDERED, UNSWIZZLED)
"""Rules that also reject what builds and computes something else: `python -m benchmarks.emulated` found them."""
ALLOWED = 0.01
"""The share of false rejects that a rule may have."""


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
        """Builds that say whether the rule is right: PTX tells no spills, and no build wrong results."""
        return sum(self._false(b) is not None for b in self.builds)

    @property
    def wrong(self) -> int:
        return sum(self._false(b) is True for b in self.builds)

    def _false(self, build: Compiled) -> bool | None:
        if not build.ok:
            return False
        if self.rule is not REGISTERS:
            return None if self.rule in WRONG_RESULTS else True
        spills = build.isa.vgpr_spills
        return None if spills is None else spills == 0

    def line(self) -> str:
        head = f"{self.rule.name:<14} {self.target:<8} {self.problem:<44}"
        return (
            f"{head} {self.rejected:>8,} rejected {self.known:>4} of {len(self.builds):<4} known {self.wrong:>3} wrong"
        )


def sample(
    problem: Problem, target: str, rules: Sequence[Rule], builder: Builder, executor: Executor, *, count: int, seed: int
) -> Iterator[Sample]:
    """One sample for each of these rules that rejects something of this problem on its own."""
    plan = make_plan(problem, target, builder, executor)
    for rule in rules:
        others = [r for r in RULES if r is not rule]
        try:
            rejected = with_space(plan, read_space(plan, builder, [*others, inverted(rule)]))
        except NoCandidateError:
            continue
        rng = np.random.default_rng(seed)
        configs = [rejected.space[int(row)] for row in rejected.space.sample(count, rng)]
        builds = build_all(rejected, configs, builder, executor)
        yield Sample(rule, problem.name, target, len(rejected.space), builds)


def rates(samples: Sequence[Sample]) -> list[str]:
    lines = []
    for rule in RULES:
        own = [s for s in samples if s.rule is rule]
        known, wrong = sum(s.known for s in own), sum(s.wrong for s in own)
        rate = f"{wrong / known:.1%}" if known else "no case"
        lines.append(f"{rule.name:<14} {wrong:>3} of {known:<4} false rejects ({rate})  {rule.reason}")
    return lines


def main() -> int:
    options = parser(__doc__)
    options.add_argument("--rule", nargs="+", choices=[rule.name for rule in RULES], default=[r.name for r in RULES])
    arguments = options.parse_args()
    rules = [rule for rule in RULES if rule.name in arguments.rule]
    lines = [f"{machine()}; seed {arguments.seed}, allowed {ALLOWED:.0%}"]
    print(lines[0], flush=True)
    samples: list[Sample] = []
    with tempfile.TemporaryDirectory() as cache, ThreadPoolExecutor(arguments.jobs) as executor:
        builder = Builder(Tools.find(), Cache(Path(cache)))
        for target in arguments.target:
            for problem in (p for op in arguments.op for p in PROBLEMS[op]):
                wanted = {"count": arguments.count, "seed": arguments.seed}
                for found in sample(problem, target, rules, builder, executor, **wanted):
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
