"""The device that stays open: are its times those of iree-benchmark-module, and does the judge claim wins of nothing?

python -m benchmarks.resident_device agreement --target sm_80
python -m benchmarks.resident_device aa --target sm_80 --runs 50
"""

from __future__ import annotations

import argparse
import math
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from autotuner.build import Builder, BuildJob, Compiled
from autotuner.devices.device import INVOCATION_US, Device, choose_repeat
from autotuner.devices.many import open_device
from autotuner.devices.process import ProcessDevice
from autotuner.devices.resident import open_resident
from autotuner.iree.run import Benchmark
from autotuner.iree.tools import Tools
from autotuner.measure.blocks import Entrant
from autotuner.measure.check import Data
from autotuner.measure.contest import timed_by
from autotuner.measure.judge import Judge
from autotuner.measure.judgement import Contest
from autotuner.problems import Gemm, Problem
from autotuner.problems.render import problem_mlir
from autotuner.system.cache import Cache
from autotuner.system.progress import Stop
from autotuner.targets import Target

SHAPES = {
    "cuda": (
        "128x128x256",
        "256x256x512",
        "512x512x512",
        "512x512x2048",
        "1024x1024x1024",
        "2048x2048x1024",
        "2048x2048x4096",
        "4096x4096x4096",
        "4096x8192x4096",
        "8192x8192x8192",
    ),
    "cpu": (
        "16x64x64",
        "64x64x64",
        "64x128x128",
        "128x128x128",
        "128x256x256",
        "256x256x256",
        "256x256x512",
        "256x512x512",
        "512x512x512",
        "512x512x1024",
    ),
}
"""From about 5 µs to about 5 ms."""


@dataclass(frozen=True)
class Case:
    """A kernel with its inputs."""

    problem: Problem
    module: Compiled
    benchmark: Benchmark


@dataclass(frozen=True)
class Bench:
    target: Target
    builder: Builder
    folder: Path

    @property
    def alone(self) -> ProcessDevice:
        return ProcessDevice(self.builder.tools, self.target.device, self.folder)

    def case(self, shape: str, device: Device, *, seconds: float) -> Case:
        dtype = "f32" if self.target.compiles_on_device else "f16"
        problem = self.target.prepare(Gemm.parse(shape=shape, dtype=dtype))
        data = Data.write(problem, self.folder / shape, seed=0)
        benchmark = Benchmark(data.invocation(), seconds, 300.0)
        rough = device.time(self._build(problem, repeat=64), replace(benchmark, seconds=0.01), repetitions=1)
        if not rough.ok:
            sys.exit(f"{shape}: {rough.detail}")
        module = self._build(problem, repeat=choose_repeat(rough.median, invocation_us=INVOCATION_US))
        return Case(problem, module, benchmark)

    def _build(self, problem: Problem, *, repeat: int) -> Compiled:
        flags = (*problem.flags, *self.target.compile_flags)
        made = self.builder.build(BuildJob(problem_mlir(problem), flags, timeout=300, repeat=repeat))
        if not made.ok:
            sys.exit(made.stderr)
        return made


def agreement(bench: Bench, *, rounds: int, seconds: float) -> None:
    """In turns, each warmed up for as long as a repetition lasts: the same state for both."""
    print(f"{'shape':18}{'resident µs':>12}{'iree-benchmark-module µs':>26}{'ratio':>8}")
    worst = 1.0
    with open_resident(bench.alone) as device:
        for shape in SHAPES["cpu" if bench.target.compiles_on_device else "cuda"]:
            case = bench.case(shape, device, seconds=seconds)
            pairs = []
            for _ in range(rounds):
                device.renew()  # where a process has its memory is part of its times
                both = [one.time(case.module, case.benchmark) for one in (device, device.isolated)]
                if not all(one.ok for one in both):
                    sys.exit(next(one.detail for one in both if not one.ok))
                pairs.append(tuple(one.median for one in both))
            mine, theirs = (median(column) for column in zip(*pairs, strict=True))
            worst = max(worst, mine / theirs, theirs / mine)
            print(f"{shape:18}{mine:12.2f}{theirs:26.2f}{mine / theirs:8.3f}", flush=True)
    print(f"furthest apart: {worst - 1:.1%}")


def same_against_itself(bench: Bench, *, first: int, runs: int, rivals: int, seconds: float) -> None:
    """The judge on copies of one module, which all win nothing."""
    with open_device(bench.alone, isolate=False) as device:
        case = bench.case(
            "1024x1024x1024" if not bench.target.compiles_on_device else "128x128x128", device, seconds=seconds
        )
        modules = {}
        for name in ["baseline", *(f"copy{n}" for n in range(rivals))]:
            path = bench.folder / f"{name}.vmfb"
            shutil.copyfile(case.module.vmfb, path)
            modules[name] = replace(case.module, vmfb=path)
        verdicts: Counter[str] = Counter()
        for seed in range(first, first + runs):
            entrants = tuple(Entrant(name, complexity=int(name != "baseline")) for name in modules)
            contest = Contest(entrants, "baseline", "baseline", seed=seed)
            takes = timed_by(device, case.benchmark, modules)
            found = Judge(contest, takes, lambda: math.inf, Stop()).verdict()
            confirmed = "" if found.confirmed is None else ", after a confirmation"
            verdicts[f"{found.verdict}{confirmed}"] += 1
            print(f"{seed + 1:4} {found.verdict:14}{found.reason}", flush=True)
    print(f"{runs} runs of {rivals} copies against the same: {dict(verdicts)}")


@contextmanager
def opened(target: str) -> Iterator[Bench]:
    with tempfile.TemporaryDirectory() as folder:
        cache = Cache(Path(folder) / "cache")
        yield Bench(Target.parse(target), Builder(Tools.find(), cache), Path(folder))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["agreement", "aa"])
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--first", type=int, default=0, help="the first run's seed, to go on with it")
    parser.add_argument("--rivals", type=int, default=2)
    parser.add_argument("--seconds", type=float, help="a repetition")
    options = parser.parse_args()
    with opened(options.target) as bench:
        if options.what == "agreement":
            agreement(bench, rounds=options.rounds, seconds=options.seconds or 0.3)
        else:
            same_against_itself(
                bench, first=options.first, runs=options.runs, rivals=options.rivals, seconds=options.seconds or 0.01
            )


if __name__ == "__main__":
    main()
