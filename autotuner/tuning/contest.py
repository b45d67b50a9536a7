"""Who wins: the best of the search race the baseline and the best stock route, and the winner is confirmed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np

from autotuner.build import Build
from autotuner.devices.timer import INVOCATION_US, choose_repeat
from autotuner.errors import DeviceError, OutOfTimeError
from autotuner.measure.race import (
    LOOKS,
    Confirmation,
    Decision,
    Entrant,
    Interval,
    RaceResult,
    TimingFailed,
    Verdict,
    confirm,
    decide,
    race,
)
from autotuner.measure.shortlist import pick_for_race, shortlist
from autotuner.store.rows import Phase
from autotuner.system import process
from autotuner.system.progress import Clock, Reporter, Stop
from autotuner.tuning.effort import Effort
from autotuner.tuning.evaluate import Evaluator, Outcome
from autotuner.tuning.plan import BASELINE, SEARCHED

ALPHA = 0.05
RACE_SHARE = 0.7
"""Of the time that is left after the search; the rest is for the confirmation."""
_BUILD_SHARE = 0.4
"""Of the same, at most, for building the finalists."""
ONE = Interval(1.0, 1.0, 1.0)
_ROUNDED = 5


@dataclass(frozen=True)
class Contest:
    """The verdict with its evidence."""

    verdict: Verdict
    reason: str
    winner: Outcome | None
    stock: Outcome
    us: Mapping[str, float]
    """Median µs of those who were timed last, side by side."""
    speedup: Interval | None = None
    over_stock: Interval | None = None


def hold(
    evaluator: Evaluator,
    *,
    executor: Executor,
    effort: Effort,
    clock: Clock,
    stop: Stop,
    reporter: Reporter,
    seed: int,
    timing_seconds: float,
) -> Contest:
    """Race, decide, confirm."""
    stock = best_stock(evaluator)
    baseline = evaluator.outcomes[BASELINE]
    # The first look must be reached within the race's part of what is left: better few entrants than no verdict.
    # A shortlist of n takes 2n + 3 timings, and each block n + 2 with the baseline and the best stock route.
    timings = max(clock.left, 0.0) * RACE_SHARE / timing_seconds
    count = max(2, min(effort.race_entrants, int((timings - 3 - 2 * LOOKS[0]) / (2 + LOOKS[0]))))
    picked = pick_for_race(evaluator.screened, baseline=BASELINE, count=2 * count)
    names = list(dict.fromkeys([BASELINE, stock.candidate.id, *(n for n in picked if evaluator.outcomes[n].contends)]))
    screen_us = {name: evaluator.outcomes[name].us or 0.0 for name in names}
    if len(names) == 1:
        if len(evaluator.plan.space) and not any(o.candidate.kind in SEARCHED for o in evaluator.outcomes.values()):
            return Contest("inconclusive", "the time was up before any candidate", None, baseline, screen_us)
        if not len(evaluator.plan.space):
            return Contest("no-winner", "no knobs here, IREE's default is kept", None, baseline, screen_us)
        return Contest("no-winner", "nothing but the baseline works here", None, baseline, screen_us)
    reporter.stage(f"building {len(names)} finalists for the race")
    with process.until(clock.at(clock.elapsed + _BUILD_SHARE * max(clock.left, 0.0))):
        watch = _Stopwatch(evaluator, _race_builds(evaluator, names, executor))
    rng = np.random.default_rng(seed)
    try:
        screened = [s for s in evaluator.screened if s.id in watch.builds]
        chosen = shortlist(screened, baseline=BASELINE, time_one=watch.screen, keep={stock.candidate.id}, count=count)
        names = list(dict.fromkeys([BASELINE, stock.candidate.id, *chosen]))
        entrants = [Entrant(name, evaluator.outcomes[name].candidate.complexity) for name in names]
        reporter.stage(f"racing {len(names) - 1} finalists against the baseline")
        started = clock.elapsed
        result = race(
            entrants,
            baseline=BASELINE,
            keep={stock.candidate.id},
            time_one=watch,
            rng=rng,
            alpha=ALPHA,
            smallest_gain=effort.smallest_gain,
            should_stop=RaceDeadline(clock, stop, started),
            on_timing=watch.recorder("race"),
        )
        decision = decide(result)
        if decision.winner is None:
            us = {name: _median(result.times[name]) or screen_us[name] for name in names}
            reason = told_what_it_needs(decision, result, clock, stop, started=started)
            return Contest(decision.verdict, reason, None, stock, us)
        reporter.stage(f"confirming {describe(evaluator.outcomes[decision.winner])}")
        block_seconds = (clock.elapsed - started) / result.timings
        block_seconds *= len({BASELINE, decision.winner, stock.candidate.id})
        confirmation = confirm(
            decision.winner,
            baseline=BASELINE,
            beside=[stock.candidate.id],
            time_one=watch,
            rng=rng,
            blocks=confirm_blocks(clock, effort, block_seconds=block_seconds),
            alpha=ALPHA,
            smallest_gain=effort.smallest_gain,
            should_stop=lambda: stop.requested,
            on_timing=watch.recorder("confirm"),
        )
    except OutOfTimeError as error:
        return Contest("inconclusive", error.message.rstrip("."), None, stock, screen_us)
    except TimingFailed as failure:
        raise DeviceError(
            f"the baseline stopped working in the middle of the race: {str(failure)[:200]}",
            remedy="Check the device and run again with --resume.",
        ) from failure
    return _conclude(evaluator, decision.winner, stock, confirmation, effort)


def confirm_blocks(clock: Clock, effort: Effort, *, block_seconds: float) -> int:
    """How many blocks a confirmation has, fixed beforehand by the time that is left: then the interval holds its level
    whatever comes. Fewer than the first look's tell nothing."""
    blocks, least = int(clock.left / block_seconds), min(LOOKS[0], effort.confirm_blocks)
    if blocks < least:
        needed = clock.elapsed + least * block_seconds
        raise OutOfTimeError(f"the time was up before the win could be confirmed: {longer(needed)}.")
    return min(effort.confirm_blocks, blocks)


