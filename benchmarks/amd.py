"""What AMD's chips get from IREE and from specs, by the compiler alone: `python -m benchmarks.amd rivals`.

    rivals    of twenty problems a chip: which stock routes give other code than IREE's default
    scaled    products with scales: the default, and candidates of the space that were built and proven to apply
    buckets   batches with a dynamic M: matrix instructions without an entry and with one

No device is asked, and nothing is timed. --append FILE keeps the lines.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from autotuner.build import Builder, BuildJob, Compiled
from autotuner.build.executor import BuildExecutor
from autotuner.carriers.render import spec_mlir
from autotuner.errors import UsageError
from autotuner.iree.tools import Tools
from autotuner.jobs.buckets.bounds import Family
from autotuner.jobs.buckets.result import for_all_rows
from autotuner.problems import Gemm, Problem
from autotuner.problems.attention import Attention
from autotuner.problems.conv import Conv
from autotuner.problems.render import dynamic_gemm_mlir, problem_mlir
from autotuner.system.cache import Cache
from autotuner.targets import Route, Target
from autotuner.tuning.plan import Plan
from benchmarks.machine import machine

TIMEOUT = 300.0
CHIPS = {"rivals": ("gfx942", "gfx950", "gfx1201"), "scaled": ("gfx942", "gfx950"), "buckets": ("gfx942", "gfx950")}


def _products(dtype: str, *shapes: str, layout: str = "nt", batch: int = 1) -> list[Gemm]:
    return [Gemm.parse(shape=shape, dtype=dtype, layout=layout, batch=batch) for shape in shapes]


PROBLEMS: tuple[Problem, ...] = (
    *_products("f16", "4096x4096x4096", "2048x1280x8192", "512x4096x12288", "16x7168x21504"),
    *_products("f16", "4096x4096x4096", "1024x1024x1024", "128x512x4096", layout="nn"),
    *_products("bf16", "4096x4096x4096", "2048x1280x8192", "32x4096x4096"),
    *_products("i8", "2048x2048x2048"),
    *_products("f8", "4096x4096x4096", "512x4096x12288"),
    *_products("f16", "512x512x512", "1024x128x1024", batch=8),
    Conv.parse(shape="2x32x32x640", filter="3x3x640", pad="1x1"),
    Conv.parse(shape="1x56x56x256", filter="1x1x64"),
    Conv.parse(shape="8x28x28x128", filter="3x3x256", pad="1x1", stride="2x2"),
    Attention.parse(shape="1x20x4096x4096x64"),
    Attention.parse(shape="1x32x1024x1024x128"),
)
SCALED = (
    ("mxfp4", "4096x4096x4096"),
    ("mxfp4", "512x4096x12288"),
    ("mxfp8", "4096x4096x4096"),
    ("mxfp8", "16x1280x8192"),
    ("f8b128", "512x7168x2048"),
    ("f8b128", "2048x1280x8192"),
)
FAMILIES = ((8, "512x2048x1024", "64,512,any"), (32, "256x128x4096", "128,any"))


@dataclass(frozen=True)
class Bench:
    """The compiler, with what it has compiled."""

    builder: Builder
    pool: ThreadPoolExecutor

    def plan(self, problem: Problem, target: Target) -> Plan:
        return Plan.make(problem, target, BuildExecutor.on(self.pool, self.builder), timeout=TIMEOUT)

    def builds(self, jobs: Sequence[BuildJob]) -> list[Compiled]:
        return list(self.pool.map(self.builder.build, jobs))


def rivals(bench: Bench, target: Target) -> Iterator[str]:
    """A line a problem, and one that counts for each route."""
    found: dict[str, Counter[str]] = {}
    for given in PROBLEMS:
        try:
            problem = target.prepare(given)
        except UsageError as refusal:
            yield f"{target.name:<8} {given.name:<46} {refusal.message}"
            continue
        routes = target.routes_for(problem)
        default, *others = bench.builds([_job(problem, target, route) for route in routes])
        said = []
        for route, build in zip(routes[1:], others, strict=True):
            what = "fails" if not build.ok else "same" if build.binary == default.binary else "other code"
            found.setdefault(route.name, Counter())[what] += 1
            if what == "other code":
                said.append(f"{route.name} ({_figures(build)})")
        yield f"{target.name:<8} {problem.name:<46} default ({_figures(default)}); {', '.join(said) or 'no rival'}"
    for name, counts in found.items():
        yield f"{target.name:<8} {name}: " + ", ".join(f"{what} {number}" for what, number in counts.items())


def scaled(bench: Bench, target: Target) -> Iterator[str]:
    """The default, the configuration nearest to it, and five random ones of each space."""
    for dtype, shape in SCALED:
        given = Gemm.parse(shape=shape, dtype=dtype)
        if given.types not in target.types:
            continue
        plan = bench.plan(target.prepare(given), target)
        configs = [*plan.first, *(plan.space[int(row)] for row in plan.space.sample(5, np.random.default_rng(0)))]
        jobs = [plan.job(plan.candidate(one, id="c"), timeout=TIMEOUT) for one in configs]
        default, *built = bench.builds([plan.job(plan.baseline, timeout=TIMEOUT), *jobs])
        applied = [one for one in built if one.ok and one.applied]
        binaries = {one.binary for one in applied} - {default.binary}
        yield (
            f"{target.name:<8} {given.name:<40} default ({_figures(default)}); {len(plan.space):,} configurations, "
            f"{len(applied)} of {len(built)} applied, {len(binaries)} with other code: "
            + ", ".join(f"({_figures(one)})" for one in applied)
        )


def buckets(bench: Bench, target: Target) -> Iterator[str]:
    """Each range of M, at the compiler's own choice for its bound."""
    for batch, shape, bounds in FAMILIES:
        family = Family.parse(Gemm.parse(shape=shape, batch=batch), bounds)
        for bucket in family.buckets:
            problem = target.prepare(family.member(bucket.at))
            plan = bench.plan(problem, target)
            first = plan.candidate(plan.first[0], id="c")
            if first.info is None or first.dispatch is None:
                raise SystemExit(f"{problem.name} has no entry for a spec")
            info = for_all_rows(first.info)
            spec = spec_mlir(name="entry", dispatch=first.dispatch, info=info, rows=bucket.rows)
            source = dynamic_gemm_mlir(problem, rows=bucket.rows)
            plain = BuildJob(source, target.compile_flags, TIMEOUT, figures=target.figures)
            entry = replace(plain, spec=spec, spec_flag=target.spec_flag, expected=info)
            default, tuned = bench.builds([plain, entry])
            yield (
                f"{target.name:<8} {family.name:<34} {bucket.text:<14} without an entry ({_figures(default)}), "
                f"with one ({_figures(tuned)}), applied {tuned.applied}"
            )


