"""How many random candidates the compiler can build, and why it cannot build the rest.

    python -m benchmarks.success --op gemm conv attention --target gfx942 --count 100 --seed 0

Every candidate is built for real and must prove that its configuration arrived; nothing is timed.
The table also goes to a file, to be kept in results/reference.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from autotuner.build import Builder, Compiled
from autotuner.build.executor import BuildExecutor
from autotuner.errors import NoCandidateError
from autotuner.iree.tools import Tools
from autotuner.problems import Gemm, Problem
from autotuner.problems.attention import Attention
from autotuner.problems.conv import Conv
from autotuner.problems.render import problem_mlir
from autotuner.space import Config
from autotuner.space.dispatch import Batch, DispatchSpace
from autotuner.space.gpu import GpuSpace
from autotuner.space.gpu_attention import AttentionSpace
from autotuner.space.prune import Rule
from autotuner.system.cache import Cache
from autotuner.targets import Target
from autotuner.tuning.plan import Plan
from benchmarks.machine import machine

TIMEOUT = 120.0
SPACE_FLAGS = ("--iree-codegen-add-tuner-attributes", "--iree-codegen-emit-pipeline-constraints")
PROBLEMS: dict[str, Problem] = {
    "gemm": Gemm.parse(shape="4096x4096x4096", dtype="f16"),
    "conv": Conv.parse(shape="2x32x32x1280", filter="3x3x1280", pad="1x1", dtype="f16"),
    "attention": Attention.parse(shape="1x8x1024x1024x64", dtype="f16"),
}
WANTED = {"gemm": 0.95, "conv": 0.95, "attention": 0.85}
"""The share of candidates that is to build."""


@dataclass(frozen=True)
class Outcome:
    """What became of one problem's candidates on one target."""

    op: str
    target: str
    configurations: int
    builds: tuple[Compiled, ...]

    @property
    def rate(self) -> float:
        return sum(b.ok for b in self.builds) / max(len(self.builds), 1)

    def lines(self) -> list[str]:
        spills = sum(b.ok and bool(b.isa.vgpr_spills) for b in self.builds)
        built = sum(b.ok for b in self.builds)
        seconds = sum(b.seconds for b in self.builds) / max(len(self.builds), 1)
        head = f"{self.op:<10} {self.target:<8} {self.configurations:>9,} {built:>4} of {len(self.builds):<4}"
        head += f" {self.rate:>6.1%}  wanted {WANTED[self.op]:.0%}  {spills:>3} spill  {seconds:>5.1f} s each"
        reasons = Counter(reason(b) for b in self.builds if not b.ok)
        return [head, *(f"    {count:>3}  {words}" for words, count in reasons.most_common())]


def reason(build: Compiled) -> str:
    """The compiler's words without names and numbers, so that equal causes have equal words."""
    if build.failure != "compile-error":
        return str(build.failure)
    lines = [line.split("error:", 1)[1] for line in build.stderr.splitlines() if "error:" in line]
    if not lines:
        return "the compiler crashed"
    return re.sub(r"\d+", "N", re.sub(r"%[\w#:]+", "%x", lines[0])).strip()[:110]


def build_all(plan: Plan, configs: Sequence[Config], builder: Builder, executor: Executor) -> tuple[Compiled, ...]:
    candidates = [plan.candidate(config, id=f"c{i}") for i, config in enumerate(configs)]
    jobs = [plan.job(c, timeout=TIMEOUT) for c in candidates]
    return tuple(executor.map(builder.build, jobs))


def make_plan(problem: Problem, target: str, builder: Builder, executor: Executor) -> Plan:
    chip = Target.parse(target)
    return Plan.make(chip.prepare(problem), chip, BuildExecutor.on(executor, builder), timeout=TIMEOUT)


def read_space(plan: Plan, builder: Builder, rules: Sequence[Rule]) -> DispatchSpace:
    """The plan's space under these rules."""
    single, batch = plan.problem.unbatched()
    flags = [*plan.target.compile_flags, *SPACE_FLAGS]
    text = builder.inspect(problem_mlir(single), flags, timeout=TIMEOUT)
    if plan.target.backend.on_host:
        raise ValueError(f"{plan.target.name} is no GPU")
    try:
        return GpuSpace.read(text, backend=plan.target.backend, batch=Batch(batch), rules=rules)
    except NoCandidateError:
        return AttentionSpace.read(text, rules=rules)


def inverted(rule: Rule) -> Rule:
    """The rule that leaves only what this one rejects: to find out whether it is right to."""
    return Rule(f"not {rule.name}", f"not: {rule.reason}", lambda kernel: ~rule.rejects(kernel))


def with_space(plan: Plan, space: DispatchSpace) -> Plan:
    return replace(plan, gpu=space, space=space.space, first=())


def measure(
    op: str, target: str, builder: Builder, executor: Executor, *, count: int, rng: np.random.Generator
) -> Outcome:
    plan = make_plan(PROBLEMS[op], target, builder, executor)
    configs = [plan.space[int(row)] for row in plan.space.sample(count, rng)]
    return Outcome(op, target, len(plan.space), build_all(plan, configs, builder, executor))


def parser(description: str | None) -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=description)
    options.add_argument("--op", nargs="+", choices=[*PROBLEMS], default=[*PROBLEMS])
    options.add_argument("--target", nargs="+", default=["gfx942"])
    options.add_argument("--count", type=int, default=100)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--jobs", type=int, default=1)
    options.add_argument("--output", type=Path, default=None, help="also write the table to this file")
    return options


def main() -> int:
    arguments = parser(__doc__).parse_args()
    lines = [f"{machine()}; seed {arguments.seed}", *(f"{op}: {PROBLEMS[op].name}" for op in arguments.op)]
    print("\n".join(lines), flush=True)
    reached = True
    with tempfile.TemporaryDirectory() as cache, ThreadPoolExecutor(arguments.jobs) as executor:
        builder = Builder(Tools.find(), Cache(Path(cache)))
        for op in arguments.op:
            for target in arguments.target:
                rng = np.random.default_rng(arguments.seed)
                outcome = measure(op, target, builder, executor, count=arguments.count, rng=rng)
                reached = reached and outcome.rate >= WANTED[op]
                lines += outcome.lines()
                print("\n".join(outcome.lines()), flush=True)
    if arguments.output is not None:
        arguments.output.write_text("\n".join(lines) + "\n")
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