def told_what_it_needs(decision: Decision, result: RaceResult, clock: Clock, stop: Stop, *, started: float) -> str:
    """Why there is no winner; where the time was up before the first look, with the time that it would have taken."""
    if result.ended != "stopped" or stop.requested or result.blocks >= LOOKS[0]:
        return decision.reason
    block = (clock.elapsed - started) / max(result.blocks, 1)
    # The blocks that are missing, and as many again to confirm what they tell.
    return f"{decision.reason}: {longer(clock.elapsed + (2 * LOOKS[0] - result.blocks) * block)}"


def longer(seconds: float) -> str:
    """What to ask for the next time, where so many seconds would do."""
    return f"--budget {math.ceil(1.2 * seconds / _ROUNDED) * _ROUNDED}s would do"


LEAD_ROUNDS, LED = 5, 4
LEAD_TIMINGS = 3 * (LED + 1) * LEAD_ROUNDS
"""What `lead` takes, with what building the finalists costs."""


@dataclass(frozen=True)
class Lead:
    """Who is ahead when there is no time for a race, and by how much."""

    outcome: Outcome | None
    ratio: float
    us: Mapping[str, float]


def lead(evaluator: Evaluator, *, executor: Executor, effort: Effort, clock: Clock, stop: Stop, seed: int) -> Lead:
    """The best of the search and the baseline, timed in turns a few times: no verdict, only a choice."""
    picked = pick_for_race(evaluator.screened, baseline=BASELINE, count=LED)
    names = [BASELINE, *(name for name in picked if evaluator.outcomes[name].contends)]
    with process.until(clock.at(clock.elapsed + _BUILD_SHARE * max(clock.left, 0.0))):
        watch = _Stopwatch(evaluator, _race_builds(evaluator, names, executor))
    logs: dict[str, list[float]] = {name: [] for name in names if name in watch.builds}
    rng = np.random.default_rng(seed)
    record = watch.recorder("race")
    for block in range(1, LEAD_ROUNDS + 1):
        if stop.requested or clock.left < 0:
            break
        for index in rng.permutation(len(logs)):
            name = list(logs)[int(index)]
            with suppress(TimingFailed, OutOfTimeError):
                logs[name].append(math.log(watch(name)))
                record(block, name, math.exp(logs[name][-1]))
    whole = {name: row for name, row in logs.items() if len(row) == len(logs[BASELINE]) > 0}
    us = {name: math.exp(float(np.median(row))) for name, row in whole.items()}
    gains = {
        name: float(np.median(np.subtract(logs[BASELINE], row))) for name, row in whole.items() if name != BASELINE
    }
    best = max(gains, key=lambda name: gains[name], default=None)
    if best is None or gains[best] <= math.log(1 + effort.smallest_gain):
        return Lead(None, 1.0, us)
    return Lead(evaluator.outcomes[best], math.exp(gains[best]), us)


