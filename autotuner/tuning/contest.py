"""The finalists of a search: built to last long enough, put before the judge, and timed with a cold cache too."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from autotuner.build import Compiled
from autotuner.devices.device import INVOCATION_US, Timing, choose_repeat
from autotuner.errors import OutOfTimeError
from autotuner.measure.audit import SECONDS
from autotuner.measure.cache_timer import NO_TIME, CacheTimer, Modules, cold_seconds
from autotuner.measure.caches import Caches
from autotuner.measure.calibrate import Calibration
from autotuner.measure.finals import Finals
from autotuner.measure.judge import JudgePhase, Record
from autotuner.measure.judgement import Judgement
from autotuner.measure.schedule import FINALIST, LEADERS, SHIPPED
from autotuner.measure.standing import Standing
from autotuner.system import process
from autotuner.system.execution import done
from autotuner.system.text import count
from autotuner.tuning.evaluate import Evaluator
from autotuner.tuning.loop import Loop
from autotuner.tuning.options import Effort, Options, Task
from autotuner.tuning.outcome import Outcome
from autotuner.tuning.plan import BASELINE


def judge_finalists(loop: Loop, effort: Effort) -> Judgement:
    """The best of the search against the baseline and the best stock route; a wrong default is at most the baseline."""
    finals = _finals(loop, effort)
    judgement = finals.judged()
    finals.standing.require_right(judgement.reason)
    return judgement


def lead_of_search(loop: Loop, effort: Effort) -> Judgement:
    """The best of the search and the baseline, timed in turns a few times: no verdict, only a choice."""
    finals = _finals(loop, effort)
    names = finals.picked(first=(BASELINE,), count=LEADERS)
    builds = _long_builds(loop, names, invocation_us=loop.evaluator.calibration.device.invocation_us)
    if BASELINE not in builds:
        return Judgement("inconclusive", "ran out of time before the finalists were built", BASELINE)
    if len(builds) == 1:
        judgement = finals.nothing_to_judge()
        finals.standing.require_right(judgement.reason)
        return judgement
    most = finals.schedule.leading()
    compared = [BASELINE, *[name for name in builds if name != BASELINE][:most]]
    contest = finals.contest(compared, baseline=BASELINE, stock=BASELINE)
    return finals.judge(contest, builds).lead()


def _finals(loop: Loop, effort: Effort) -> Finals[Outcome]:
    evaluator, space = loop.evaluator, loop.evaluator.plan.space

    def built(names: Sequence[str]) -> dict[str, Compiled]:
        loop.session.reporter.stage(f"building {count(len(names), 'finalist')} for the race")
        return _long_builds(loop, names)

    def once(names: Sequence[str]) -> dict[str, Compiled]:
        candidates, executor = {name: evaluator.outcomes[name].candidate for name in names}, loop.session.executor
        jobs = {name: evaluator.start_build(one, executor, repeat=1) for name, one in candidates.items()}
        builds = {name: job.result() for name, job in jobs.items()}
        return {name: build for name, build in builds.items() if build.ok}

    return Finals(
        evaluator.outcomes,
        evaluator.calibration,
        effort,
        schedule=loop.schedule,
        stop=loop.session.stop,
        seed=loop.options.seed,
        reporter=loop.session.reporter,
        record=_recorder(evaluator),
        last=built,
        once=once,
        refuse=evaluator.refuse,
        whole=len(loop.evaluator.searched) >= min(loop.trials, len(space)),
        missed=sum(not outcome.settled for outcome in evaluator.outcomes.values()),
        no_knobs="" if len(space) else evaluator.plan.no_knobs,
    )


def _recorder(evaluator: Evaluator) -> Record:
    def record(phase: JudgePhase, name: str, block: int, timing: Timing) -> None:
        evaluator.store.record_timing(evaluator.outcomes[name].row, timing, phase=phase, block=block)

    return record


def _long_builds(loop: Loop, names: Sequence[str], *, invocation_us: float = INVOCATION_US) -> dict[str, Compiled]:
    """Builds that each last long enough, and no longer: a slow baseline repeated as often as its fastest rival would
    take all the time there is. The binaries stay the same, only repeats change. Those that were built in time."""
    evaluator, clock = loop.evaluator, loop.clock
    cold = evaluator.calibration.benchmark.cache == "cold"
    jobs = {}
    with process.until(clock.phase("finalists")):
        for name in names:
            outcome = evaluator.outcomes[name]
            repeat = 1 if cold else choose_repeat(outcome.us or INVOCATION_US, invocation_us=invocation_us)
            known = outcome.build
            if known is not None and known.repeat >= repeat:
                jobs[name] = done(known)
            else:
                jobs[name] = evaluator.start_build(outcome.candidate, loop.session.executor, repeat=repeat)
    builds = {}
    for name, job in jobs.items():
        with suppress(OutOfTimeError):  # better fewer finalists than no verdict
            builds[name] = job.result()
        evaluator.tidy(evaluator.outcomes[name])
    return {name: build for name, build in builds.items() if build.ok}


# --- with a warm and with a cold cache ---------------------------------------------------------------------------


def time_caches(
    loop: Loop, judgement: Judgement, standing: Standing[Outcome], seconds: float
) -> tuple[Caches | None, tuple[str, ...]]:
    """What a win of a search is over and its best both ways, and what a user must know of it; `seconds` are needed for
    that and for what ships."""
    evaluator, calibration = loop.evaluator, loop.evaluator.calibration
    if calibration.device.isolated is calibration.device:
        return None, ()
    # A confirmation uses all that the plan leaves it, and may end a little later than planned.
    if not loop.clock.fits(seconds):
        return None, (NO_TIME,)
    loop.session.reporter.stage("timing with a cold cache")
    base, best = standing.base, standing.fastest(judgement)
    baseline = base.id if base else BASELINE
    names = list(dict.fromkeys([baseline, *([best.id] if best else [])]))

    def record(name: str, block: int, timing: Timing) -> None:
        evaluator.store.record_timing(evaluator.outcomes[name].row, timing, phase="cold", block=block)

    try:
        modules = _both(loop, names)
    except OutOfTimeError:
        return None, (NO_TIME,)
    if modules is None:
        return None, ()
    timer = CacheTimer(calibration.device, calibration.benchmark, record)
    return timer.tell(modules, baseline=baseline, won=judgement.winner is not None)


def _both(loop: Loop, names: list[str]) -> dict[str, Modules] | None:
    evaluator, jobs = loop.evaluator, {}
    for name in names:
        outcome = evaluator.outcomes[name]
        repeat = choose_repeat(outcome.us or 1.0, invocation_us=2 * evaluator.calibration.device.invocation_us)
        jobs[name] = [evaluator.start_build(outcome.candidate, loop.session.executor, repeat=n) for n in (1, repeat)]
    builds = {name: [job.result() for job in pair] for name, pair in jobs.items()}
    if not all(build.ok for pair in builds.values() for build in pair):
        return None
    return {name: Modules(*pair) for name, pair in builds.items()}


def after_verdict(found: Calibration[Compiled], task: Task, options: Options) -> tuple[float, float]:
    """Seconds for what ships, and for the default and the best with a cold cache; 0 for what is not wanted."""
    took = found.baseline.took
    compiles = SHIPPED + 2 * FINALIST if task.ship else 0.0  # two are built once more for the calls after a win
    calls = found.timing_seconds + SECONDS if task.ship else 0.0
    wanted = task.race and task.cold and options.cache != "warm"
    return compiles * took + calls, cold_seconds(found.device, found.timing_seconds, compiling=took) if wanted else 0.0
