"""One problem tuned: a command of its own, or a part of a larger run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Unpack

from autotuner.measure.check import too_large
from autotuner.measure.schedule import beginning
from autotuner.problems import Problem
from autotuner.system import process
from autotuner.targets import Target
from autotuner.tuning.options import WHOLE, Options, Task
from autotuner.tuning.result import Result
from autotuner.tuning.session import Session, Watched
from autotuner.tuning.single import Found, SingleRun


def tune(
    problem: Problem,
    target: Target,
    *,
    options: Options | None = None,
    **watched: Unpack[Watched],
) -> Result:
    """Searches for a configuration that beats IREE's default, and proves what it claims."""
    options = options or Options()
    prepared = target.prepare(problem)
    with Session.open(target, options, **watched) as session:
        return search(prepared, target, options=options, session=session).result


def search(problem: Problem, target: Target, *, options: Options, session: Session, task: Task = WHOLE) -> Found:
    """One run within a session, from its beginning to its end."""
    try:
        with searched(problem, target, options=options, session=session, task=task) as found:
            if found.run is not None:
                found.run.finish(found.result)
    except MemoryError as error:
        raise too_large(problem) from error
    return found


@contextmanager
def searched(
    problem: Problem, target: Target, *, options: Options, session: Session, task: Task = WHOLE
) -> Iterator[Found]:
    """A run that the caller finishes; an error within ends the run and is recorded.

    With --resume, a finished run of the same problem stands when `recall` is set.
    """
    steps = SingleRun(problem, target, options, session, task)
    steps.claim_outputs()
    with process.until(steps.clock.latest):
        with beginning("reading the problem"):
            steps.read_space()
        if (recalled := steps.recalled()) is not None:
            yield recalled
            return
        with steps.begun() as run:
            yield steps.found(steps.go(run))
