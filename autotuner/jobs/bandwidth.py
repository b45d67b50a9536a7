"""How many bytes a second a device moves between its memory and its cores: measured, for the roof of a roofline."""

from __future__ import annotations

from autotuner.build import Builder, BuildJob
from autotuner.devices.process import ProcessDevice
from autotuner.devices.sampling import sizes_of
from autotuner.errors import DeviceError
from autotuner.iree.run import Benchmark, Invocation
from autotuner.iree.tools import Tools
from autotuner.problems.base import FUNCTION
from autotuner.problems.render import stream_mlir
from autotuner.system.cache import Cache
from autotuner.system.locks import device_lock
from autotuner.system.settings import cache_dir
from autotuner.targets import Target

_ROWS, _FLOAT = 4096, 4
_LEAST, _MOST = 2**26, 2**30
"""Bytes that are read, and as many that are written: far more than a cache holds, and no more than a device has."""
_REPEATS, _TIMINGS, _SECONDS, _TIMEOUT = 4, 5, 0.05, 60.0


def measure_bandwidth(device: str, target: Target) -> float:
    """GB/s, read and written together. BusyError where a run has the device: it is not disturbed."""
    tools, cache = Tools.find(), Cache(cache_dir())
    columns = min(_MOST, max(_LEAST, sizes_of(device).emptying)) // (_ROWS * _FLOAT)
    job = BuildJob(stream_mlir(_ROWS, columns), target.compile_flags, _TIMEOUT, repeat=_REPEATS)
    with device_lock(device, cache_dir(), timeout=0.0), cache.scratch() as scratch:
        built = Builder(tools, cache).build(job)
        if not built.ok:
            raise DeviceError("the program that measures bandwidth does not compile.", remedy="Run `autotune doctor`.")
        shape = f"{_ROWS}x{columns}xf32"
        invocation = Invocation(FUNCTION, (f"{shape}=1", f"{shape}=0"), ("f32",))
        benchmark = Benchmark(invocation, _SECONDS, _TIMEOUT)
        timing = ProcessDevice(tools, device, scratch).time(built, benchmark, repetitions=_TIMINGS)
    if not timing.ok:
        raise DeviceError(f"device {device!r} does not run: {timing.detail[:200]}", remedy="Run `autotune doctor`.")
    return 2 * _ROWS * columns * _FLOAT / min(timing.us) / 1e3  # a roof is what was reached at best
