"""Where builds run: in threads of this machine, or on other machines, which get plain jobs and give plain answers."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from autotuner.build.builder import Builder, BuildJob
from autotuner.build.jobs import Document, explicit, job_to_json, read_answer
from autotuner.iree.compile import Compiled, CompilerRefusal, compile_program
from autotuner.iree.folder import MODEL, MODULE, write_inputs
from autotuner.iree.tools import Tools
from autotuner.system.execution import after, done, local_executor


@dataclass(frozen=True)
class BuildExecutor:
    """Sends jobs out and takes the answers in."""

    builder: Builder
    """This machine's: it knows the key of a job, and its cache takes the modules."""
    workers: Executor
    """Where jobs go."""
    here: Executor
    """Threads of this machine, for what is no plain job."""
    work: Callable[[Document], Document] | None = None
    """What workers of other machines do with a job. They have caches and processors of their own: it names the
    processor, and an answer brings the module. None: the workers are threads of this machine."""
    answers: Executor | None = None
    """Threads that take answers in; None: whoever brings one does."""

    @classmethod
    @contextmanager
    def local(cls, builder: Builder, jobs: int) -> Iterator[BuildExecutor]:
        """Threads that each wait for one compiler process, and share this machine's cache."""
        with local_executor(jobs) as here, local_executor(jobs) as workers:
            yield cls.on(workers, builder, here=here)

    @classmethod
    def on(cls, workers: Executor, builder: Builder, *, here: Executor | None = None) -> BuildExecutor:
        """The same on threads that are there."""
        return cls(builder, workers, here or workers)

    def start(self, job: BuildJob) -> Future[Compiled]:
        """The job's module and its proof, or how the compile failed."""
        if self.work is None:
            return self.workers.submit(self.builder.build, job)
        sent = explicit(job, self.builder.tools)
        key = self.builder.key(sent)
        if (known := self.builder.recalled(sent, key)) is not None:
            return done(known)
        document = job_to_json(sent, key=key)
        taken_in = partial(read_answer, sent, self.builder, key=key)
        return after(self.workers.submit(self.work, document), taken_in, within=self.answers)

    def start_made(self, make: Callable[[], BuildJob], refusals: tuple[type[Exception], ...]) -> Future[Compiled]:
        """The same for a job that this machine must make first; one of `refusals` then is a failure of it."""

        def make_and_build() -> Compiled:
            try:
                job = make()
            except refusals as error:
                return Compiled.refused(str(error))
            return self.start(job).result()

        return self.here.submit(make_and_build)

    def start_whole(self, job: BuildJob) -> Future[Compiled]:
        """A whole model, which is compiled where its file lies: here."""
        return self.here.submit(self.builder.build, job)

    def start_in(self, folder: Path, job: BuildJob, tools: Tools) -> Future[Compiled]:
        """A build that is put into a folder, for whoever repeats it there.

        By a compiler of the user's own it is made where that is: here.
        """
        if tools != self.builder.tools:
            return self.here.submit(_whole, replace(self.builder, tools=tools), job, folder)
        start = self.start_whole if isinstance(job.program, Path) else self.start
        return after(start(job), partial(_put, folder, job))

    def inspect(self, job: BuildJob) -> Future[str]:
        """What the compiler prints where the job stops; raises with the compiler's own words when it refuses."""
        return after(self.start(job), _text)


def _whole(builder: Builder, job: BuildJob, folder: Path) -> Compiled:
    return builder.prove(job, compile_program(job, builder.tools, folder))


def _put(folder: Path, job: BuildJob, made: Compiled) -> Compiled:
    write_inputs(job, folder)
    (folder / MODEL).unlink(missing_ok=True)  # the command names it where it lies
    if made.ok:
        shutil.copy(made.vmfb, folder / MODULE)
    return replace(made, vmfb=folder / MODULE)


def _text(made: Compiled) -> str:
    if not made.ok:
        raise CompilerRefusal(made.stderr)
    return made.text
