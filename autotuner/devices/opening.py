"""Which implementation a command's device gets."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from autotuner.devices.device import Device
from autotuner.devices.process import ProcessDevice
from autotuner.devices.resident import open_resident


def open_device(alone: ProcessDevice, *, isolate: bool) -> AbstractContextManager[Device]:
    """One that stays open, unless the user wants a process for every call or has programs of another build of IREE:
    Python's runtime may not read what that build's compiler writes."""
    if isolate or not alone.tools.share_the_runtime:
        return nullcontext(alone)
    return open_resident(alone)
