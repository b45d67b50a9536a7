"""Runs builds in threads of this machine or on other machines, which get a job and its key.

The key is the contract: a machine that would build something else (with another IREE, for another processor, or because
a file that a flag names differs there) refuses the job.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path

from autotuner.build.builder import HOST, Builder, BuildJob
from autotuner.errors import EnvironmentFailure
from autotuner.iree.compile import CONFIGURED, Compile, Compiled, inspect
from autotuner.iree.folder import MODEL, MODULE, write_inputs
from autotuner.iree.processor import executable_target, read_processor
from autotuner.iree.tools import Tools
from autotuner.problems import Gemm
from autotuner.problems.render import problem_mlir
from autotuner.system.execution import after, done, local_executor
from autotuner.targets.backends.llvm_cpu import CPU_FLAG, LLVM_CPU

Answer = tuple[Compiled, bytes | None]
"""The result of a job on another machine, with its module."""


@dataclass(frozen=True)
class BuildExecutor:
    """Submits builds and collects their results."""

    builder: Builder
    """This machine's builder, which computes keys and caches modules."""
    workers: Executor
    """Threads of this machine that each wait for a compiler."""
    here: Executor
    """Threads of this machine for jobs that may wait for another build."""
    send: Callable[[BuildJob, str], Future[Answer]] | None = None
    """Gives a job and its key to other machines. They have caches and processors of their own: the job names the
    processor, and the answer brings the module. None: all is built here."""

    @classmethod
    @contextmanager
    def local(cls, builder: Builder, jobs: int) -> Iterator[BuildExecutor]:
        """Threads that each wait for one compiler process, and share this machine's cache."""
        with local_executor(jobs) as here, local_executor(jobs) as workers:
            yield cls(builder, workers, here)

    @classmethod
    def on(cls, workers: Executor, builder: Builder) -> BuildExecutor:
        """An executor on existing threads."""
        return cls(builder, workers, workers)

    def start(self, job: BuildJob) -> Future[Compiled]:
        """Starts a build. A model is compiled on this machine, which has its file."""
        if self.send is None or isinstance(job.program, Path):
            return self.workers.submit(self.builder.build, job)
        sent = explicit(job, self.builder.tools)
        key = self.builder.key(sent)
        if (known := self.builder.recalled(sent, key)) is not None:
            return done(known)
        return after(self.send(sent, key), partial(_taken_in, sent, key, self.builder))

    def start_made(self, make: Callable[[], BuildJob], refusals: tuple[type[Exception], ...]) -> Future[Compiled]:
        """Starts a build of a job that is made first; an exception in `refusals` is a failed build."""

        def make_and_build() -> Compiled:
            try:
                job = make()
            except refusals as error:
                return Compiled.refused(str(error))
            return self.start(job).result()

        return self.here.submit(make_and_build)

    def start_in(self, folder: Path, job: BuildJob) -> Future[Compiled]:
        """A build that is also copied into a folder, where a user can repeat it."""
        return after(self.start(job), partial(_put, folder, job))

    def inspect(self, job: BuildJob) -> Future[str]:
        """The text that a stopped job prints; raises with the compiler's own words."""
        return after(self.start(job), lambda made: made.checked().text)


def _put(folder: Path, job: BuildJob, made: Compiled) -> Compiled:
    write_inputs(job, folder)
    (folder / MODEL).unlink(missing_ok=True)  # the command names it where it lies
    if made.ok:
        shutil.copy(made.vmfb, folder / MODULE)
    return replace(made, vmfb=folder / MODULE)


# --- On another machine ---------------------------------------------------------------------------------------------


def explicit(job: BuildJob, tools: Tools) -> BuildJob:
    """The job with this machine's processor in place of `host`, so that any machine gives the same code."""
    host = f"{CPU_FLAG}={HOST}"
    named = [word for flag in job.flags for word in (_processor(tools) if flag == host else (flag,))]
    return replace(job, flags=tuple(named))


@lru_cache(maxsize=4)
def _processor(tools: Tools) -> tuple[str, str]:
    """The compiler's name of this processor."""
    source, flags = problem_mlir(Gemm.parse(shape="8x8x8", dtype="f32")), LLVM_CPU.flags(HOST)
    text = inspect(Compile(source, flags, 60.0, stop=CONFIGURED), tools).text
    cpu, features = read_processor(executable_target(text))
    return f"{CPU_FLAG}={cpu}", f"{CPU_FLAG}-features={features}"


def work(job: BuildJob, key: str, builder: Builder) -> Answer:
    """Builds a job with this machine's programs and cache."""
    if builder.key(job) != key:
        raise EnvironmentFailure(
            "this machine would build something else: its IREE, its processor or a file that a flag names differs.",
            remedy="Install the same IREE, and put files that --flag names where all machines find them.",
        )
    made = builder.build(job)
    return replace(made, dumped={}), made.vmfb.read_bytes() if made.vmfb.is_file() else None


def _taken_in(job: BuildJob, key: str, builder: Builder, answer: Answer) -> Compiled:
    """The result of the job; its module is put into this machine's cache."""
    made, module = answer
    if module is not None and builder.cache.read(key) is None:
        builder.cache.store(key, made.record(), vmfb=module)
    return replace(made, key=key, command=job.by_hand(builder.tools), vmfb=builder.cache.module(key))
