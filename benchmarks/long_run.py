"""Whether a long search takes more and more: `python -m benchmarks.long_run [--candidates 20000] [--seconds S]`.

A search of eight hours in minutes: the compiler and the timer are programs that do nothing (`true`), each candidate's
build and timing one call. All else is that of a run: the pool and its threads, the guided search with its kept study,
the evaluator with its rows in the results database, folders and progress. Eight hours on two cores are about 20,000
candidates. Each tenth says what it took, and what the process holds then.

With --seconds it is a real search: `autotune gemm` on this processor for so long, looked at from outside.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import autotuner.__main__  # noqa: F401  first, as in a command: BLAS has one thread
from autotuner.build import Builder, BuildJob, Compiled
from autotuner.build.executor import BuildExecutor
from autotuner.devices.device import Module, Timing
from autotuner.devices.many import Devices
from autotuner.iree.run import Benchmark, Invocation
from autotuner.iree.tools import Tools
from autotuner.measure.calibrate import Calibration
from autotuner.measure.check import Check
from autotuner.measure.clock import Clock
from autotuner.measure.schedule import Schedule
from autotuner.problems import Gemm
from autotuner.space.table import Config, Knob, Space
from autotuner.store.rows import NewRun
from autotuner.store.store import Store
from autotuner.system import process
from autotuner.system.cache import Cache
from autotuner.system.progress import Progress, Silent, Stop
from autotuner.system.workspace import Workspace
from autotuner.targets import PLAIN, Target
from autotuner.tuning.evaluate import Evaluator
from autotuner.tuning.loop import Loop
from autotuner.tuning.options import Options
from autotuner.tuning.plan import Candidate, Plan
from autotuner.tuning.session import Session
from benchmarks.machine import machine
from benchmarks.place import ENDED, PROGRAMS
from tests.support.bare_device import BareDevice

JOBS = 2
PARTS = 10


@dataclass(frozen=True)
class Held:
    """What a process holds at a moment."""

    mib: float
    files: int
    threads: int
    children: int

    @classmethod
    def of(cls, pid: int) -> Held:
        folder = Path(f"/proc/{pid}")
        words = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines())
        below = (path.read_text().split() for path in (folder / "task").glob("*/children"))
        kib, threads = words["VmRSS"].split()[0], words["Threads"]
        return cls(int(kib) / 1024, len(os.listdir(folder / "fd")), int(threads), sum(map(len, below)))

    def __str__(self) -> str:
        return f"{self.mib:7.0f} MiB {self.files:4} files {self.threads:4} threads {self.children:3} children"


def device_of(pid: int) -> str:
    """What the device's process of a run holds; it begins anew where it was lost."""
    below = {int(word) for path in Path(f"/proc/{pid}/task").glob("*/children") for word in path.read_text().split()}
    with suppress(OSError):
        for child in below:
            if PROGRAMS["device"] in Path(f"/proc/{child}/cmdline").read_text():
                return f"device: {Held.of(child)}"
    return "no device"


class NoCompiler(Builder):
    """Its builds are a program's call, and no two are the same binary."""

    def build(self, job: BuildJob) -> Compiled:
        done = process.run(["true"], timeout=60)
        return Compiled(None, "", done.seconds, (), Path("module.vmfb"), binary=str(job.spec), applied=1)


class NoTimer(BareDevice):
    """Its timings are a program's call: the nearer to the middle of the space, the faster."""

    def check(self, vmfb: Path, invocations: Sequence[Invocation], *, timeout: float) -> tuple[Any, ...]:
        del vmfb, invocations, timeout
        return ()

    def time(
        self, module: Module, benchmark: Benchmark, *, repetitions: int = 3, give_up_us: float = math.inf
    ) -> Timing:
        del benchmark, give_up_us
        process.run(["true"], timeout=60)
        numbers = [int(word) for word in cast(Compiled, module).binary.split()]
        return Timing((100.0 + sum(abs(number - 16) for number in numbers),) * repetitions)


class Numbers(Plan):
    """Its candidates are nothing but the numbers of their configurations."""

    def candidate(self, config: Config, *, id: str) -> Candidate:
        return Candidate(id, "codegen", PLAIN, 1, config)

    def job(self, candidate: Candidate, *, timeout: float, repeat: int = 1, timed: bool = False) -> BuildJob:
        del repeat, timed
        return BuildJob("", (), timeout, spec=" ".join(str(value) for _, value in candidate.config.items))


