"""Ask, build, check, time, tell: until trials, time or patience run out."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from autotuner.build import Compiled
from autotuner.devices.device import Device
from autotuner.errors import DeviceError, OutOfTimeError
from autotuner.iree.run import failed_because
from autotuner.measure.check import Check
from autotuner.measure.clock import Clock
from autotuner.measure.schedule import Schedule
from autotuner.measure.screening import Measured
from autotuner.space import Config
from autotuner.system import process
from autotuner.system.progress import Progress, clocked
from autotuner.tuning.evaluate import Evaluator, candidate_id
from autotuner.tuning.options import Options
from autotuner.tuning.outcome import Outcome
from autotuner.tuning.plan import BASELINE, SEARCHED, Candidate
from autotuner.tuning.pool import Measure, Pool
from autotuner.tuning.session import Session

if TYPE_CHECKING:
    from autotuner.search.study import Search

Started = tuple[Outcome, "Future[Compiled]"]


@dataclass
class Loop:
    """One coordinator: compiles go to the executor, what is built to the devices. Without a device candidates are built
    and proven, no more."""

    evaluator: Evaluator
    session: Session
    clock: Clock
    options: Options
    trials: int
    seconds: dict[str, float]
    unfinished: Sequence[Outcome] = ()
    """Candidates that an interrupted run had asked for and not finished."""
    first_schedule: Schedule | None = field(default=None, init=False)
    """As it was when the default was timed; None: nothing is."""

    # --- without a device ---------------------------------------------------------------------------------------

    def compile_only(self) -> None:
        """The baseline, the stock routes and a seeded sample of the space: built, proven and deduplicated."""
        plan = self.evaluator.plan
        done = {o.candidate.config for o in self.evaluator.searched}
        configs = dict.fromkeys([*plan.first, *plan.seeds])
        if len(plan.space):
            rng = np.random.default_rng(self.options.seed)
            configs |= dict.fromkeys(plan.space[int(i)] for i in plan.space.sample(self.trials, rng))
        stock = [c for c in (plan.baseline, *plan.stock) if not self._is_built(c)]
        self._work([*stock, *self._left_over()])
        new = [config for config in list(configs)[: self.trials] if config not in done]
        if not self._over():
            first = self.evaluator.next_ordinal
            self._work(plan.candidate(config, id=candidate_id(first + n)) for n, config in enumerate(new))

    def _is_built(self, candidate: Candidate) -> bool:
        outcome = self.evaluator.outcomes.get(candidate.id)
        return outcome is not None and outcome not in self.unfinished

    # --- the search ---------------------------------------------------------------------------------------------

    def time_baseline(self, schedule: Schedule) -> None:
        """IREE's default as a candidate like others: nothing can be compared without it."""
        self.first_schedule = schedule
        evaluator, baseline = self.evaluator, self.evaluator.plan.baseline
        if not self._is_done(baseline):
            outcome, future = evaluator.submit(baseline, self.session.executor)
            build = future.result()
            if evaluator.settle_build(outcome, build):
                self.settle(outcome, self.measure(build)(evaluator.calibration.device))
        outcome = evaluator.outcomes[BASELINE]
        if outcome.failure is not None and outcome.us is None:  # a wrong one is timed, too
            raise DeviceError(
                f"the baseline does not run with repeated dispatches: {failed_because(outcome.detail)}",
                remedy="Please report it with the candidate's folder.",
            )
        evaluator.store.record_timing(outcome.row, evaluator.calibration.heard, phase="drift", block=0)

    def evaluate(self, candidates: Sequence[Candidate]) -> None:
        """Builds these and times each, unless that is done already; as many as there is time for."""
        with process.until(self.clock.end):
            self._work(c for c in candidates if not self._is_done(c))

    def likeliest_kernel(self) -> list[Candidate]:
        """The microkernel that is expected to be the fastest, where some take part and it was not tried yet."""
        plan = self.evaluator.plan
        if not plan.kernels or any(one.candidate.config == plan.first[0] for one in self.evaluator.searched):
            return []
        return [plan.candidate(plan.first[0], id=candidate_id(self.evaluator.next_ordinal))]

    def search(self) -> None:
        """Searches the space until the trials are used, or only the time of a verdict is left."""
        if not len(self.evaluator.plan.space) or self._over():
            return
        with process.until(self.clock.end):
            self._run(self._lane())

    def _lane(self) -> SearchLane:
        """The search over the space, with the results that are known.

        A run that goes on tells a new study what its rows say: they have what was timed again, and all that failed.
        """
        evaluator, plan = self.evaluator, self.evaluator.plan
        with self.clocked("search"):
            from autotuner.search.study import kept_study, make_search  # half a second, with Optuna

            about = {"problem": plan.problem.name, "target": plan.target.name, "sampler": self.options.sampler}
            kept = kept_study(self.session.workspace.study(evaluator.run), about)
            unfinished = {candidate.config.key: candidate for candidate in self._left_over()}
            first = [*(candidate.config for candidate in unfinished.values()), *plan.first, *plan.seeds]
            search = make_search(
                plan.space, seed=self.options.seed, sampler=self.options.sampler, first=first, kept=kept
            )
            lane = SearchLane(self, deque(), search=search, unfinished=unfinished)
            for outcome in self.evaluator.searched:
                if outcome not in self.unfinished:
                    lane.tell(outcome)
        return lane

    def _left_over(self) -> list[Candidate]:
        """Of the search's candidates, those that an interrupted run did not finish."""
        return [o.candidate for o in self.unfinished if o.candidate.kind in SEARCHED]

    def _is_done(self, candidate: Candidate) -> bool:
        outcome = self.evaluator.outcomes.get(candidate.id)
        return outcome is not None and outcome.settled

    def _work(self, candidates: Iterable[Candidate]) -> None:
        """Builds these, and measures them where there is a device."""
        self._run(_Listed(self, deque(candidates)))

    def _run(self, lane: _Listed) -> None:
        """Builds that nothing is timed beside need not take turns."""
        session = self.session
        overlapped = not session.shares_cores or not self.evaluator.measures
        Pool(session.jobs, overlapped, self._over, self.seconds, session.devices, lane).run()

    def measure(self, build: Compiled) -> Measure:
        """What a device has to do for a build. What hangs takes a part of the time that the search has left, and not
        that of the verdict; where IREE's default would have been timed many times, it has failed."""
        best, ends, schedule = self.evaluator.best_us, self.cut_off(), self.schedule

        def measure(device: Device) -> Measured:
            began = self.clock.elapsed
            try:
                with self.clocked("time"), process.until(schedule.given_up(ends)):
                    return self.evaluator.measure(build, device, best_us=best)
            except OutOfTimeError:
                seconds = schedule.hopeless(began)
                if process.seconds_left() <= 0 or not seconds:
                    raise
                late = f"not timed after {seconds:.1f} s: IREE's default takes {schedule.timing:.1f} s"
                return Measured(Check("run-timeout", math.inf, late), device=device.uri)

        return measure

    def settle(self, outcome: Outcome, measured: Measured) -> list[Outcome]:
        """All candidates that this settles."""
        if measured.default is not None:
            self.evaluator.record_default(measured.default)
        return self.evaluator.settle(outcome, measured)

    # --- the time -----------------------------------------------------------------------------------------------

    @property
    def schedule(self) -> Schedule:
        """By what the default takes and the best so far; as long as there is none, one may be so fast that a call of it
        takes no longer than a repetition."""
        if self.first_schedule is None:
            raise ValueError("there is no schedule before IREE's default is timed")
        best = self.evaluator.best_us if self.has_rival() else 0.0
        return self.first_schedule.ahead(baseline_us=self.evaluator.outcomes[BASELINE].us or 0.0, best_us=best)

    def keep_time_for_the_end(self) -> None:
        """From here on nothing new begins in the last part of the budget."""
        self.first_schedule = self.schedule.opened()

    def _over(self) -> bool:
        return self.session.stop.requested or not self.clock.fits(0.0, before=self.cut_off())

    def cut_off(self) -> float:
        """The moment at which what is left is for the verdict: a build that begins now is cut off."""
        if not self.evaluator.measures:
            return self.clock.end
        return self.schedule.search_ends(rival=self.has_rival(), awaited=self._awaits_kernels())

    def has_rival(self) -> bool:
        """Somebody can be put to the test against the default."""
        return any(o.contends and o.candidate.id != BASELINE for o in self.evaluator.outcomes.values())

    def _awaits_kernels(self) -> bool:
        """Microkernels take longer to build than the compiler's own code, and of several another may be there before
        the one that is expected to be the fastest."""
        plan, searched = self.evaluator.plan, self.evaluator.searched
        if not plan.kernels or not any(o.settled for o in searched if o.kind == "microkernel"):
            return bool(plan.kernels)
        return not next((o.settled for o in searched if plan.first and o.candidate.config == plan.first[0]), True)

    @property
    def too_late(self) -> bool:
        """No verdict fits into what is left, whatever is found: a rival has to be built and put to the test."""
        plan, build = self.evaluator.plan, self.evaluator.outcomes[BASELINE].build
        if not len(plan.space) and not plan.stock:
            return False
        return self.schedule.too_late(build.seconds if build is not None else 0.0)

    # --- progress -----------------------------------------------------------------------------------------------

    def clocked(self, what: str) -> AbstractContextManager[None]:
        return clocked(self.seconds, what)

    def report(self) -> None:
        baseline = self.evaluator.outcomes.get(BASELINE)
        best = self.evaluator.best_us
        self.session.reporter.progress(
            Progress(
                trials=min(self.trials, len(self.evaluator.plan.space)),
                asked=len(self.evaluator.searched),
                **{state: len(names) for state, names in self.evaluator.states.items()},
                baseline_us=baseline.us if baseline else None,
                best_us=best if math.isfinite(best) else None,
                seconds=self.clock.elapsed,
                seconds_left=self.clock.until(self.clock.end),
            )
        )


