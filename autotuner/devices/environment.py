"""The environment of a measurement: software, host, device and load. What cannot be read stays empty."""

from __future__ import annotations

import os
import platform
import pwd
from datetime import UTC, datetime
from typing import Any

from autotuner._version import __version__
from autotuner.devices.sampling import open_sampler
from autotuner.iree.tools import Tools
from autotuner.system import machine
from autotuner.system.settings import usable_cores
from autotuner.targets.backends import backend_on
from autotuner.targets.backends.base import UNKNOWN, DeviceFacts
from autotuner.targets.naming import which_device


def capture(device_uri: str, tools: Tools) -> dict[str, Any]:
    """The environment of a run, which explains its figures later, as it is stored.

    Never fails: a fact that cannot be had is an empty string, or None for a number.
    """
    device = described(device_uri)
    return {
        "iree": tools.release,
        "iree_runtime": tools.runtime_release,
        "compiler": tools.build,
        "iree_tools": str(tools.folder or ""),
        "autotune": __version__,
        "python": platform.python_version(),
        "host": platform.node(),
        "user": _user(),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "cpu": machine.processor(),
        "cores": usable_cores(),
        "governor": machine.read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "mhz": open_sampler("local-task")().mhz,
        "load": round(machine.load() or 0.0, 2),
        "device": device_uri,
        "device_name": device.name,
        "driver": device.driver,
        "device_mhz": device.mhz,
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def described(uri: str) -> DeviceFacts:
    """The facts of the device of this URI; empty where they are unknown."""
    backend = backend_on(uri)
    return backend.describe_device(which_device(uri)) if backend else UNKNOWN


_EMULATORS = ("MIRAGE", "ROCJITSU")
"""What the variables of AMD's emulators begin with, in the environment of the programs that they run."""


def is_emulated(uri: str) -> bool:
    """Whether a GPU is emulated, by its name or its environment: it computes, and its times mean nothing."""
    backend = backend_on(uri)
    if backend is None or backend.on_host:
        return False
    return any(name.startswith(_EMULATORS) for name in os.environ) or "emulat" in described(uri).name.lower()


def _user() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a container's user without a passwd entry
        return str(os.getuid())
