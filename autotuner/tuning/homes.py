"""On which of several devices a problem is calibrated, which time its default, and on which its race stays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TypeVar

from autotuner.devices.device import Device
from autotuner.devices.many import Devices
from autotuner.errors import DeviceError, OutOfTimeError
from autotuner.measure.baselines import SPREAD_SHARE
from autotuner.measure.calibrate import Calibration, Calibrator, M
from autotuner.measure.steps import Step, Steps
from autotuner.system import process
from autotuner.system.progress import Clock
from autotuner.tuning.evaluate import TimedEvaluator
from autotuner.tuning.loop import TimedLoop
from autotuner.tuning.plan import BASELINE

T = TypeVar("T")


def calibrated(calibrator: Calibrator[M], devices: Devices) -> Steps[Calibration[M]]:
    """On the calibrator's device. Where IREE's default does not run there, one other device tries: if it runs on that
    one, the first is retired; if not, the problem is at fault."""
    try:
        return (yield from calibrator.steps())
    except DeviceError as error:
        other = _another(calibrator.device, devices)
        if other is None:
            raise
        found = yield from replace(calibrator, device=other).steps()
        devices.retire(calibrator.device, error.message)
        return found


def default_everywhere(loop: TimedLoop, clock: Clock) -> Steps[None]:
    """Before a race: IREE's default on the devices that have timed none of the candidates. `clock` has the time of the
    end."""
    evaluator = loop.evaluator
    rival = any(outcome.candidate.id != BASELINE for outcome in evaluator.contenders())
    if not rival or not loop.schedule.judges or loop.stop.requested:
        return

    def arrive(device: Device) -> None:
        with process.until(clock.latest), loop.clocked("time"):
            evaluator.baselines.on(device)

    def settle(device: Device, _: None) -> None:
        evaluator.settle_arrival(device.uri)

    others = _others(evaluator.calibration.device, evaluator.devices)
    yield from everywhere(
        others, evaluator.devices, timed=arrive, settle=settle, known=evaluator.default_us, clock=clock, left=clock.left
    )


def everywhere(
    these: Iterable[Device],
    devices: Devices,
    *,
    timed: Callable[[Device], T],
    settle: Callable[[Device, T], None],
    known: Callable[[], Mapping[str, float]],
    clock: Clock,
    left: float,
) -> Steps[None]:
    """IREE's default on each of these devices that is not `known` yet, by URI: a win says how far they are apart.

    Two have it in any case, the rest as it fits into a part of the `left` seconds. A device that fails is retired;
    where it is the last one, whoever needs it says so.
    """
    enough = clock.elapsed + SPREAD_SHARE * max(left, 0.0)
    for device in these:
        there = known()
        if device.uri in there:
            continue
        if len(there) > 1 and clock.elapsed > enough:
            return
        try:
            timing: T = yield Step("device", partial(timed, device), device)
        except OutOfTimeError:
            return
        except DeviceError as error:
            devices.retire(device, error.message)
        else:
            settle(device, timing)


def on_one_device(evaluator: TimedEvaluator, judged: Callable[[], T]) -> Steps[T]:
    """The one that the problem was calibrated on; where that fails, all of it once more on another."""
    devices = evaluator.devices

    def judged_on(device: Device) -> T:
        device.open()  # where one that is lost was not needed any more, the time was up for want of it
        if evaluator.calibration.device.uri != device.uri:
            evaluator.move_to(device)
        return judged()

    while True:
        device = evaluator.calibration.device
        if device.uri in devices.retired:
            device = devices.home()
        try:
            judgement: T = yield Step("device", partial(judged_on, device), device)
            return judgement
        except DeviceError as error:
            if not devices.retire(device, error.message):
                raise


def _another(device: Device, devices: Devices) -> Device | None:
    return next(_others(device, devices), None)


def _others(device: Device, devices: Devices) -> Iterator[Device]:
    """Those at work that follow it, round to those before it: problems with different homes ask different ones."""
    live = devices.live
    place = next((place for place, one in enumerate(live, 1) if one.uri == device.uri), 0)
    yield from (one for one in (*live[place:], *live[:place]) if one.uri != device.uri)