@dataclass
class _Stopwatch:
    """Times an entrant, and keeps the raw repetitions for whoever records them."""

    evaluator: Evaluator
    builds: Mapping[str, Build]
    raw: dict[str, tuple[float, ...]] = field(default_factory=dict)

    def __call__(self, name: str) -> float:
        """The median of three: single repetitions spike too often for intervals over a dozen blocks."""
        if self.evaluator.timer is None:
            raise TimingFailed("no device")
        timing = self.evaluator.timer.time(self.builds[name], repetitions=3)
        if not timing.ok:
            raise TimingFailed(timing.detail)
        self.raw[name] = timing.us
        return timing.median

    def screen(self, name: str) -> float:
        """A timing of the second screening."""
        us = self(name)
        self.recorder("screen")(1, name, us)
        return us

    def recorder(self, phase: Phase) -> Callable[[int, str, float], None]:
        def write(block: int, name: str, _us: float) -> None:
            row = self.evaluator.outcomes[name].row
            self.evaluator.store.record_timing(row, phase=phase, block=block, repetitions_us=self.raw[name])

        return write


@dataclass
class RaceDeadline:
    """When a race must end; asked once before each block.

    Without its first look a race tells nothing: up to there it may also use the confirmation's part.
    """

    clock: Clock
    stop: Stop
    started: float
    share: float = RACE_SHARE
    """Of the time that is left at the start."""
    blocks: int = 0

    def __call__(self) -> bool:
        share = self.share if self.blocks >= LOOKS[0] else 1.0
        self.blocks += 1
        limit = self.started + share * max(self.clock.budget - self.started, 0.0)
        return self.stop.requested or self.clock.elapsed > limit


def best_stock(evaluator: Evaluator) -> Outcome:
    """The fastest of what flags alone give; the plain default is one of them."""
    routes = [o for o in evaluator.contenders() if o.candidate.kind in ("baseline", "stock")]
    return min(routes, key=lambda o: o.us or 0.0)


def describe(outcome: Outcome) -> str:
    candidate = outcome.candidate
    if candidate.kind not in SEARCHED:
        return f"route {candidate.route.name}"
    return ", ".join(f"{name}={value}" for name, value in candidate.knobs.items())


def _race_builds(evaluator: Evaluator, names: list[str], executor: Executor) -> dict[str, Build]:
    """Builds that each last long enough, and no longer: a slow baseline repeated as often as its fastest rival would
    take all the time there is. The binaries stay the same, only repeats change."""
    builds, jobs = {}, {}
    for name in names:
        outcome = evaluator.outcomes[name]
        repeat = choose_repeat(outcome.us or INVOCATION_US)
        if outcome.build is not None and outcome.build.repeat >= repeat:
            builds[name] = outcome.build
        else:
            jobs[name] = executor.submit(evaluator.build, outcome.candidate, repeat=repeat)
    for name, future in jobs.items():
        with suppress(OutOfTimeError):  # better fewer finalists than no verdict
            builds[name] = future.result()
        evaluator.tidy(evaluator.outcomes[name])
    return {name: builds[name] for name in names if name in builds and builds[name].ok}


def _conclude(evaluator: Evaluator, winner: str, stock: Outcome, confirmation: Confirmation, effort: Effort) -> Contest:
    us = {name: value for name, times in confirmation.times.items() if (value := _median(times))}
    chosen = evaluator.outcomes[winner]
    rival = stock.candidate.id
    over_stock = ONE if rival == winner else confirmation.ratio(winner, rival, alpha=ALPHA)
    if not confirmation.holds:
        return Contest(confirmation.verdict, confirmation.reason, None, stock, us, confirmation.speedup, over_stock)
    if chosen.candidate.kind in SEARCHED and rival != BASELINE and (over_stock is None or over_stock.low <= 1.0):
        # Fresh data do not show that the spec adds anything to the flags: ship the flags, if they hold.
        alone = confirmation.ratio(rival, BASELINE, alpha=ALPHA)
        if alone is not None and alone.low > 1 + effort.smallest_gain:
            reason = f"a spec gains nothing certain over route {stock.candidate.route.name}"
            return Contest("win", reason, stock, stock, us, alone, ONE)
    return Contest("win", confirmation.reason, chosen, stock, us, confirmation.speedup, over_stock)


def _median(times: tuple[float | None, ...]) -> float | None:
    values = [t for t in times if t is not None]
    return float(np.median(values)) if values else None
