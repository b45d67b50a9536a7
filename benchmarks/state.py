"""Does a timing depend on what ran before it? Kernels timed after a heavy one, after a light one and after a pause.

    python -m benchmarks.state --target sm_80

Each kernel is timed on the device that stays open, `bare` (nothing between timings) and `sustained` (under the load of
the default between timings). A line has the median
time after each kind of history, the spread between them, and the device's clock and power at the end of the timings.
What comes last are the same kernels with a cold cache, each beside its warm time.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from autotuner.build import Builder, BuildJob, Compiled
from autotuner.devices.device import Device, Timing, choose_repeat
from autotuner.devices.process import ProcessDevice
from autotuner.devices.resident import open_resident
from autotuner.devices.sampling import open_sampler
from autotuner.iree.run import Benchmark
from autotuner.iree.tools import Tools
from autotuner.measure.check import Data
from autotuner.problems import Gemm
from autotuner.problems.render import problem_mlir
from autotuner.system.cache import Cache
from autotuner.system.settings import cache_dir
from autotuner.targets import Target

SHAPES = ("4096x4096x4096", "16x4096x4096", "1024x1024x1024")
"""The heaviest, whose default is the load; one that is bound by memory; a light one."""
STATES = ("bare", "sustained")
HEAVY_SECONDS = PAUSE_SECONDS = 1.0
PAIRS = 100


@dataclass(frozen=True)
class Kernel:
    """A problem's default: once, and as often as a timing needs."""

    name: str
    once: Compiled
    often: Compiled
    benchmark: Benchmark


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", required=True, help="a chip, such as sm_80")
    parser.add_argument("--device", help="[default: the target's first]")
    parser.add_argument("--shapes", nargs=3, default=SHAPES, metavar="MxNxK", help="heavy, bound by memory, light")
    parser.add_argument("--dtype", default="f16")
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    target = Target.parse(given.target)
    tools = Tools.find()
    with tempfile.TemporaryDirectory() as folder:
        alone = ProcessDevice(tools, target.choose_device(given.device), Path(folder))
        builder = Builder(tools, Cache(cache_dir()))
        kernels = [build(shape, given.dtype, target, builder, alone) for shape in given.shapes]
        for state in STATES:
            with opened(alone, state) as device:
                for kernel in kernels:
                    print(line(state, kernel, kernels, device, rounds=given.rounds), flush=True)
        with opened(alone, "sustained") as device:
            for kernel in kernels:
                print(cold_line(kernel, device), flush=True)


@contextmanager
def opened(alone: ProcessDevice, state: str) -> Iterator[Device]:
    under_load = state == "sustained"
    watched = replace(alone, sampler=open_sampler(alone.uri))
    with open_resident(watched, under_load=under_load) as device:
        yield device


def build(shape: str, dtype: str, target: Target, builder: Builder, alone: ProcessDevice) -> Kernel:
    """The repeat is found out on a device that is closed again."""
    problem = target.prepare(Gemm.parse(shape=shape, dtype=dtype))
    job = BuildJob(problem_mlir(problem), (*problem.flags, *target.compile_flags), timeout=300)
    data = Data.write(problem, alone.scratch / shape, seed=0)
    benchmark = Benchmark(data.invocation(), seconds=0.02, timeout=120)
    once = builder.build(job)
    assert once.ok, once.stderr
    with open_resident(alone) as device:
        rough = device.time(once, benchmark, repetitions=1)
        assert rough.ok, rough.detail
        often = builder.build(replace(job, repeat=choose_repeat(rough.median, invocation_us=2 * device.invocation_us)))
    assert often.ok, often.stderr
    return Kernel(problem.name, once, often, benchmark)


def line(state: str, kernel: Kernel, kernels: Sequence[Kernel], device: Device, *, rounds: int) -> str:
    """The histories come in turns, so that a drift of the device is in all of them."""
    heavy, _, light = kernels
    busy = replace(heavy.benchmark, seconds=HEAVY_SECONDS / 2)
    histories: dict[str, Callable[[], object]] = {
        "heavy": lambda: device.time(heavy.often, busy, repetitions=1),
        "light": lambda: device.time(light.often, replace(light.benchmark, seconds=0.5), repetitions=1),
        "pause": lambda: time.sleep(PAUSE_SECONDS),
    }
    found: dict[str, list[Timing]] = {name: [] for name in histories}
    for _ in range(rounds):
        for name, happen in histories.items():
            happen()
            found[name].append(device.time(kernel.often, kernel.benchmark))
    us = {name: median(timing.median for timing in timings) for name, timings in found.items()}
    within = max(max(t.median for t in timings) / min(t.median for t in timings) - 1 for timings in found.values())
    times = "  ".join(f"after {name} {value:9.2f} µs" for name, value in us.items())
    spread = max(us.values()) / min(us.values()) - 1
    return f"{state:<10}{kernel.name:<36}{times}  apart {spread:6.2%}, each within {within:6.2%}  {_seen(found)}"


def _seen(found: dict[str, list[Timing]]) -> str:
    words = []
    for name, timings in found.items():
        samples = [t.conditions.after for t in timings if t.conditions is not None]
        values = {unit: [v for v in (getattr(s, unit) for s in samples) if v is not None] for unit in ("mhz", "watts")}
        words += [f"{name} {' '.join(f'{median(v):.0f} {unit}' for unit, v in values.items() if v)}"]
    return "; ".join(words)


def cold_line(kernel: Kernel, device: Device) -> str:
    warm = device.time(kernel.often, kernel.benchmark, repetitions=5).median
    pairs = device.call_pairs(kernel.once, kernel.benchmark, count=PAIRS)
    assert pairs is not None
    assert pairs.failure is None, pairs.detail
    larger = "" if pairs.exceeds else " (the cache is not exceeded)"
    return (
        f"cold      {kernel.name:<36}warm {warm:9.2f} µs  cold {warm + pairs.extra_us:9.2f} µs{larger}  "
        f"single calls: warm {median(pairs.warm_us):.2f} µs, cold {median(pairs.cold_us):.2f} µs"
    )


if __name__ == "__main__":
    main()
