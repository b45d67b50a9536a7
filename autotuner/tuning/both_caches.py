"""A search's default and its best with a warm and with a cold cache: built for it, and written down."""

from __future__ import annotations

from autotuner.devices.device import Timing, choose_repeat
from autotuner.errors import OutOfTimeError
from autotuner.measure.cache_timer import NO_TIME, CacheTimer, Modules
from autotuner.measure.caches import Caches
from autotuner.measure.judgement import Judgement
from autotuner.measure.standing import Standing
from autotuner.system.progress import LATE_SECONDS
from autotuner.tuning.first_plan import AfterVerdict
from autotuner.tuning.loop import TimedLoop
from autotuner.tuning.outcome import Outcome
from autotuner.tuning.plan import BASELINE


def time_caches(
    loop: TimedLoop, judgement: Judgement, standing: Standing[Outcome], after: AfterVerdict
) -> tuple[Caches | None, tuple[str, ...]]:
    """What a win of a search is over and its best both ways, and what a user must know of it."""
    evaluator, calibration = loop.evaluator, loop.evaluator.calibration
    won = judgement.winner is not None
    if calibration.device.isolated is calibration.device:
        return None, ()
    # A confirmation uses all that the plan leaves it, and may end a little later than planned.
    if loop.clock.left + LATE_SECONDS < after.cold + (after.shipping if won else 0.0):
        return None, (NO_TIME,)
    loop.reporter.stage("timing with a cold cache")
    base, best = standing.base, standing.fastest(judgement)
    baseline = base.id if base else BASELINE
    names = list(dict.fromkeys([baseline, *([best.id] if best else [])]))

    def record(name: str, block: int, timing: Timing) -> None:
        evaluator.store.record_timing(evaluator.outcomes[name].row, timing, phase="cold", block=block)

    try:
        modules = _built(loop, names)
    except OutOfTimeError:
        return None, (NO_TIME,)
    if modules is None:
        return None, ()
    timer = CacheTimer(calibration.device, calibration.benchmark, record)
    return timer.tell(modules, baseline=baseline, won=won)


def _built(loop: TimedLoop, names: list[str]) -> dict[str, Modules] | None:
    evaluator, jobs = loop.evaluator, {}
    for name in names:
        outcome = evaluator.outcomes[name]
        repeat = choose_repeat(outcome.us or 1.0, invocation_us=2 * evaluator.calibration.device.invocation_us)
        jobs[name] = [evaluator.start_build(outcome.candidate, loop.executor, repeat=n) for n in (1, repeat)]
    builds = {name: [job.result() for job in pair] for name, pair in jobs.items()}
    if not all(build.ok for pair in builds.values() for build in pair):
        return None
    return {name: Modules(*pair) for name, pair in builds.items()}
