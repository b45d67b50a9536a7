"""Whether what is left out as a duplicate is one: `python -m benchmarks.duplicates --target gfx942 sm_80 --count 8`.

For each rule and problem a random sample of what the rule leaves out is built, each with the configuration that it is
said to equal: a wrong one has another binary. And a random sample of what stays in the space is built with each other
value of the knobs beside the compiler's constraints, one at a time: how many of those are still duplicates. Nothing is
timed.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
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
from autotuner.space import Config, Value
from autotuner.space.gpu_config import BANK_CONFLICTS, BY_THREADS, COPIES, PREFETCH, REORDER, WAVES
from autotuner.space.prune import DUPLICATES, FEW_REGISTERS, IDLE_REQUEST, RULES, UNCOPIED
from autotuner.system.cache import Cache
from autotuner.tuning.plan import Plan
from benchmarks.machine import machine
from benchmarks.success import build_all, inverted, make_plan, parser, read_space, with_space

PROBLEMS: dict[str, tuple[Problem, ...]] = {
    "gemm": (
        Gemm.parse(shape="4096x4096x4096"),
        Gemm.parse(shape="64x8192x8192"),
        Gemm.parse(shape="4096x128x1024", batch=2),
        Gemm.parse(shape="1280x1000x1280"),
    ),
    "conv": (Conv.parse(shape="2x32x32x1280", filter="3x3x1280", pad="1x1"),),
    "attention": (Attention.parse(shape="1x8x1024x1024x64"),),
}
PLAIN: dict[str, tuple[str, Value]] = {
    IDLE_REQUEST.name: (WAVES, 0),
    FEW_REGISTERS.name: (WAVES, 0),
    UNCOPIED.name: (COPIES, BY_THREADS),
}
"""What a rule keeps: the knob and its value."""
KNOBS = (WAVES, REORDER, BANK_CONFLICTS, PREFETCH)


@dataclass(frozen=True)
class Pairs:
    """Configurations that differ in one knob, and which of them have the same binary."""

    what: str
    problem: str
    target: str
    of: int
    same: int
    built: int

    def line(self) -> str:
        head = f"{self.what:<28} {self.target:<8} {self.problem:<44} {self.of:>8,} configurations"
        return f"{head} {self.same:>4} of {self.built:<4} the same"


def build_pairs(
    plan: Plan, pairs: list[tuple[Config, Config]], builder: Builder, executor: Executor
) -> tuple[int, int]:
    """How many pairs have one binary, and how many were built."""
    builds = build_all(plan, [config for pair in pairs for config in pair], builder, executor)
    ends: list[tuple[Compiled, Compiled]] = list(zip(builds[::2], builds[1::2], strict=True))
    built = [(one, other) for one, other in ends if one.ok and other.ok]
    return sum(one.binary == other.binary for one, other in built), len(built)


def samples(
    problem: Problem, target: str, builder: Builder, executor: Executor, *, count: int, seed: int
) -> Iterator[Pairs]:
    plan = make_plan(problem, target, builder, executor)
    every = with_space(plan, read_space(plan, builder, RULES))
    for rule in DUPLICATES:
        try:
            left_out = read_space(plan, builder, [*RULES, inverted(rule)]).space
        except NoCandidateError:
            continue
        rng = np.random.default_rng(seed)
        configs = [left_out[int(row)] for row in left_out.sample(count, rng)]
        knob, value = PLAIN[rule.name]
        # What is left out may lack knobs of the whole space: those of the other pipeline.
        pairs = [(_with(every, c, knob, c[knob]), _with(every, c, knob, value)) for c in configs]
        yield Pairs(rule.name, problem.name, target, len(left_out), *build_pairs(every, pairs, builder, executor))
    rng, space = np.random.default_rng(seed), plan.space
    for knob in KNOBS:
        if knob not in {k.name for k in space.knobs}:
            continue
        configs = [space[int(row)] for row in space.sample(count, rng)]
        others = [(config, _another(every, config, knob, rng)) for config in configs]
        pairs = [(config, other) for config, other in others if other is not None and other in space]
        if pairs:
            yield Pairs(
                f"kept, another {knob[:14]}",
                problem.name,
                target,
                len(space),
                *build_pairs(every, pairs, builder, executor),
            )


def _with(plan: Plan, config: Config, knob: str, value: Value) -> Config:
    """The configuration of the whole space with another value."""
    values = {**config.as_dict(), knob: value}
    return plan.space[plan.space.nearest(values)]


def _another(plan: Plan, config: Config, knob: str, rng: np.random.Generator) -> Config | None:
    """With another value of this knob, at random; None where there is no legal one."""
    values = next(k.values for k in plan.space.knobs if k.name == knob)
    made = [Config(tuple((n, v if n == knob else own) for n, own in config.items)) for v in values]
    legal = [one for one in made if one != config and one in plan.space]
    return legal[int(rng.integers(len(legal)))] if legal else None


def main() -> int:
    arguments = parser(__doc__).parse_args()
    lines = [f"{machine()}; seed {arguments.seed}"]
    print(lines[0], flush=True)
    wrong = 0
    with tempfile.TemporaryDirectory() as cache, ThreadPoolExecutor(arguments.jobs) as executor:
        builder = Builder(Tools.find(), Cache(Path(cache)))
        for target in arguments.target:
            for problem in (p for op in arguments.op for p in PROBLEMS[op]):
                for found in samples(problem, target, builder, executor, count=arguments.count, seed=arguments.seed):
                    wrong += found.built - found.same if found.what in PLAIN else 0
                    lines.append(found.line())
                    print(found.line(), flush=True)
    lines.append(f"{wrong} wrong")
    print(lines[-1])
    if arguments.output is not None:
        arguments.output.write_text("\n".join(lines) + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