def _job(problem: Problem, target: Target, route: Route) -> BuildJob:
    flags = (*problem.flags, *target.compile_flags, *route.flags)
    return BuildJob(problem_mlir(problem), flags, TIMEOUT, figures=target.figures)


def _figures(build: Compiled) -> str:
    if not build.ok:
        return str(build.failure)
    return f"mma {build.isa.mma}, {build.isa.summary}"


SECTIONS: dict[str, Callable[[Bench, Target], Iterator[str]]] = {"rivals": rivals, "scaled": scaled, "buckets": buckets}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("section", choices=SECTIONS)
    parser.add_argument("--target", nargs="+", help="chips, instead of the section's own")
    parser.add_argument("--cache", type=Path, default=Path("candidates"), help="a folder of builds")
    parser.add_argument("--append", type=Path, help="where the lines go, too")
    arguments = parser.parse_args()
    lines = [f"{machine()}: python -m benchmarks.amd {arguments.section}"]
    with ThreadPoolExecutor(2) as pool:
        bench = Bench(Builder(Tools.find(), Cache(arguments.cache)), pool)
        for name in arguments.target or CHIPS[arguments.section]:
            for line in SECTIONS[arguments.section](bench, Target.parse(name)):
                print(line, flush=True)
                lines.append(line)
    if arguments.append:
        with arguments.append.open("a") as file:
            file.write("\n".join(lines) + "\n\n")


if __name__ == "__main__":
    main()
