"""The finalists of a search: picked, built to last long enough, and put before the judge."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass

from autotuner.build import Compiled
from autotuner.devices.device import INVOCATION_US, Timing, choose_repeat
from autotuner.errors import OutOfTimeError
from autotuner.measure.judge import Contest, Judgement, JudgePhase, Record, Takes, judge, lead, timed_by
from autotuner.measure.race import Entrant, Rules
from autotuner.measure.shortlist import pick_for_race
from autotuner.measure.timeplan import LEADERS, longer
from autotuner.system import process
from autotuner.tuning.effort import Effort
from autotuner.tuning.evaluate import Evaluator, Outcome, TimedEvaluator
from autotuner.tuning.loop import TimedLoop
from autotuner.tuning.plan import BASELINE, SEARCHED
from autotuner.tuning.standing import Standing

_BUILD_SHARE = 0.4
"""Of the time that is left after the search, at most, for building the finalists."""
_NEARLY = 1.05
"""A stock route that takes no longer than this, over the best candidate, is the favourite: flags are simpler."""


def judge_finalists(loop: TimedLoop, effort: Effort) -> Judgement:
    """The best of the search against the baseline and the best stock route; a wrong default is at most the baseline."""
    evaluator, clock, plan = loop.evaluator, loop.clock, loop.time_plan
    standing = Standing(evaluator.outcomes)
    base = standing.base.candidate.id if standing.base else BASELINE
    stock = standing.stock.candidate.id if standing.stock else base
    favourite = _favourite(evaluator, stock, base=base)
    if favourite is None:
        return _alone(loop, standing, stock) if standing.alone() else _nothing_to_judge(loop)
    ending = plan.ending(clock.left)
    if ending is None:
        return Judgement("inconclusive", plan.too_short(clock), stock)
    # Twice as many as race are screened again. Without a race only the favourite is put to the test.
    names = _picked(evaluator, first=(base, stock, favourite), count=2 * ending.rivals)
    loop.reporter.stage(f"building {len(names)} finalists for the race")
    builds = _long_builds(loop, names).collect(evaluator)
    if base not in builds or len(builds) == 1:
        reason = f"the time was up before the finalists were built: {plan.would_do(clock)}"
        return Judgement("inconclusive", reason, stock)
    contest = Contest(
        entrants=_entrants(evaluator, builds),
        baseline=base,
        stock=stock if stock in builds else base,
        rules=Rules(smallest_gain=effort.smallest_gain),
        confirm_blocks=effort.confirm_blocks,
        seed=loop.seed,
        screened=tuple(s for s in evaluator.screened if s.id in builds),
        places=ending.rivals,
        favourite=favourite if favourite in builds else None,
        labels={name: describe(evaluator.outcomes[name]) for name in builds},
    )
    return judge(
        contest,
        _takes(evaluator, builds),
        clock=clock,
        stop=loop.stop,
        plan=plan,
        record=_recorder(evaluator),
        stage=loop.reporter.stage,
    )


def _favourite(evaluator: Evaluator, stock: str, *, base: str) -> str | None:
    """Who races alone where there is no time for more; None where there is nobody but the baseline."""
    rivals = _picked(evaluator, first=(), count=len(evaluator.outcomes))
    best = next((name for name in rivals if name != base), None)
    if best is None or stock == base:
        return best
    us = [evaluator.outcomes[name].us or 0.0 for name in (stock, best)]
    return stock if us[0] <= _NEARLY * us[1] else best


def lead_of_search(loop: TimedLoop, effort: Effort, finalists: Finalists | None = None) -> Judgement:
    """The best of the search and the baseline, timed in turns a few times: no verdict, only a choice."""
    evaluator, clock = loop.evaluator, loop.clock
    builds = (finalists or start_leaders(loop)).collect(evaluator)
    if BASELINE not in builds:
        return Judgement("inconclusive", "the time was up before the finalists were built", BASELINE)
    if len(builds) == 1:
        return _nothing_to_judge(loop)
    most = loop.time_plan.lead_rivals(clock.left)
    names = [BASELINE, *[name for name in builds if name != BASELINE][:most]]
    contest = Contest(
        entrants=_entrants(evaluator, names),
        baseline=BASELINE,
        stock=BASELINE,
        rules=Rules(smallest_gain=effort.smallest_gain),
        seed=loop.seed,
    )
    return lead(contest, _takes(evaluator, builds), clock=clock, stop=loop.stop, record=_recorder(evaluator))


def start_leaders(loop: TimedLoop) -> Finalists:
    """Begins the builds of those that `lead_of_search` compares."""
    names = _picked(loop.evaluator, first=(BASELINE,), count=LEADERS)
    return _long_builds(loop, names, invocation_us=loop.evaluator.calibration.device.invocation_us)


def describe(outcome: Outcome) -> str:
    candidate = outcome.candidate
    if candidate.kind not in SEARCHED:
        return f"route {candidate.route.name}"
    return ", ".join(f"{name}={value}" for name, value in candidate.knobs.items())


def _picked(evaluator: Evaluator, *, first: Sequence[str], count: int) -> list[str]:
    """Those that come first in any case, and the fastest of the screening."""
    picked = pick_for_race(evaluator.screened, baseline=BASELINE, count=count)
    return list(dict.fromkeys([*first, *(name for name in picked if evaluator.outcomes[name].contends)]))


def _alone(loop: TimedLoop, standing: Standing, stock: str) -> Judgement:
    """The default is wrong, a slower route is right, and the search found nothing that is."""
    if len(loop.candidates()) >= min(loop.trials, len(loop.evaluator.plan.space)):
        return Judgement("no-winner", standing.alone(), stock)
    reason = f"{standing.alone()}; the time was up before anything else was timed: {longer(2 * loop.clock.budget)}"
    return Judgement("inconclusive", reason, stock)


def _nothing_to_judge(loop: TimedLoop) -> Judgement:
    """Nothing but the default was timed. Where that is wrong, this is an error."""
    judgement = _untried(loop)
    Standing(loop.evaluator.outcomes).require_right(judgement.reason)
    return judgement


def _untried(loop: TimedLoop) -> Judgement:
    """There was nothing to choose, no time for it, or none of it works."""
    evaluator = loop.evaluator
    tried = [o for o in evaluator.outcomes.values() if o.candidate.id != BASELINE]
    failed = Counter(o.failure for o in tried if o.failure is not None)
    if not len(evaluator.plan.space) and not tried:
        return Judgement("no-winner", evaluator.plan.no_knobs, BASELINE, cause="no-knobs")
    budget = loop.clock.budget
    if tried and all(o.duplicate_of is not None for o in tried):
        what = "what was tried is" if len(tried) == 1 else f"all {len(tried)} that were tried are"
        reason = f"{what} the very code of IREE's default"
        if len(loop.candidates()) >= min(loop.trials, len(evaluator.plan.space)):
            return Judgement("no-winner", reason, BASELINE)
        return Judgement("inconclusive", f"{reason}, and the time was up: {longer(2 * budget)}", BASELINE)
    if not failed:
        return Judgement("inconclusive", f"nothing was tried, the time was up: {longer(2 * budget)}", BASELINE)
    reasons = ", ".join(f"{name} {n}" for name, n in failed.items())
    unfinished = len(tried) - failed.total()
    if unfinished:
        reason = f"all {failed.total()} that were tried failed ({reasons}), and there was no time for {unfinished} more"
        return Judgement("inconclusive", f"{reason}: {longer(2 * budget)}", BASELINE)
    what = "what was tried fails" if len(tried) == 1 else f"all {len(tried)} that were tried fail"
    alone = "" if Standing(evaluator.outcomes).default_is_wrong else "nothing but the default works here: "
    return Judgement("no-winner", f"{alone}{what} ({reasons})", BASELINE)


def _entrants(evaluator: Evaluator, names: Iterable[str]) -> tuple[Entrant, ...]:
    return tuple(Entrant(name, evaluator.outcomes[name].candidate.complexity) for name in names)


def _takes(evaluator: TimedEvaluator, builds: Mapping[str, Compiled]) -> Takes:
    return timed_by(evaluator.calibration.device, evaluator.calibration.benchmark, builds)


def _recorder(evaluator: Evaluator) -> Record:
    def record(phase: JudgePhase, name: str, block: int, timing: Timing) -> None:
        evaluator.store.record_timing(evaluator.outcomes[name].row, timing, phase=phase, block=block)

    return record


@dataclass(frozen=True)
class Finalists:
    """Builds of those that are compared in the end: some are there, others under way."""

    names: tuple[str, ...]
    builds: dict[str, Compiled]
    jobs: Mapping[str, Future[Compiled]]

    def wait(self) -> None:
        wait(self.jobs.values())

    def collect(self, evaluator: Evaluator) -> dict[str, Compiled]:
        """Those that were built in time, in order."""
        for name, future in self.jobs.items():
            with suppress(OutOfTimeError):  # better fewer finalists than no verdict
                self.builds[name] = future.result()
            evaluator.tidy(evaluator.outcomes[name])
        return {name: self.builds[name] for name in self.names if name in self.builds and self.builds[name].ok}


def _long_builds(loop: TimedLoop, names: Sequence[str], *, invocation_us: float = INVOCATION_US) -> Finalists:
    """Builds that each last long enough, and no longer: a slow baseline repeated as often as its fastest rival would
    take all the time there is. The binaries stay the same, only repeats change."""
    evaluator, clock = loop.evaluator, loop.clock
    builds, jobs = {}, {}
    with process.until(clock.at(clock.elapsed + _BUILD_SHARE * max(clock.left, 0.0))):
        for name in names:
            outcome = evaluator.outcomes[name]
            cold = evaluator.calibration.benchmark.cache == "cold"
            repeat = 1 if cold else choose_repeat(outcome.us or INVOCATION_US, invocation_us=invocation_us)
            if outcome.build is not None and outcome.build.repeat >= repeat:
                builds[name] = outcome.build
            else:
                jobs[name] = evaluator.start_build(outcome.candidate, loop.executor, repeat=repeat)
    return Finalists(tuple(names), builds, jobs)