@dataclass
class _Listed:
    """Candidates that are known beforehand."""

    loop: Loop
    left: deque[Candidate]

    @property
    def room(self) -> int:
        return len(self.left)

    def ask(self, count: int) -> list[Started]:
        with process.until(self.loop.cut_off()):
            return [self.loop.evaluator.submit(self.left.popleft(), self.loop.session.executor) for _ in range(count)]

    def settle_build(self, outcome: Outcome, build: Compiled) -> Measure | None:
        wanted = self.loop.evaluator.settle_build(outcome, build)
        measure = self.loop.measure(build) if wanted and self.loop.evaluator.measures else None
        if measure is None:
            self.on_settled([outcome] if outcome.settled else [])
        return measure

    def settle(self, outcome: Outcome, measured: Measured) -> None:
        self.on_settled(self.loop.settle(outcome, measured))

    def on_settled(self, outcomes: Sequence[Outcome]) -> None:
        del outcomes
        self.loop.report()


@dataclass
class SearchLane(_Listed):
    """A search that proposes candidates and learns their results."""

    search: Search = field(kw_only=True)
    unfinished: dict[str, Candidate] = field(kw_only=True)
    """Those of an interrupted run that are not proposed again yet, by their configurations' keys: they have rows."""
    _exhausted: bool = field(default=False, init=False)

    @property
    def room(self) -> int:
        asked = len(self.loop.evaluator.searched) - len(self.unfinished)
        return 0 if self._exhausted else max(self.loop.trials - asked, 0)

    def ask(self, count: int) -> list[Started]:
        loop = self.loop
        with loop.clocked("search"):
            configs = self.search.ask(count)
        self._exhausted = not configs
        with process.until(loop.cut_off()):
            return [loop.evaluator.submit(self._candidate(config), loop.session.executor) for config in configs]

    def _candidate(self, config: Config) -> Candidate:
        evaluator = self.loop.evaluator
        known = self.unfinished.pop(config.key, None) if self.unfinished else None
        return known or evaluator.plan.candidate(config, id=candidate_id(evaluator.next_ordinal))

    def on_settled(self, outcomes: Sequence[Outcome]) -> None:
        with self.loop.clocked("search"):
            for outcome in outcomes:
                self.tell(outcome)
        super().on_settled(outcomes)

    def tell(self, outcome: Outcome) -> None:
        """A stock route is none of the space's configurations."""
        if outcome.candidate.kind not in SEARCHED:
            return
        good = outcome.failure is None and outcome.us is not None
        self.search.tell(outcome.candidate.config, math.log(outcome.us) if good and outcome.us else None)
        self._exhausted = False
