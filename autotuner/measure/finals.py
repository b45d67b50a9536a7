"""The end of a search: who races, what the judge is asked, and the reason where nothing can race."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic

from autotuner.devices.device import Module
from autotuner.measure.audit import Audit, shortest_us, unknown
from autotuner.measure.blocks import Entrant, Rules
from autotuner.measure.calibrate import Calibration, Thoroughness
from autotuner.measure.check import Check
from autotuner.measure.clock import Clock
from autotuner.measure.contest import timed_by
from autotuner.measure.judge import Judge, Record
from autotuner.measure.judgement import Contest, Judgement
from autotuner.measure.schedule import Schedule
from autotuner.measure.standing import BASELINE, C, Standing
from autotuner.system.progress import Reporter, Stop
from autotuner.system.text import count

_NEARLY = 1.05
"""A stock route within this ratio of the best candidate is preferred: flags are simpler."""


@dataclass(frozen=True)
class Finals(Generic[C]):
    """The results of a search's candidates, before they are judged."""

    outcomes: Mapping[str, C]
    """By id, IREE's default among them."""
    calibration: Calibration[Any]
    thoroughness: Thoroughness
    schedule: Schedule
    stop: Stop
    seed: int
    reporter: Reporter
    record: Record
    last: Callable[[Sequence[str]], Mapping[str, Module]]
    """Modules that each last long enough, of those that were built in time."""
    whole: bool
    """The whole space was tried, or as many candidates as were asked for."""
    once: Callable[[Sequence[str]], Mapping[str, Module]] | None = None
    """Modules with each dispatch once; None where there are none."""
    refuse: Callable[[str, Check], None] = lambda *_: None
    """Records that one of them cannot be believed."""
    missed: int = 0
    """Candidates that there was no time for."""
    no_knobs: str = ""
    """Why there was nothing to choose from; empty if there was."""

    @property
    def standing(self) -> Standing[C]:
        return Standing(self.outcomes)

    @property
    def clock(self) -> Clock:
        return self.schedule.clock

    def judged(self) -> Judgement:
        """The best of the search against the baseline and the best stock route; a wrong default is at most the
        baseline."""
        schedule, standing = self.schedule, self.standing
        base = standing.base.id if standing.base else BASELINE
        stock = standing.stock.id if standing.stock else base
        favourite = self._favourite(stock, base=base)
        if favourite is None:
            return self._alone(stock) if standing.alone() else self.nothing_to_judge()
        if schedule.too_late():
            return Judgement("inconclusive", schedule.too_short(), stock)
        rivals = schedule.racing
        compiled = standing.compiled if rivals > 1 else None  # beside microkernels, what the compiler makes is told
        names = self.picked(first=(base, favourite, stock, *([compiled.id] if compiled else [])), count=rivals)
        modules = self.last(names)
        if base not in modules or len(modules) == 1:
            reason = f"ran out of time before the finalists were built. {schedule.would_do(schedule.enough)}"
            return Judgement("inconclusive", reason, stock)
        contest = self.contest(modules, baseline=base, stock=stock if stock in modules else base)
        if rivals == 1:  # without time for a race only the favourite is put to the test
            contest = replace(contest, chosen=contest.rivals[0])
        return schedule.with_advice(self.judge(contest, modules).verdict())

    def judge(self, contest: Contest, modules: Mapping[str, Module]) -> Judge:
        calibration = self.calibration
        return Judge(
            contest,
            timed_by(calibration.device, calibration.benchmark, modules, call_us=self._call_us(modules)),
            self.schedule.judging,
            self.stop,
            self.schedule.pair,
            self.record,
            self.reporter.stage,
            self._audit(),
            lambda: self.clock.elapsed,
        )

    def _audit(self) -> Audit | None:
        calibration = self.calibration
        if self.once is None:
            return None
        checker, benchmark = calibration.checker, calibration.benchmark
        return Audit(
            calibration.device,
            benchmark.invocation,
            len(benchmark.invocation.results),
            self.once,
            checker.agree if calibration.default.ok or self.standing.base is not self.standing.default else unknown,
            benchmark.timeout,
            self.refuse,
            shortest_us(checker.data.problem, calibration.device.uri),
        )

    def _call_us(self, modules: Mapping[str, Module]) -> dict[str, float]:
        """Seconds of a call of each, about; calls repeat their dispatches."""
        return {name: (self.outcomes[name].us or 0.0) * module.repeat for name, module in modules.items()}

    def contest(self, names: Iterable[str], *, baseline: str, stock: str) -> Contest:
        chosen = list(names)
        return Contest(
            entrants=tuple(
                Entrant(name, self.outcomes[name].complexity, self.outcomes[name].foreign) for name in chosen
            ),
            baseline=baseline,
            stock=stock,
            rules=Rules(smallest_gain=self.thoroughness.smallest_gain),
            seed=self.seed,
            labels={name: self.outcomes[name].label for name in chosen if name != BASELINE},
        )

    def picked(self, *, first: Sequence[str], count: int) -> list[str]:
        """Those that always race, and the fastest of the search."""
        rivals = sorted((one for one in self.standing.right if one.id != BASELINE), key=lambda one: one.us or math.inf)
        return list(dict.fromkeys([*first, *(one.id for one in rivals[:count])]))

    def _favourite(self, stock: str, *, base: str) -> str | None:
        """The one to confirm where there is no time for a race; None if there is only the baseline."""
        rivals = self.picked(first=(), count=len(self.outcomes))
        best = next((name for name in rivals if name != base), None)
        if best is None or stock == base:
            return best
        us = [self.outcomes[name].us or 0.0 for name in (stock, best)]
        return stock if us[0] <= _NEARLY * us[1] else best

    # --- where nothing can race -----------------------------------------------------------------------------------

    def _alone(self, stock: str) -> Judgement:
        """The default is wrong, a slower route is right, and the search found nothing that is."""
        alone = self.standing.alone()
        if self.whole:
            return Judgement("no-winner", alone, stock)
        reason = f"{alone}; ran out of time before anything else was timed. {self.clock.longer()}"
        return Judgement("inconclusive", reason, stock)

    def nothing_to_judge(self) -> Judgement:
        """Nothing but the default was timed: there was nothing to choose, no time for it, or none of it works."""
        tried = [one for one in self.outcomes.values() if one.id != BASELINE]
        failed = Counter(one.failure for one in tried if one.failure is not None)
        if self.no_knobs and not tried:
            return Judgement("no-winner", self.no_knobs, BASELINE, cause="nothing-to-tune")
        if tried and all(one.duplicate_of is not None for one in tried):
            reason = f"{count(len(tried), 'candidate')} tried, and each compiles to the code of IREE's default"
            if self.whole:
                return Judgement("no-winner", reason, BASELINE)
            return self._short(reason)
        if not failed:
            return self._short("ran out of time before a candidate was timed")
        reasons = ", ".join(f"{name} {n}" for name, n in failed.items())
        whom = f"all {failed.total()} candidates" if failed.total() > 1 else "the only candidate"
        slow = failed.keys() == {"run-timeout"}
        reason = f"{whom} ran far longer than IREE's default" if slow else f"{whom} failed ({reasons})"
        if self.missed:
            return self._short(f"{reason}, and {self.missed} more had no time")
        return Judgement("no-winner", reason, BASELINE, cause=None if slow else "failed")

    def _short(self, reason: str) -> Judgement:
        return Judgement("inconclusive", f"{reason}. {self.clock.longer()}", BASELINE)
