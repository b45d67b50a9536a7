"""Brute-force a real search space on a device: a file for benchmarks/replay.py.

    python -m benchmarks.record gemm --shape 2048x2048x2048 --dtype f16 --target sm_80 --seconds 240 --out DIR

Candidates are built on all cores in a seeded random order while one device process times what is built. After --seconds
nothing more is begun and what is begun is finished, so that a run that was cut off is a uniform random sample of the
space. The same command goes on where it ended. On cpu the builds disturb the timings: it is there for tests.
"""

from __future__ import annotations

import argparse
import inspect
import math
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from autotuner.build import Builder, BuildJob, Compiled
from autotuner.build.executor import BuildExecutor
from autotuner.cli.operations import COMMANDS, words_of
from autotuner.devices.device import Computed, choose_repeat
from autotuner.devices.environment import capture
from autotuner.devices.process import ProcessDevice
from autotuner.devices.resident import ResidentDevice, open_resident
from autotuner.errors import AutotuneError, DeviceError, NoCandidateError, WrongResultError
from autotuner.iree.compile import FailureClass
from autotuner.iree.run import Benchmark
from autotuner.iree.tools import Tools
from autotuner.measure.check import RANDOM, Check, Data, compare
from autotuner.problems import Problem
from autotuner.space import Config
from autotuner.system.cache import Cache
from autotuner.system.locks import device_lock
from autotuner.system.settings import cache_dir, usable_cores
from autotuner.targets import Target
from autotuner.tuning.plan import Candidate, Plan
from benchmarks.recording import Figures, Row, Rows

CALL_US = 3000.0
"""How long a call of the baseline lasts with its dispatches repeated."""
COMPILE_TIMEOUT = 30.0
AHEAD = 2
"""Candidates that are being built or wait for the device, for each core."""
SECONDS, SLOW = 0.005, 20.0
"""A repetition; and how many times the default's time is enough of one."""
JUDGES = 4
"""Results that are compared at once."""
RENAMED = {"out": "out-type"}


@dataclass(frozen=True)
class Request:
    """What the command line asks for."""

    problem: Problem
    target: Target
    device: str
    out: Path
    seconds: float
    timeout: float = 5.0
    limit: int | None = None
    """At most this many candidates; None: the whole space."""
    jobs: int = 1
    seed: int = 0

    @property
    def name(self) -> str:
        return f"{self.problem.name}-{self.target.name}"


def build_counted(builder: Builder, job: BuildJob) -> tuple[Compiled, float]:
    """A build with its compiler's core-seconds; a worker has one compiler at a time."""
    before = _children()
    build = builder.build(job)
    return build, _children() - before


