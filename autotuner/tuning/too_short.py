"""A run whose time was up before the compiler had read what it asks: a row like others, and what would do."""

from __future__ import annotations

from autotuner.measure.blocks import ALPHA
from autotuner.measure.schedule import longer
from autotuner.system.progress import Clock
from autotuner.tuning.options import Options
from autotuner.tuning.result import Counts, D, Measured, Result
from autotuner.tuning.run import Account, Question, Run
from autotuner.tuning.session import Session

_FACTOR = 5.0
"""Reading is a small part of a run: with so many times the budget there is a verdict."""
_BUILDING = 3.0
"""The same where all is read, and what is compared was being built: that is kept, and is a large part of the run."""


def too_short(question: Question, *, session: Session, options: Options, account: Account, details: D) -> Result[D]:
    """Begun and ended."""
    with Run.begin(question, session=session, options=options, account=account) as run:
        result = unread(run, details)
        run.finish(result)
    return result


def would_read(clock: Clock, *, building: bool = False) -> str:
    """The budget for a verdict, where this one was up before all was read, or while it was built."""
    return longer((_BUILDING if building else _FACTOR) * clock.budget, part=clock.part)


def unread(run: Run, details: D, *, what: str = "the compiler had read it", building: bool = False) -> Result[D]:
    """The result of a run that has nothing to report: the time was up before that."""
    would_do = would_read(run.clock, building=building)
    return Result(
        **run.facts(),
        verdict="inconclusive",
        reason=f"nothing was tried, the time was up before {what}: {would_do}",
        baseline=Measured(),
        stock=Measured(),
        best=None,
        speedup=None,
        speedup_over_stock=None,
        confidence=1 - ALPHA,
        counts=Counts(),
        details=details,
    )