@dataclass
class Watch(Silent):
    """Looks at this process after each tenth of a search."""

    candidates: int
    began: float = field(default_factory=time.monotonic)
    used: float = field(default_factory=time.process_time)
    part: int = 0
    looked: list[tuple[float, Held]] = field(default_factory=list)

    def progress(self, now: Progress) -> None:
        if now.timed - 1 < self.part * self.candidates // PARTS:
            return
        self.part += 1
        seconds, cpu, held = time.monotonic() - self.began, time.process_time() - self.used, Held.of(os.getpid())
        self.began, self.used = self.began + seconds, self.used + cpu
        self.looked.append((cpu, held))
        print(f"{now.timed - 1:8,} candidates {seconds:8.1f} s {cpu:8.1f} s of the processor {held}", flush=True)


def search(candidates: int, folder: Path) -> Watch:
    """So many candidates, whose compiler and timer do nothing."""
    space, target = Space.product([Knob(name, tuple(range(32))) for name in "abcd"]), Target.parse("cpu")
    plan = replace(Numbers.bare(Gemm.parse(shape="64x64x64", dtype="f32"), target), space=space)
    device, right, watch = NoTimer(), Check(None, 0.0), Watch(candidates)
    workspace, clock, tools = Workspace.open(folder), Clock(math.inf), Tools.find()
    builder = NoCompiler(tools, Cache(folder / "cache"))
    with ExitStack() as stack:
        store = stack.enter_context(Store.open(None, workspace=folder))
        run = store.start_run(NewRun("single", "key", (), {"op": "gemm", "name": "gemm"}, "cpu", "none", 0))
        executor = stack.enter_context(BuildExecutor.local(builder, JOBS))
        devices = Devices((device,))
        evaluator = Evaluator(plan, builder, store, run, workspace.run_folder(run), frozenset(), 60.0, devices)
        evaluator.next_ordinal = 1
        checker = cast(Any, SimpleNamespace(check=lambda _: right))
        benchmark = Benchmark(Invocation("main", (), ()), 0.02, 60.0)
        default = Compiled(None, "", 0.01, (), Path("module.vmfb"), binary="99 99 99 99", applied=1)
        heard = Timing((1000.0,))
        evaluator.calibrate(Calibration(device, checker, benchmark, 1, default, 0.01, 0.01, heard, right))
        session = Session("none", watch, Stop(), tools, workspace, store, executor, devices, jobs=JOBS)
        loop = Loop(evaluator, session, clock, Options(), trials=candidates, seconds=defaultdict(float))
        loop.time_baseline(Schedule(clock, 0.01, 0.01))
        loop.search()
        counts = evaluator.counts()
    print(f"{counts.asked:,} asked, {counts.timed:,} timed, {counts.duplicate:,} duplicates")
    return watch


def real(seconds: float, folder: Path) -> None:
    """A tuning run of so long, and what its coordinator holds each tenth of it."""
    words = ("--shape", "512x512x512", "--dtype", "f32", "--effort", "full", "--trials", "100000")
    command = [sys.executable, "-m", "autotuner", "gemm", *words, "--budget", f"{seconds:.0f}s", "-q", "--json"]
    with (folder / "out.json").open("wb") as out:
        running = subprocess.Popen(command, cwd=folder, stdout=out)
        database, before, began = f"sqlite:///{folder / 'results/autotune.db'}", 0, time.monotonic()
        for part in range(1, PARTS + 1):
            while running.poll() is None and time.monotonic() < began + part * seconds / PARTS:
                time.sleep(0.5)
            if running.poll() is not None:
                break
            with Store.open(database, workspace=folder, create=False) as store:
                ended = sum(row.state in ENDED for run in store.runs() for row in store.candidates(run.id))
            held = f"{Held.of(running.pid)}; {device_of(running.pid)}"
            print(f"{part * seconds / PARTS:8.0f} s {ended - before:6} candidates {held}", flush=True)
            before = ended
        running.wait()
    document = json.loads((folder / "out.json").read_text())
    lasted = time.monotonic() - began
    print(f"exit code {running.returncode} after {lasted:.0f} s: {document['verdict']}, {document['counts']}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--candidates", type=int, default=20_000)
    parser.add_argument("--seconds", type=float, help="a real search instead, of so long")
    asked = parser.parse_args()
    print(f"machine: {machine()}")
    with tempfile.TemporaryDirectory(prefix="long-") as name:
        if asked.seconds:
            real(asked.seconds, Path(name))
            return
        looked = search(asked.candidates, Path(name)).looked
    (second, early), (last, late) = looked[2], looked[-1]
    print(
        f"the last tenth took {last / second:.2f} times as much of the processor as the second; memory grew by "
        f"{late.mib - early.mib:.0f} MiB between them, files by {late.files - early.files}, "
        f"threads by {late.threads - early.threads}"
    )


if __name__ == "__main__":
    main()