def _children() -> float:
    """Core-seconds of the programs that this process has waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Judge:
    """Is a result right? Once for each distinct one, beside the timing of others."""

    def __init__(self, data: Data, executor: Executor) -> None:
        expected = data.expected[RANDOM]
        if not expected:
            raise NoCandidateError(f"{data.problem.name} has no reference.", remedy="Record a problem that has one.")
        self._expected, self._executor = expected[0], executor
        self._verdicts: dict[str, Future[Check]] = {}

    def verdict(self, computed: Computed) -> Future[Check]:
        if computed.digest not in self._verdicts:
            self._verdicts[computed.digest] = self._executor.submit(self._compare, computed)
        return self._verdicts[computed.digest]

    def _compare(self, computed: Computed) -> Check:
        right = self._expected.reference
        return compare(computed.arrays[0].reshape(right.shape), right, self._expected.bound)


@dataclass(frozen=True)
class Measured:
    """What became of a module on the device."""

    seconds: float
    """On the device, all in all."""
    failure: FailureClass | None = None
    detail: str = ""
    computed: Computed = field(default_factory=Computed)
    us: float = 0.0


OnRow = Callable[["Recorder", Row], None]


@dataclass
class Recorder:
    """One run: builds ahead of the device, the device, and the rows."""

    request: Request
    plan: Plan
    builder: Builder
    device: ResidentDevice
    data: Data
    judge: Judge
    rows: Rows
    executor: Executor
    folder: Path
    on_row: OnRow | None = None
    repeat: int = 1
    baseline_us: float = math.inf
    figures: Figures = field(default_factory=Figures)
    _timed: dict[str, Row] = field(default_factory=dict)
    """The first row of each binary."""
    _waiting: list[tuple[Row, Future[Check]]] = field(default_factory=list)

    def run(self, *, deadline: float) -> None:
        before = self.baseline()
        self.baseline_us = before * 1e3
        started = time.monotonic()
        for config, build, core_s in self._built(deadline=deadline):
            self.figures.built(build.seconds, core_s=core_s)
            self._settle(config, build)
            self._write()
        wait([verdict for _, verdict in self._waiting])
        self._write()
        self.figures.seconds = time.monotonic() - started
        self.figures.repeat, self.figures.device_processes = self.repeat, self.device.connection.starts
        self.figures.baseline_ms = (before, self.baseline())

    def baseline(self) -> float:
        """IREE's default in ms; the first time, how often its dispatches are repeated follows from it."""
        if self.repeat == 1:
            rough = self._baseline_ms()
            self.repeat = choose_repeat(rough * 1e3, invocation_us=CALL_US) if self.plan.problem.repeatable else 1
        return self._baseline_ms()

    def _baseline_ms(self) -> float:
        build, _ = self.executor.submit(build_counted, self.builder, self._job(self.plan.baseline)).result()
        if not build.ok:
            raise NoCandidateError(f"IREE's default does not compile: {build.stderr[-300:]}", remedy="Check --target.")
        measured = self._on_device(build)
        if measured.failure is not None:
            raise DeviceError(
                f"the baseline does not run: {measured.detail}", remedy="`autotune doctor` lists devices."
            )
        check = self.judge.verdict(measured.computed).result()
        if not check.ok:
            raise WrongResultError(f"IREE's default computes wrong results here ({check.detail}).")
        return measured.us / 1e3

    def _on_device(self, build: Compiled, *, give_up_us: float = math.inf) -> Measured:
        """One call to be checked, then the timing."""
        started, call = time.monotonic(), self.data.invocation()
        (computed,) = self.device.check(build.vmfb, [call], timeout=self.request.timeout)
        if computed.failure is not None:
            return Measured(time.monotonic() - started, computed.failure, computed.detail)
        benchmark = Benchmark(call, SECONDS, self.request.timeout)
        timing = self.device.time(build, benchmark, give_up_us=give_up_us)
        us = timing.median if timing.ok else 0.0
        return Measured(time.monotonic() - started, timing.failure, timing.detail, computed, us)

    # --- candidates -----------------------------------------------------------------------------------------------

    def _order(self) -> Iterator[Config]:
        order = np.random.default_rng(self.request.seed).permutation(len(self.plan.space))
        for row in order[: self.request.limit]:
            config = self.plan.space[int(row)]
            if not self.rows.has(config):
                yield config

    def _built(self, *, deadline: float) -> Iterator[tuple[Config, Compiled, float]]:
        """Builds as they end. Only so many are begun before the device has taken others."""
        order, running = self._order(), dict[Future[tuple[Compiled, float]], Config]()
        while True:
            while len(running) < AHEAD * self.request.jobs and time.monotonic() < deadline:
                if (config := next(order, None)) is None:
                    break
                candidate = self.plan.candidate(config, id=config.key)
                running[self.executor.submit(build_counted, self.builder, self._job(candidate))] = config
            if not running:
                return
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            ended = done.pop()
            yield running.pop(ended), *ended.result()

    def _job(self, candidate: Candidate) -> BuildJob:
        return self.plan.job(candidate, timeout=COMPILE_TIMEOUT, repeat=self.repeat)

    # --- rows -----------------------------------------------------------------------------------------------------

    def _settle(self, config: Config, build: Compiled) -> None:
        """What became of a candidate: written now, or when its result is judged."""
        row = Row(config, binary=build.binary[:12], failure=build.failure, detail=build.stderr)
        if build.failure is not None:
            self._add(row)
        elif (twin := self._timed.get(row.binary)) is not None:
            self._add(replace(twin, config=config))
        else:
            self._measure(row, build)

    def _measure(self, row: Row, build: Compiled) -> None:
        measured = self._on_device(build, give_up_us=SLOW * self.baseline_us)
        self.figures.measured(measured.seconds)
        if measured.failure is not None:
            self._add(replace(row, failure=measured.failure, detail=measured.detail))
            return
        timed = replace(row, time_ms=measured.us / 1e3)
        self._waiting.append((timed, self.judge.verdict(measured.computed)))
        # A twin that comes before the verdict is measured for itself.

    def _write(self) -> None:
        """The rows whose results are judged by now."""
        waiting, self._waiting = self._waiting, []
        for row, verdict in waiting:
            if not verdict.done():
                self._waiting.append((row, verdict))
                continue
            check = verdict.result()
            wrong = replace(row, time_ms=None, failure=check.failure, detail=check.detail)
            judged = row if check.ok else wrong
            self._timed.setdefault(row.binary, judged)
            self._add(judged)

    def _add(self, row: Row) -> None:
        self.rows.add(row)
        if self.on_row is not None:
            self.on_row(self, row)


