"""Ask, build, check, time, tell: until trials, time or patience run out."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Executor, Future
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, fields

import numpy as np

from autotuner.build import Compiled
from autotuner.errors import DeviceError, OutOfTimeError
from autotuner.measure.race import LOOKS
from autotuner.search import Search, make_search
from autotuner.system import process
from autotuner.system.process import last_line
from autotuner.system.progress import Clock, Progress, Reporter, Stop, clocked
from autotuner.tuning.evaluate import Evaluator, Outcome, TimedEvaluator, candidate_id
from autotuner.tuning.plan import BASELINE, SEARCHED, Candidate

_DRIFT_EVERY = 10
_DRIFT_WORTH_SAYING = 0.05
_OVERLAPPED = 8
"""Candidates under way at once where compiling and timing overlap."""
_RACE_SHARE = 0.4
"""At most this part of the budget is kept for race and confirmation."""
RACE_TIMINGS = 300
"""How many single timings race and confirmation usually take."""
LEAST_TIMINGS = 2 * 2 * LOOKS[0]
"""How many they take of one rival and the baseline, when the first look tells."""


@dataclass
class Loop:
    """One coordinator: compiles go to the executor. Without a device candidates are built and proven, no more."""

    evaluator: Evaluator
    executor: Executor
    clock: Clock
    stop: Stop
    reporter: Reporter
    seed: int
    trials: int
    jobs: int
    seconds: dict[str, float]
    unfinished: Sequence[Outcome] = ()
    """Candidates that an interrupted run had asked for and not finished."""
    _deadline: float = field(default=math.inf, init=False)
    """Seconds after the start at which nothing new is asked."""
    _put_off: set[str] = field(default_factory=set, init=False)
    """Candidates that gave way to others because they spill."""

    def compile_only(self) -> None:
        """The baseline, the stock routes and a seeded sample of the space: built, proven and deduplicated."""
        plan = self.evaluator.plan
        done = {o.candidate.config for o in self._candidates()}
        configs = dict.fromkeys([*plan.first, *plan.seeds])
        if len(plan.space):
            rng = np.random.default_rng(self.seed)
            configs |= dict.fromkeys(plan.space[int(i)] for i in plan.space.sample(self.trials, rng))
        self._deadline = self.clock.budget
        stock = [c for c in (plan.baseline, *plan.stock) if not self._is_settled(c)]
        pending = deque(self.evaluator.submit(c, self.executor) for c in [*stock, *self._left_over()])
        self._drain(pending, search=None)
        left = deque(c for c in list(configs)[: self.trials] if c not in done)
        while left and not self._over():
            while left and len(pending) < 2 * self.jobs:
                candidate = plan.candidate(left.popleft(), id=candidate_id(self.evaluator.next_ordinal))
                pending.append(self.evaluator.submit(candidate, self.executor))
            self._drain(pending, search=None, limit=1)
        self._drain(pending, search=None)

    def clocked(self, what: str) -> AbstractContextManager[None]:
        return clocked(self.seconds, what)

    @property
    def _shares_cores(self) -> bool:
        return self.evaluator.plan.target.compiles_on_device

    def _is_settled(self, candidate: Candidate) -> bool:
        """Without a device, built is all that a candidate can become."""
        outcome = self.evaluator.outcomes.get(candidate.id)
        return outcome is not None and outcome not in self.unfinished

    def _left_over(self) -> list[Candidate]:
        """Of the search's candidates, those that an interrupted run did not finish."""
        return [o.candidate for o in self.unfinished if o.candidate.kind in SEARCHED]

    def _candidates(self) -> list[Outcome]:
        return [o for o in self.evaluator.outcomes.values() if o.candidate.kind in SEARCHED]

    def _over(self) -> bool:
        return self.stop.requested or self.clock.elapsed > self._deadline

    def _drain(
        self, pending: deque[tuple[Outcome, Future[Compiled]]], search: Search | None, *, limit: int | None = None
    ) -> None:
        """Takes finished builds from the queue and measures them, all or the first `limit`."""
        if self._shares_cores:
            # Never compile on the cores that are being timed.
            with self.clocked("build"):
                for _, job in pending:
                    job.exception()
        for _ in range(len(pending) if limit is None else min(limit, len(pending))):
            taken = self._take(pending)
            if taken is None:  # cut off by the deadline: --resume finishes it
                continue
            outcome, build = taken
            try:
                self._settle(outcome, build)
            except OutOfTimeError:
                return
            if search is not None:
                with self.clocked("search"):
                    self._tell(search, outcome)
            self._report()
            # What is left in the queue stays a row that --resume finishes.
            if self._over():
                return

    def _settle(self, outcome: Outcome, build: Compiled) -> None:
        """What becomes of a candidate once it is built."""
        self.evaluator.settle_build(outcome, build)

    def _take(self, pending: deque[tuple[Outcome, Future[Compiled]]]) -> tuple[Outcome, Compiled] | None:
        """The next build of the queue. One that spills badly goes to its back, once, when a better one is finished."""
        outcome, job = pending.popleft()
        try:
            with self.clocked("build"):
                build = job.result()
        except OutOfTimeError:
            return None
        if build.isa.spills_badly and outcome.candidate.id not in self._put_off:
            better = next((i for i, (_, other) in enumerate(pending) if _is_better(other)), None)
            if better is not None:
                self._put_off.add(outcome.candidate.id)
                pending.append((outcome, job))
                outcome, job = pending[better]
                del pending[better]
        return outcome, job.result()

    def _tell(self, search: Search, outcome: Outcome) -> None:
        good = outcome.failure is None and outcome.us is not None
        search.tell(outcome.candidate.config, math.log(outcome.us) if good and outcome.us else None)

    def _report(self) -> None:
        outcomes = list(self.evaluator.outcomes.values())
        baseline = self.evaluator.outcomes.get(BASELINE)
        best = self.evaluator.best_us
        self.reporter.progress(
            Progress(
                trials=self.trials,
                asked=len(self._candidates()),
                built=sum(o.built for o in outcomes),
                failed=sum(o.failure is not None for o in outcomes),
                timed=sum(o.us is not None for o in outcomes),
                baseline_us=baseline.us if baseline else None,
                best_us=best if math.isfinite(best) else None,
                seconds=self.clock.elapsed,
                seconds_left=max(self.clock.left, 0.0),
            )
        )


