"""On which of several devices a problem is calibrated, and on which its race stays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import TypeVar

from autotuner.devices.device import Device
from autotuner.devices.many import Devices
from autotuner.errors import DeviceError
from autotuner.measure.calibrate import Calibration, Calibrator, M
from autotuner.measure.steps import Step, Steps
from autotuner.tuning.evaluate import TimedEvaluator

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
