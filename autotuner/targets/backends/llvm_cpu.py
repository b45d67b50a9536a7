"""Processors, by LLVM."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from statistics import mean

from autotuner.system import machine
from autotuner.targets.backends.base import Backend, DeviceFacts, Look, Sizes

CPU_FLAG = "--iree-llvmcpu-target-cpu"


def _sampler(which: str, root: Path) -> Callable[[], Look]:
    """A sampler of the clock, from cpufreq."""
    del which
    return lambda: (_mhz(root), None, None)


def _mhz(root: Path) -> float | None:
    """The mean MHz of the cores that this process may use."""
    cores = os.sched_getaffinity(0)
    files = (root / f"sys/devices/system/cpu/cpu{core}/cpufreq/scaling_cur_freq" for core in cores)
    if kilohertz := machine.numbers(files):
        return mean(kilohertz) / 1e3
    known = re.findall(r"^cpu MHz\s*:\s*(\d+(?:\.\d+)?)\s*$", machine.read(root / "proc/cpuinfo"), re.MULTILINE)
    return mean(map(float, known)) if known else None


def _sizes(which: str, root: Path) -> Sizes:
    """The sizes: all caches of the highest level of the usable cores, each counted once."""
    del which
    found: dict[tuple[int, str], int] = {}
    for core in os.sched_getaffinity(0):
        for folder in (root / f"sys/devices/system/cpu/cpu{core}/cache").glob("index*"):
            level, size = machine.read(folder / "level"), _bytes(machine.read(folder / "size"))
            if level.isdecimal() and size and machine.read(folder / "type") != "Instruction":
                found[int(level), machine.read(folder / "shared_cpu_list")] = size
    last = max((level for level, _ in found), default=0)
    memory = machine.field(machine.read(root / "proc/meminfo"), "MemAvailable")
    cache = sum(size for (level, _), size in found.items() if level == last)
    return cache or None, _bytes(memory.replace("kB", "K").replace(" ", ""))


def _bytes(text: str) -> int | None:
    """Bytes of a text such as `36608K`."""
    units = {"K": 2**10, "M": 2**20, "G": 2**30}
    number, unit = (text[:-1], units[text[-1]]) if text[-1:] in units else (text, 1)
    return int(number) * unit if number.isdecimal() else None


LLVM_CPU = Backend(
    name="llvm-cpu",
    hal_device="local",
    device="local-task",
    drivers=("local-task", "local-sync", "local"),
    chip_flag=CPU_FLAG,
    chip_prefix="",
    more_flags=("--iree-hal-local-target-device-backends=llvm-cpu",),
    executable_format="",
    figures="code",
    settings=("nchwc", "decomposed", "data-tiling", "global-data-tiling", "ukernels", "inner-tiled"),
    remedy="Reinstall iree-base-runtime.",
    describe_device=lambda _: DeviceFacts(machine.processor()),  # whichever of its executors it is
    on_host=True,
    sampler=_sampler,
    sizes=_sizes,
)
