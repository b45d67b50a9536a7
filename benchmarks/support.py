"""What can be tuned where, asked of the compiler: `python -m benchmarks.support` writes docs/support.md.

Every row of the table is three or more candidates that were built and proven to apply; a test builds each row again,
with one candidate of every part of its space.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from autotuner.build import Builder
from autotuner.build.executor import BuildExecutor
from autotuner.errors import NoCandidateError
from autotuner.iree.tools import Tools
from autotuner.problems import Gemm, Problem
from autotuner.problems.attention import Attention
from autotuner.problems.conv import Conv
from autotuner.problems.convnd import ConvNd
from autotuner.problems.dtypes import SCALED_NAMES
from autotuner.problems.operations import OPERATIONS
from autotuner.space import Config
from autotuner.system.cache import Cache
from autotuner.targets import Target, all_targets
from autotuner.tuning.plan import Plan
from benchmarks.emulated.cases import every_case
from benchmarks.emulated.channels_first import ChannelsFirst

TIMEOUT = 120.0
CANDIDATES = 3
TARGETS = tuple(target.name for target in all_targets())
SAMPLES: dict[str, tuple[Problem, Problem | None]] = {
    # On GPUs and on cpu, if it has knobs there: the shapes are small.
    "gemm": (Gemm.parse(shape="128x128x128"), Gemm.parse(shape="64x64x64", dtype="f32")),
    "batched gemm": (Gemm.parse(shape="128x128x128", batch=4), Gemm.parse(shape="64x64x64", batch=3, dtype="f32")),
    "conv 3x3": (
        Conv.parse(shape="2x16x16x64", filter="3x3x64", pad="1x1"),
        Conv.parse(shape="2x12x12x16", filter="3x3x32", pad="1x1", dtype="f32"),
    ),
    "conv 3x3, batch 1": (
        Conv.parse(shape="1x16x16x64", filter="3x3x64", pad="1x1"),
        Conv.parse(shape="1x12x12x16", filter="3x3x32", pad="1x1", dtype="f32"),
    ),
    "conv 1x1": (
        Conv.parse(shape="1x16x16x64", filter="1x1x64"),
        Conv.parse(shape="1x8x8x32", filter="1x1x64", dtype="f32"),
    ),
    "attention": (Attention.parse(shape="1x4x128x128x64"), Attention.parse(shape="1x2x64x64x32", dtype="f32")),
    "convnd data": (ConvNd.parse(shape="1x16x16x32", filter="3x3x64", direction="data", pad="1x1"), None),
    "convnd weight": (ConvNd.parse(shape="2x16x16x32", filter="3x3x32", direction="weight", pad="1x1"), None),
    "convnd forward": (ConvNd.parse(shape="1x4x8x8x32", filter="3x3x3x32", pad="1x1x1"), None),
}
HEADER = """# What can be tuned where

