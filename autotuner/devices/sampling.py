"""Clock, power and temperature of a device, sampled around timings. Never fails: what cannot be had is None.

A processor is read from cpufreq and its thermal sensors, an NVIDIA GPU by NVML (the package nvidia-ml-py), an AMD GPU
from its driver's hwmon files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from pathlib import Path
from statistics import mean
from typing import Any

from autotuner.devices.conditions import Sample
from autotuner.system.machine import ROOT, read
from autotuner.targets.backends import backend_on
from autotuner.targets.backends.base import Vendor

_AMD = "0x1002"
"""PCI's number of the vendor."""
_SENSORS = ("coretemp", "k10temp", "zenpower", "cpu_thermal")
"""What hwmon calls the sensors of processors."""
_ZONES = ("x86_pkg_temp", "cpu-thermal", "cpu_thermal")
"""What thermal zones of processors are called."""


Sampler = Callable[[], Sample]


def open_sampler(uri: str, *, root: Path = ROOT) -> Sampler:
    """What samples the device of this URI; nothing but empty samples where none is known."""
    backend = backend_on(uri)
    if backend is None:
        return Sample
    if backend.vendor is None:
        return lambda: _processor(root)
    return _VENDORS[backend.vendor](uri.partition("://")[2].partition("?")[0], root)


# --- processors -------------------------------------------------------------------------------------------------


def _processor(root: Path) -> Sample:
    return Sample(mhz=_processor_mhz(root), celsius=_processor_celsius(root))


def _processor_mhz(root: Path) -> float | None:
    """The mean over the cores that this process may use."""
    cores = os.sched_getaffinity(0)
    files = (root / f"sys/devices/system/cpu/cpu{core}/cpufreq/scaling_cur_freq" for core in cores)
    kilohertz = _numbers(files)
    if kilohertz:
        return mean(kilohertz) / 1e3
    known = re.findall(r"^cpu MHz\s*:\s*(\d+(?:\.\d+)?)\s*$", read(root / "proc/cpuinfo"), re.MULTILINE)
    return mean(map(float, known)) if known else None


def _processor_celsius(root: Path) -> float | None:
    """The hottest of the processor's sensors."""
    files = [
        file
        for folder in (root / "sys/class/hwmon").glob("hwmon*")
        if read(folder / "name") in _SENSORS
        for file in folder.glob("temp*_input")
    ]
    zones = (root / "sys/class/thermal").glob("thermal_zone*")
    files += [zone / "temp" for zone in zones if read(zone / "type") in _ZONES]
    return max((number / 1e3 for number in _numbers(files)), default=None)


# --- GPUs -------------------------------------------------------------------------------------------------------


def _amd(which: str, root: Path) -> Sampler:
    cards = [
        card / "device"
        for card in sorted((root / "sys/class/drm").glob("card*"), key=lambda card: _place(card.name))
        if _place(card.name) >= 0 and read(card / "device/vendor") == _AMD
    ]
    number = int(which) if which.isdecimal() else 0
    sensors = sorted(cards[number].glob("hwmon/hwmon*")) if number < len(cards) else []
    if not sensors:
        return Sample
    folder = sensors[0]

    def sample() -> Sample:
        hertz = _numbers([folder / "freq1_input"])
        microwatts = _numbers([folder / "power1_average", folder / "power1_input"])
        millidegrees = _numbers([folder / "temp1_input"])
        return Sample(_scaled(hertz, 1e6), _scaled(microwatts, 1e6), _scaled(millidegrees, 1e3))

    return sample


def _place(name: str) -> int:
    """A card's number; -1 of what is only a connector of one."""
    number = name.removeprefix("card")
    return int(number) if number.isdecimal() else -1


def _scaled(numbers: list[float], unit: float) -> float | None:
    return numbers[0] / unit if numbers else None


def _nvidia(which: str, root: Path) -> Sampler:
    """A URI without a number is the first device; one with a UUID says which."""
    del root
    try:
        nvml = import_module("pynvml")
        nvml.nvmlInit()
        uuid = which if which.startswith("GPU-") else ""
        number = int(which) if which.isdecimal() else 0
        handle = nvml.nvmlDeviceGetHandleByUUID(uuid) if uuid else nvml.nvmlDeviceGetHandleByIndex(number)
    except Exception:  # no package, no driver, no such device: NVML has an exception for each
        return Sample

    def sample() -> Sample:
        return Sample(
            mhz=_asked(lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM)),
            watts=_asked(lambda: nvml.nvmlDeviceGetPowerUsage(handle) / 1e3),
            celsius=_asked(lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU)),
        )

    return sample


_VENDORS: Mapping[Vendor, Callable[[str, Path], Sampler]] = {"nvidia": _nvidia, "amd": _amd}


def _asked(question: Callable[[], Any]) -> float | None:
    try:
        return float(question())
    except Exception:  # not every chip answers every question
        return None


# --- files ------------------------------------------------------------------------------------------------------


def _numbers(paths: Iterable[Path]) -> list[float]:
    """Of the files that hold a number."""
    return [float(text) for text in map(read, paths) if text.isdecimal()]
