"""Before anything is compared: the baseline must build, run and be right, and say how the device is to be timed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from autotuner.devices.timer import INVOCATION_US, Timer, choose_repeat
from autotuner.errors import DeviceError, NoCandidateError, OutOfTimeError, WrongResultError
from autotuner.iree.tools import Tools
from autotuner.measure.check import Checker, Data
from autotuner.problems import Array
from autotuner.system.process import last_line
from autotuner.tuning.effort import Effort
from autotuner.tuning.evaluate import Evaluator
from autotuner.tuning.loop import Loop
from autotuner.tuning.plan import BASELINE


def calibrate(
    evaluator: Evaluator,
    loop: Loop,
    *,
    tools: Tools,
    device: str,
    effort: Effort,
    seed: int,
    inputs: Sequence[Array] = (),
) -> str | None:
    """Gives the evaluator its checker, its timer and its repeats; what a user must know of the device's noise."""
    plan, builder = evaluator.plan, evaluator.builder
    data = Data.write(plan.problem, evaluator.folder / "inputs", seed=seed, given=inputs)
    evaluator.checker = Checker(tools, data, device, effort.run_timeout)
    evaluator.timer = Timer(
        tools,
        data,
        device,
        effort.run_timeout,
        min_time=effort.repetition_seconds,
        quick_start=plan.target.compiles_on_device,
    )
    with loop.clocked("build"):
        build = builder.build(evaluator.job(plan.baseline))
    if not build.ok:
        raise NoCandidateError(
            f"IREE's default does not compile: {build.stderr.strip()[-300:]}", remedy="Check --flag and --target."
        )
    with loop.clocked("time"):
        if not data.knows:
            evaluator.checker, check = evaluator.checker.taught(build.vmfb)
        else:
            check = evaluator.checker.check(build.vmfb)
        if check.failure in ("run-error", "run-timeout"):
            raise DeviceError(
                f"device {device!r} does not run the baseline: {last_line(check.detail)}",
                remedy="`autotune doctor` lists the devices that answer; --device none only compiles.",
            )
        if check.failure is not None:
            raise WrongResultError(
                f"IREE's default already computes wrong results here ({check.detail}).",
                remedy="Nothing can be tuned against it: please report it to IREE.",
            )
        rough = evaluator.timer.time(build, repetitions=1)
    if not rough.ok:
        raise DeviceError(
            f"the baseline cannot be timed on {device!r}: {last_line(rough.detail)}",
            remedy="`autotune doctor` lists the devices that answer.",
        )
    # Twice the shortest invocation: a candidate of twice the baseline's speed still lasts long enough.
    evaluator.repeat = choose_repeat(rough.median, invocation_us=2 * INVOCATION_US)
    loop.evaluate([plan.baseline])
    outcome = evaluator.outcomes[BASELINE]
    if outcome.us is None and outcome.failure is None:
        raise OutOfTimeError
    if outcome.build is None or outcome.build.key == build.key:
        # A resumed run needs it again for drift; and a build of a moment ago is not one that the cache spared us.
        outcome.build = build if evaluator.repeat == 1 else builder.build(evaluator.job(plan.baseline))
    if outcome.us is None:
        raise DeviceError(
            f"the baseline does not run with repeated dispatches: {last_line(outcome.detail)}",
            remedy="Please report it with the candidate's folder.",
        )
    with loop.clocked("time"):
        return _listen(evaluator, loop, effort)


def _listen(evaluator: Evaluator, loop: Loop, effort: Effort) -> str | None:
    """The baseline against itself: on a device that is too noisy repetitions are lengthened, and it is said."""
    baseline = evaluator.outcomes[BASELINE]
    if evaluator.timer is None or baseline.build is None:
        return None
    started = time.monotonic()
    timing = evaluator.timer.time(baseline.build, repetitions=5)
    # Longer than the three repetitions of a race; that covers longer ones on a noisy device as well.
    loop.timing_seconds = time.monotonic() - started
    if not timing.ok:
        return None
    evaluator.store.record_timing(baseline.row, phase="drift", block=0, repetitions_us=timing.us)
    spread = float(np.subtract(*np.percentile(np.log(timing.us), [75, 25])))
    if spread <= effort.smallest_gain:
        return None
    longer = evaluator.timer.min_time * 2
    evaluator.timer = replace(evaluator.timer, min_time=longer)
    return (
        f"this device is noisy: the baseline against itself spreads by {spread:.1%}. "
        f"Repetitions are lengthened to {longer * 1000:.0f} ms; a quieter machine would tell small gains apart."
    )