Made by `python -m benchmarks.support`, which asks the compiler (IREE 3.13.0): for every row it built three or more
candidates of a small problem, at least one in each type, and found each one's configuration in the dumped executables.
Of every type that is missing here it was tried that the compiler refuses it or that it has no knobs. The tests do the
same with one candidate of every pipeline, on cpu of every route.
Types are those that compile and have knobs (→ accumulator); anything else is refused with this list. On cpu, pipeline
and carrier are those of the plain route; [others](space.md#processors) have their own. convnd has knobs on GPUs only.

"Executed" says how many candidates were right of those that [the emulator ran](amd.md#what-the-emulator-executed), and
in which types; "–": none ran.

| operation | target | types | pipelines | carried by | configurations | built and proven | executed |
|---|---|---|---|---|---|---|---|
"""
EMULATED = Path(__file__).parents[1] / "results" / "reference" / "emulated.jsonl"


@dataclass(frozen=True)
class Row:
    """A row of the table."""

    operation: str
    target: str
    types: str
    pipelines: tuple[str, ...]
    carriers: tuple[str, ...]
    configurations: str
    tried: int
    proven: int
    distinct: int
    """How many different binaries came of it."""
    wrong: tuple[str, ...] = ()
    """The types that are claimed and do not work, or work and are refused."""

    def markdown(self) -> str:
        cells = [self.operation, self.target, self.types, ", ".join(self.pipelines), ", ".join(self.carriers)]
        # How many are tried on a processor depends on the routes that it has.
        proven = "all" if self.proven == self.tried else f"{self.proven} of {self.tried}"
        return f"| {' | '.join([*cells, self.configurations, proven, executed(self.operation, self.target)])} |"


def executed(operation: str, target: str) -> str:
    """What the table of the emulator's says of an operation on a chip."""
    types, right, ran = dict[str, None](), 0, 0
    cases = {case.name: case for case in every_case()}
    for told in map(json.loads, EMULATED.read_text().splitlines()):
        case = cases[told["case"]]
        if (_operation(case.problem), case.chip) == (operation, target) and "candidates" in told:
            found = told["candidates"]
            right, ran = right + found["right"], ran + found["right"] + found["failures"].get("suspected", 0)
            types[case.problem.types[0]] = None
    return f"{right} of {ran} ({', '.join(types)})" if ran else "–"


def _operation(problem: Problem) -> str:
    """The row of a problem."""
    if isinstance(problem, ConvNd) and not isinstance(problem, ChannelsFirst):
        return f"convnd {problem.direction}"
    batched = "batched " if isinstance(problem, Gemm) and problem.batch > 1 else ""
    return "conv 3x3" if problem.op == "conv" else f"{batched}{problem.op}"


def examine(operation: str, target: str, builder: Builder, executor: Executor, *, candidates: int = CANDIDATES) -> Row:
    """Builds the sample's candidates for real: one of every part of the space, and at least so many."""
    chip = Target.parse(target)
    on_gpu, on_cpu = SAMPLES[operation]
    problem = chip.prepare(on_cpu if on_cpu and target == "cpu" else on_gpu)
    plan = Plan.make(problem, chip, BuildExecutor.on(executor, builder), timeout=TIMEOUT)
    sample = [plan.candidate(config, id=f"c{i}") for i, config in enumerate(_sample(plan, candidates))]
    builds = list(executor.map(builder.build, [plan.job(c, timeout=TIMEOUT) for c in sample]))
    return Row(
        operation=operation,
        target=target,
        types=", ".join(
            d if a == "f32" else f"{d}→{a}"
            for d, a in chip.types_of(OPERATIONS[problem.op])
            if _in_type(on_gpu, (d, a), chip.f8)
        ),
        pipelines=_pipelines(plan),
        carriers=_carriers(plan),
        # A processor's space depends on the width of its vectors and the number of its cores.
        configurations="declared" if target == "cpu" else str(len(plan.space)),
        tried=len(builds),
        proven=sum(b.ok and b.applied > 0 for b in builds),
        distinct=len({b.binary for b in builds if b.ok}),
    )


def in_all_types(row: Row, builder: Builder, executor: BuildExecutor) -> Row:
    """The row with a candidate of every other type that the operation has, whether the chip claims it or not."""
    chip = Target.parse(row.target)
    problem = SAMPLES[row.operation][0]
    kind = OPERATIONS[problem.op]
    for pair in kind.pairs:
        claimed = pair in chip.types_of(kind)
        other = _in_type(problem, pair, chip.f8)
        if other and pair != problem.types and claimed != _works(other, chip, builder, executor):
            row = replace(row, wrong=(*row.wrong, "→".join(pair)))
    return row


def _in_type(problem: Problem, pair: tuple[str, str], f8: str | None) -> Problem | None:
    """The problem in this type; None: there are none of its form, such as batched ones with scales."""
    given = dict(zip(("dtype", "acc"), pair, strict=True))
    own = {field.name for field in fields(cast(Any, problem))}
    layout = {"layout": "nt"} if pair[0] in SCALED_NAMES else {}
    named = replace(cast(Any, problem), **layout, **{name: word for name, word in given.items() if name in own}).name
    changed = OPERATIONS[problem.op].of_name(named)
    return changed and changed.with_f8(f8 or "f8E4M3FN")


def _works(problem: Problem, chip: Target, builder: Builder, executor: BuildExecutor) -> bool:
    """Whether the compiler has knobs for it, and a candidate that can be built and proven."""
    try:
        plan = Plan.make(problem, chip, executor, timeout=TIMEOUT)
    except NoCandidateError:
        return False
    if not len(plan.space):
        return False
    build = builder.build(plan.job(plan.candidate(_sample(plan, 1)[0], id="c0"), timeout=TIMEOUT))
    return build.ok and build.applied > 0


def _sample(plan: Plan, count: int) -> list[Config]:
    """One of every part of the space, and up to `count` also the compiler's own choice and random ones."""
    configs = dict.fromkeys(plan.first[:1] if count > 1 else ())
    label = plan.space.knobs[0].name
    parts = dict.fromkeys(plan.space.knobs[0].values)
    for row in np.random.default_rng(0).permutation(len(plan.space)):
        config = plan.space[int(row)]
        if parts.pop(config[label], "") is None or (not parts and len(configs) < count):
            configs.setdefault(config)
        if not parts and len(configs) >= count:
            break
    return list(configs)


def _pipelines(plan: Plan) -> tuple[str, ...]:
    if plan.gpu is not None:
        return tuple(str(value) for value in plan.space.knobs[0].values)
    # Of the plain route: which others have knobs depends on the processor.
    part = plan.cpu["plain"]
    return (part.tiling(part.space[0]).pipeline,)


def _carriers(plan: Plan) -> tuple[str, ...]:
    return ("substitution",) if "plain" in plan.executables else ("spec",)


def kept(page: str, operation: str, target: str) -> list[str]:
    """A row as it is on the page, with what the emulator has executed by now."""
    rows = (line for line in page.splitlines() if line.startswith(f"| {operation} | {target} |"))
    return [f"{row.rpartition(' | ')[0]} | {executed(operation, target)} |" for row in rows]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words = "of other operations only what the emulator executed is new, as without a name"
    parser.add_argument("--only", nargs="*", choices=SAMPLES, default=[*SAMPLES], metavar="OPERATION", help=words)
    parser.add_argument("--target", nargs="+", choices=TARGETS, default=TARGETS, metavar="TARGET", help="and of these")
    given, path = parser.parse_args(), Path("docs/support.md")
    lines, wrong = list[str](), list[str]()
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(2) as executor:
        builder = Builder(Tools.find(), Cache(Path(name) / "cache"))
        for operation, (_, on_cpu) in SAMPLES.items():
            for target in (one for one in TARGETS if on_cpu or one != "cpu"):
                if operation not in given.only or target not in given.target:
                    lines += kept(path.read_text(), operation, target)
                    continue
                row = examine(operation, target, builder, executor)
                row = in_all_types(row, builder, BuildExecutor.on(executor, builder))
                lines.append(row.markdown())
                print(lines[-1], *row.wrong, file=sys.stderr, flush=True)
                wrong += [f"{operation} on {target}: {', '.join(row.wrong)}"] if row.wrong else []
                if row.distinct < 2:
                    sys.exit(f"the candidates of {operation} on {target} are all the same code")
    if wrong:
        sys.exit(f"claims that the compiler does not share: {'; '.join(wrong)}")
    path.write_text(HEADER + "".join(f"{line}\n" for line in lines))


if __name__ == "__main__":
    main()