def record(request: Request, *, on_row: OnRow | None = None) -> Path:
    """Records what the request asks for; gives the compressed file."""
    deadline = time.monotonic() + request.seconds
    with _recorder(request) as recorder:
        recorder.on_row = on_row
        recorder.run(deadline=deadline)
        return recorder.rows.finish(
            recorder.figures,
            about={
                "problem": request.problem.describe(),
                "command": " ".join([*request.problem.arguments(), "--target", request.target.name]),
                "target": request.target.name,
                "space": len(recorder.plan.space),
                "seed": request.seed,
            },
            environment=capture(request.device, Tools.find()),
        )


@contextmanager
def _recorder(request: Request) -> Iterator[Recorder]:
    """The parts of a run, put together and taken apart."""
    # Registers are not asked for, and NVIDIA's assembler would take as long as the compiler.
    tools = Tools.find()
    request.out.mkdir(parents=True, exist_ok=True)
    problem = request.problem
    with (
        device_lock(request.device, cache_dir(), on_wait=lambda text: print(text, file=sys.stderr)),
        tempfile.TemporaryDirectory(prefix="record-") as scratch,
        # Not threads: to prove a build takes Python's lock for long, and the device would wait for it.
        ProcessPoolExecutor(request.jobs, mp_context=get_context("spawn")) as compilers,
        ThreadPoolExecutor(JUDGES) as judges,
    ):
        folder = Path(scratch)
        builder = Builder(tools, Cache(folder / "cache"))
        data = Data.write(problem, folder / "inputs", seed=request.seed)
        with open_resident(ProcessDevice(tools, request.device, folder)) as device:
            plan = Plan.make(problem, request.target, BuildExecutor.on(judges, builder), timeout=COMPILE_TIMEOUT)
            if not len(plan.space):
                raise NoCandidateError(
                    f"{problem.name} has no knobs: {'; '.join(plan.notes)}.", remedy="Try another shape."
                )
            judge = Judge(data, judges)
            with Rows.open(request.out, request.name, knobs=[knob.name for knob in plan.space.knobs]) as rows:
                yield Recorder(request, plan, builder, device, data, judge, rows, compilers, folder)


# --- the command line -------------------------------------------------------------------------------------------------


def parse(words: Sequence[str]) -> Request:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    operations = parser.add_subparsers(dest="op", required=True)
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--target", required=True, help="a chip, such as sm_80")
    common.add_argument("--device", help="IREE device URI [default: the target's]")
    common.add_argument("--seconds", type=float, default=240.0, help="after so long no candidate is begun")
    common.add_argument("--timeout", type=float, default=5.0, help="seconds on the device for one candidate")
    common.add_argument("--limit", type=int, help="at most so many candidates [default: the whole space]")
    common.add_argument("--jobs", type=int, default=usable_cores(), help="compiles at once [default: usable cores]")
    common.add_argument("--seed", type=int, default=0, help="of the order and of the inputs")
    common.add_argument("--out", type=Path, required=True, help="folder of the recording")
    for op in COMMANDS:
        own = operations.add_parser(op, parents=[common])
        for name, word in words_of(op).items():
            # The recording's folder is --out here.
            own.add_argument(f"--{RENAMED.get(name, name)}", dest=f"word_{name}", **_argument(word))
    given = parser.parse_args(words)
    target = Target.parse(given.target)
    return Request(
        problem=target.prepare(_problem(given)),
        target=target,
        device=target.choose_device(given.device),
        out=given.out,
        seconds=given.seconds,
        timeout=given.timeout,
        limit=given.limit,
        jobs=given.jobs,
        seed=given.seed,
    )


def _argument(word: inspect.Parameter) -> dict[str, Any]:
    """An option of `autotune gemm`, `conv` or `attention`, as this parser takes it."""
    if isinstance(word.default, bool):
        return {"action": "store_true"}
    if word.default is word.empty:
        return {"required": True}
    return {"default": word.default, **({"type": int} if isinstance(word.default, int) else {})}


def _problem(given: argparse.Namespace) -> Problem:
    problem: Problem = COMMANDS[given.op](**{name: getattr(given, f"word_{name}") for name in words_of(given.op)})
    return problem


def _report(recorder: Recorder, row: Row) -> None:
    """A line now and then, and one for each failure on the device."""
    if row.failure in ("run-error", "run-timeout", "wrong-result"):
        print(f"{row.failure}: {row.detail[-200:]}", file=sys.stderr)
    if len(recorder.rows) % 100 == 0:
        print(f"{len(recorder.rows)} of {len(recorder.plan.space)}", file=sys.stderr)


def main() -> None:
    try:
        request = parse(sys.argv[1:])
        print(record(request, on_row=_report))
    except AutotuneError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
