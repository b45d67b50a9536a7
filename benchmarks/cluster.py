"""How a cluster scales: `python -m benchmarks.cluster`. Workers compile and time nothing: they sleep as long.

The coordinator is the real one (pool, builds, cache, roster, remote devices), over a real Dask scheduler on this
machine. A worker builds one candidate at a time and has one device. Several workers share a process, with threads of
their own: they only sleep. Search and results database are not in it.

All of it shares this machine's cores: where they do not suffice for scheduler and workers, that limits it, and not the
coordinator. `--slower 4` has all sleep four times as long, so that a quarter of the CPU does.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import dask

from autotuner.build import Builder, BuildJob, Compiled
from autotuner.build.executor import Answer, BuildExecutor
from autotuner.cluster.address import Scheduler
from autotuner.cluster.coordinator import Cluster
from autotuner.cluster.facts import Facts
from autotuner.cluster.remote import RemoteModule
from autotuner.cluster.worker import QUIET, WorkerState, dask_worker
from autotuner.devices.conditions import DeviceState
from autotuner.devices.device import Computed, Device, Timing
from autotuner.devices.many import Devices
from autotuner.iree.run import Benchmark, Invocation
from autotuner.iree.tools import Tools
from autotuner.measure.check import Check
from autotuner.measure.screening import Measured
from autotuner.system.cache import Cache
from autotuner.system.execution import local_executor
from autotuner.targets import Target
from autotuner.tuning.outcome import Outcome
from autotuner.tuning.plan import Candidate
from autotuner.tuning.pool import Measure, Pool
from benchmarks.machine import machine

BUILD_SECONDS, DEVICE_SECONDS = 1.65, 0.27
"""Of a candidate of sm_80: results/reference/build_cost.txt, and 374 candidates in 100 s on an H200."""
MODULE_BYTES = 60_000
WORKERS = (1, 4, 16, 64)
_IN_A_PROCESS = 16


@dataclass(eq=False)
class Sleeper(WorkerState):
    """Takes as long as a compiler and a device do."""

    slower: float = 1.0

    def build(self, job: BuildJob, key: str, left: float) -> Answer:
        del left
        time.sleep(self.slower * BUILD_SECONDS)
        name = hashlib.sha256((job.spec or "").encode()).digest()
        made = Compiled(None, "", BUILD_SECONDS, (), Path(), binary=name.hex(), key=key, took=BUILD_SECONDS)
        return made, name * (MODULE_BYTES // len(name))

    def open(self, session: str, isolate: bool) -> tuple[Path, str, DeviceState, float]:
        del isolate
        self._device, self._for = cast(Device, SleepingDevice(self.slower)), session
        return self.folder, self.uri, "sustained", 3000.0


@dataclass
class SleepingDevice:
    """Answers what a candidate asks, and nothing else."""

    slower: float

    @property
    def isolated(self) -> SleepingDevice:
        return self

    def check(self, vmfb: Path, invocations: Sequence[Invocation], *, timeout: float) -> tuple[Computed, ...]:
        del vmfb, timeout
        return (Computed(),) * len(invocations)

    def time(self, module: RemoteModule, benchmark: Benchmark, **how: Any) -> Timing:
        del benchmark, how
        assert module.vmfb.is_file(), "it has been sent"
        time.sleep(self.slower * DEVICE_SECONDS)
        return Timing((1.0, 1.0, 1.0))


async def _host(address: str, count: int, facts: Facts, slower: float) -> None:
    with dask.config.set(QUIET):
        started = []
        for number in range(count):
            sleeper = Sleeper(cast(Builder, None), "cuda://0", slower=slower)
            worker = await dask_worker(Scheduler(address), facts, sleeper, f"{os.getpid()}-{number}")
            started.append(worker)
        await asyncio.gather(*(worker.finished() for worker in started))


@contextmanager
def _cluster(workers: int, slower: float) -> Iterator[tuple[str, ProcessGroup]]:
    """A scheduler and its workers, in processes of their own."""
    with tempfile.TemporaryDirectory() as folder, ProcessGroup() as group:
        log = Path(folder) / "log"
        words = ["-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard"]
        group.start(words, log)
        while "Scheduler at:" not in (text := log.read_text()):
            time.sleep(0.1)
        address = next(line.split()[-1] for line in text.splitlines() if "Scheduler at:" in line)
        for first in range(0, workers, _IN_A_PROCESS):
            count = min(_IN_A_PROCESS, workers - first)
            own = ["--host", address, "--count", str(count), "--slower", str(slower)]
            group.start(["-m", "benchmarks.cluster", *own], log)
        while log.read_text().count("Registered to:") < workers:
            time.sleep(0.2)
        yield address, group


@dataclass
class ProcessGroup:
    """Ends what it has started."""

    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, words: list[str], log: Path) -> None:
        with log.open("ab") as file:
            self.started.append(subprocess.Popen([sys.executable, *words], stdout=file, stderr=file))

    def cpu(self) -> list[float]:
        """Seconds that each has used."""
        return [_cpu_of(one.pid) for one in self.started]

    def __enter__(self) -> ProcessGroup:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.started:
            process.terminate()
        for process in self.started:
            process.wait()


@dataclass
class Lane:
    """Candidates that are all alike."""

    executor: BuildExecutor
    benchmark: Benchmark
    flags: tuple[str, ...]
    left: int
    settled: int = 0

    @property
    def room(self) -> int:
        return self.left

    def ask(self, count: int) -> list[tuple[Outcome, Future[Compiled]]]:
        asked = []
        for _ in range(count):
            self.left -= 1
            job = BuildJob("module {}", self.flags, 60.0, spec=f"// {self.left}", dumps=())
            asked.append((Outcome(cast(Candidate, None), self.left), self.executor.start(job)))
        return asked

    def settle_build(self, outcome: Outcome, build: Compiled) -> Measure:
        del outcome

        def measure(device: Device) -> Measured:
            device.check(build.vmfb, [self.benchmark.invocation] * 2, timeout=60.0)
            return Measured(Check(None, 0.0), device.time(build, self.benchmark), device=device.uri)

        return measure

    def settle(self, outcome: Outcome, measured: Measured) -> None:
        del outcome
        assert measured.timing is not None
        assert measured.timing.ok
        self.settled += 1


def _measure(workers: int, each: int, own: Facts, tools: Tools, slower: float) -> str:
    target, load = Target.parse("sm_80"), os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder, _cluster(workers, slower) as (address, group):
        builder = Builder(tools, Cache(Path(folder) / "cache"))
        values = Path(folder) / "input.bin"
        values.write_bytes(bytes(1 << 20))
        benchmark = Benchmark(Invocation("main", (f"512x512xf32=@{values}",), ("f32",)), 0.05, 60.0)
        with (
            Cluster.open(Scheduler(address), own, target, timed=True, wanted="", note=print) as cluster,
            local_executor(2) as here,
            cluster.devices(isolate=False) as devices,
        ):
            lane = Lane(cluster.executor(builder, here), benchmark, target.compile_flags, left=each * workers)
            began, cpu, others = time.monotonic(), _cpu(), group.cpu()
            Pool(cluster.jobs, True, lambda: False, {}, Devices(tuple(devices)), lane).run()
            wall, used = time.monotonic() - began, _cpu() - cpu
            scheduler, *hosts = (now - then for now, then in zip(group.cpu(), others, strict=True))
    assert lane.settled == each * workers
    # A pipeline: builds follow one another, and the last one is timed after it.
    ideal = slower * (each * BUILD_SECONDS + DEVICE_SECONDS)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return (
        f"{workers} workers: {lane.settled} candidates in {wall:.2f} s, {lane.settled / wall:.2f} a second, "
        f"{100 * ideal / wall:.1f} % of linear; CPU a candidate: coordinator {1000 * used / lane.settled:.1f} ms, "
        f"scheduler {1000 * scheduler / lane.settled:.1f} ms, workers {1000 * sum(hosts) / lane.settled:.1f} ms; "
        f"coordinator {100 * used / wall:.0f} % of a core, {memory:.0f} MiB; load {load:.1f} before"
    )


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _cpu_of(pid: int) -> float:
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", default=",".join(map(str, WORKERS)))
    parser.add_argument("--each", type=int, default=20, help="candidates for each worker")
    parser.add_argument("--slower", type=float, default=1.0, help="how many times as long all sleep")
    parser.add_argument("--host", help=argparse.SUPPRESS)
    parser.add_argument("--count", type=int, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    tools = Tools.find()
    own = Facts.of_this_machine(tools, builds=0)
    if asked.host:
        sleeping = replace(own, builds=1, device="cuda://0", called="sleeper")
        asyncio.run(_host(asked.host, asked.count, sleeping, asked.slower))
        return
    print(f"machine: {machine()}")
    for workers in map(int, asked.workers.split(",")):
        print(_measure(workers, asked.each, own, tools, asked.slower), flush=True)


if __name__ == "__main__":
    main()