@dataclass
class TimedLoop(Loop):
    """The search: candidates are checked and timed too, one at a time."""

    evaluator: TimedEvaluator
    race_timings: int = RACE_TIMINGS
    """How many single timings are kept for what follows the search."""
    least_timings: int = LEAST_TIMINGS
    """How many it needs at the least."""
    _timed: int = field(default=0, init=False)

    @classmethod
    def of(cls, loop: Loop, evaluator: TimedEvaluator, *, race_timings: int, least_timings: int) -> TimedLoop:
        """Goes on where a loop without a device stands."""
        known = {one.name: getattr(loop, one.name) for one in fields(loop) if one.init and one.name != "evaluator"}
        return cls(evaluator, **known, race_timings=race_timings, least_timings=least_timings)

    @property
    def timing_seconds(self) -> float:
        """What one timing costs in wall time, the process included."""
        return self.evaluator.calibration.timing_seconds

    def time_baseline(self) -> None:
        """IREE's default as a candidate like others: nothing can be compared without it."""
        evaluator = self.evaluator
        self.evaluate([evaluator.plan.baseline])
        outcome = evaluator.outcomes[BASELINE]
        if outcome.failure is not None:
            raise DeviceError(
                f"the baseline does not run with repeated dispatches: {last_line(outcome.detail)}",
                remedy="Please report it with the candidate's folder.",
            )
        if outcome.us is None:
            raise OutOfTimeError
        evaluator.store.record_timing(outcome.row, evaluator.calibration.heard, phase="drift", block=0)

    def evaluate(self, candidates: Sequence[Candidate]) -> None:
        """Builds these and times each, unless that is done already; as many as there is time for."""
        fresh = [c for c in candidates if not self._is_done(c)]
        # Those that are built in time are timed in time, too.
        with process.until(self.clock.at(self._deadline - len(fresh) * self.timing_seconds)):
            pending = deque(self.evaluator.submit(c, self.executor) for c in fresh)
        with process.until(self.clock.at(self._deadline)):
            self._drain(pending, search=None)

    def search(self) -> None:
        """Searches the space until the trials are used, or only the race's part of the budget is left."""
        plan = self.evaluator.plan
        space = plan.space
        if not len(space) or self._over():
            return
        with self.clocked("search"):
            search = make_search(space, seed=self.seed, first=[*plan.first, *plan.seeds])
            for outcome in self._candidates():
                if outcome not in self.unfinished:
                    self._tell(search, outcome)
        self.keep_time_for_the_race()
        with process.until(self.clock.at(self._deadline)):
            self._search(search)

    def keep_time_for_the_race(self) -> None:
        """From here on nothing new begins in the last part of the budget."""
        confirmation = LEAST_TIMINGS * self.evaluator.calibration.isolated_seconds
        reserve = min(self.clock.budget * _RACE_SHARE, self.race_timings * self.timing_seconds + confirmation)
        self._deadline = self.clock.budget - reserve

    def least_seconds(self) -> float:
        """What a verdict needs at the least, after the baseline: one rival, built twice and put to the test."""
        plan, baseline = self.evaluator.plan, self.evaluator.outcomes[BASELINE]
        if not len(plan.space) and not plan.stock:
            return 0.0
        builds = 2 * (baseline.build.seconds if baseline.build else 0.0)
        return builds + self.least_timings * self.timing_seconds

    def _search(self, search: Search) -> None:
        # Twice the compile slots keep them busy. Where timing overlaps it is the slower of the two, and a long queue
        # would only make the search ask before it has been told.
        depth = 2 * self.jobs if self._shares_cores else min(2 * self.jobs, _OVERLAPPED)
        pending = deque(self.evaluator.submit(c, self.executor) for c in self._left_over())
        while True:
            # Half a queue at a time: asking one by one would make the search's own time the larger part.
            room = min(depth - len(pending), self.trials - len(self._candidates()))
            if room >= min(depth // 2, self.trials - len(self._candidates())) and not self._over():
                pending.extend(self._ask(search, room))
            if not pending:
                break
            self._drain(pending, search, limit=None if self._shares_cores else 1)
            if self._over():
                break
        for _, job in pending:
            job.cancel()

    def _is_done(self, candidate: Candidate) -> bool:
        outcome = self.evaluator.outcomes.get(candidate.id)
        return outcome is not None and (outcome.us is not None or outcome.failure is not None)

    def _ask(self, search: Search, count: int) -> list[tuple[Outcome, Future[Compiled]]]:
        with self.clocked("search"):
            configs = search.ask(count)
        plan = self.evaluator.plan
        started = []
        for config in configs:
            candidate = plan.candidate(config, id=candidate_id(self.evaluator.next_ordinal))
            started.append(self.evaluator.submit(candidate, self.executor))
        return started

    def _settle(self, outcome: Outcome, build: Compiled) -> None:
        if not self.evaluator.settle_build(outcome, build):
            return
        with self.clocked("time"):
            self.evaluator.measure(outcome, build)
            self._timed += 1
            if self._timed % _DRIFT_EVERY == 0:
                self._watch_drift()

    def _watch_drift(self) -> None:
        drift = self.evaluator.retime_baseline()
        if drift is not None and abs(math.log(drift)) > _DRIFT_WORTH_SAYING:
            self.reporter.note(f"the device drifts: the baseline now takes {drift:.2f} of its first time")


def _is_better(job: Future[Compiled]) -> bool:
    """Finished, and without bad spills."""
    return job.done() and job.exception() is None and not job.result().isa.spills_badly
