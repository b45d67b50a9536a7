"""What drivers tell of a device (clock, power, heat, what slows it down, how large cache and memory are), or do not."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

import pytest

from autotuner.devices.conditions import NO_SAMPLE, Conditions, Sample
from autotuner.devices.device import Timing
from autotuner.devices.sampling import (
    FALLBACK_BYTES,
    MEMORY_SHARE,
    MOST_SETS,
    Rotation,
    Sizes,
    open_sampler,
    sampled,
    sizes_of,
)

MIB = 2**20


def write(root: Path, files: Mapping[str, object]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"{text}\n")


def test_a_processors_clock_is_the_mean_of_the_usable_cores(tmp_path: Path) -> None:
    cores = sorted(os.sched_getaffinity(0))
    folder = "sys/devices/system/cpu/cpu{}/cpufreq/scaling_cur_freq"
    write(tmp_path, {folder.format(core): 2_000_000 + 100_000 * place for place, core in enumerate(cores)})
    write(tmp_path, {folder.format(cores[-1] + 1): 9_000_000, "proc/cpuinfo": "cpu MHz : 1.0"})
    assert open_sampler("local-task", root=tmp_path)().mhz == pytest.approx(2000 + 50 * (len(cores) - 1))


def test_without_cpufreq_the_kernels_own_figures_count(tmp_path: Path) -> None:
    write(tmp_path, {"proc/cpuinfo": "cpu MHz\t\t: 2000.0\nflags: x\ncpu MHz\t\t: 3000.5\n"})
    assert open_sampler("local-sync", root=tmp_path)() == Sample(mhz=2500.25)


@pytest.mark.parametrize("uri", ["local-task", "cuda", "hip://7", "nonsense"])
def test_where_nothing_is_to_be_had_samples_are_empty(
    tmp_path: Path, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    write(tmp_path, {"sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq": "<unknown>"})
    assert open_sampler(uri, root=tmp_path)() == NO_SAMPLE


def amd_card(root: Path, card: int, *, vendor: str, watts: str = "power1_average") -> None:
    device = f"sys/class/drm/card{card}/device"
    sensors = {"freq1_input": 1_400_000_000 + card, watts: 555_000_000, "temp1_input": 48_000}
    write(root, {f"{device}/vendor": vendor, **{f"{device}/hwmon/hwmon{card}/{n}": v for n, v in sensors.items()}})


@pytest.mark.parametrize("watts", ["power1_average", "power1_input"])
def test_an_amd_gpu_is_read_from_its_drivers_files(tmp_path: Path, watts: str) -> None:
    amd_card(tmp_path, 0, vendor="0x1a03")
    amd_card(tmp_path, 2, vendor="0x1002")
    amd_card(tmp_path, 10, vendor="0x1002", watts=watts)
    write(tmp_path, {"sys/class/drm/card2-DP-1/status": "connected"})
    found = [open_sampler(uri, root=tmp_path)() for uri in ("hip", "hip://1", "hip://2")]
    assert found == [Sample(1400.000002, 555.0, 48.0), Sample(1400.00001, 555.0, 48.0), NO_SAMPLE]


class Nvml(ModuleType):
    """NVIDIA's library with two GPUs, of which the second does not tell its power."""

    NVML_CLOCK_SM, NVML_TEMPERATURE_GPU = 1, 0

    def nvmlInit(self) -> None:
        self.started = True

    def nvmlDeviceGetHandleByIndex(self, number: int) -> int:
        if not self.started or number > 1:
            raise RuntimeError("NVML: invalid argument")
        return number

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> int:
        return {"GPU-1234": 1}[uuid]

    def nvmlDeviceGetClockInfo(self, handle: int, clock: int) -> int:
        assert clock == self.NVML_CLOCK_SM
        return 1980 - handle

    def nvmlDeviceGetPowerUsage(self, handle: int) -> int:
        if handle:
            raise RuntimeError("NVML: not supported")
        return 691_300

    def nvmlDeviceGetTemperature(self, handle: int, sensor: int) -> int:
        assert sensor == self.NVML_TEMPERATURE_GPU
        return 60 + handle


@pytest.mark.parametrize(
    ("uri", "sample"),
    [
        ("cuda://0", Sample(1980, 691.3, 60)),
        ("cuda://1", Sample(1979, None, 61)),
        ("cuda://GPU-1234", Sample(1979, None, 61)),
        ("cuda://2", NO_SAMPLE),
        ("cuda://GPU-5678", NO_SAMPLE),
    ],
)
def test_an_nvidia_gpu_is_asked_by_its_own_library(monkeypatch: pytest.MonkeyPatch, uri: str, sample: Sample) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", Nvml("pynvml"))
    assert open_sampler(uri)() == sample


def test_conditions_survive_the_database_and_what_is_not_known_is_not_written() -> None:
    for conditions in (Conditions("burst", "cold", Sample(1, 2, 3), Sample(celsius=4)), Conditions("process")):
        assert Conditions.from_json(conditions.to_json()) == conditions
    assert Conditions("process", after=Sample(mhz=1.04)).to_json() == {
        "state": "process",
        "cache": "warm",
        "after": {"mhz": 1.0},
    }


def test_the_middle_of_some_looks_is_the_median_of_each_figure_that_is_known() -> None:
    looks = [Sample(1000.0, 90.0), Sample(1400.0), Sample(1100.0, 70.0)]
    assert Sample.middle(looks) == Sample(mhz=1100.0, watts=80.0, celsius=None)
    assert Sample.middle([]) == Sample()


def test_a_timing_has_the_samples_before_and_after_it() -> None:
    looks = iter([Sample(mhz=1999), Sample(mhz=1998)])
    usual = Conditions("sustained", device="counted")
    timing = sampled(lambda: Timing((1.0, 1.0)), lambda: next(looks), usual)
    assert timing.conditions == Conditions("sustained", "warm", Sample(mhz=1999), Sample(mhz=1998), "counted")
    own = sampled(lambda: Timing((1.0,), conditions=Conditions("process")), Sample, usual)
    assert own.conditions == Conditions("process")


# --- cache and memory ---------------------------------------------------------------------------------------------


def cache(core: int, index: int, *, level: int, size: str, shared: str, kind: str = "Unified") -> dict[str, object]:
    folder = f"sys/devices/system/cpu/cpu{core}/cache/index{index}"
    return {
        f"{folder}/{n}": v for n, v in {"level": level, "size": size, "shared_cpu_list": shared, "type": kind}.items()
    }


@pytest.fixture
def cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 4})


@pytest.mark.usefixtures("cores")
def test_a_cache_that_cores_share_counts_once_and_others_are_summed(tmp_path: Path) -> None:
    for core in (0, 1, 4, 5, 9):
        shared = "0-3" if core < 4 else "4-7" if core < 8 else "8-11"
        write(tmp_path, cache(core, 0, level=1, size="32K", shared=str(core), kind="Data"))
        write(tmp_path, cache(core, 3, level=3, size="16M", shared=shared))
    assert sizes_of("local-task", root=tmp_path).cache == 32 * MIB


@pytest.mark.usefixtures("cores")
def test_without_a_third_level_the_second_is_the_last(tmp_path: Path) -> None:
    write(tmp_path, cache(0, 1, level=2, size="1024K", shared="0"))
    write(tmp_path, cache(1, 1, level=2, size="1024K", shared="1"))
    write(tmp_path, cache(1, 2, level=3, size="8M", shared="0-1", kind="Instruction"))
    write(tmp_path, {"proc/meminfo": "MemTotal:  16 kB\nMemAvailable:   24076952 kB"})
    assert sizes_of("local-sync", root=tmp_path) == Sizes(2 * MIB, 24076952 * 1024)


def test_an_amd_gpus_are_in_the_topology_of_its_driver(tmp_path: Path) -> None:
    nodes = "sys/class/kfd/kfd/topology/nodes"
    write(tmp_path, {f"{nodes}/0/properties": "cpu_cores_count 96\nsimd_count 0"})
    write(tmp_path, {f"{nodes}/0/caches/0/properties": "level 3\nsize 999999"})
    for node, memory in ((2, 64), (10, 192)):
        write(tmp_path, {f"{nodes}/{node}/properties": "simd_count 1216\nmax_waves_per_simd 8"})
        write(
            tmp_path, {f"{nodes}/{node}/caches/{n}/properties": "level 2\nsize 4096\nsibling_map 1,1" for n in range(8)}
        )
        write(tmp_path, {f"{nodes}/{node}/caches/9/properties": "level 3\nsize 262144"})
        write(tmp_path, {f"{nodes}/{node}/mem_banks/0/properties": f"heap_type 1\nsize_in_bytes {memory * 2**30}"})
    assert sizes_of("hip://0", root=tmp_path) == Sizes(256 * MIB, 64 * 2**30)
    assert sizes_of("hip://1", root=tmp_path) == Sizes(256 * MIB, 192 * 2**30)
    assert sizes_of("hip://2", root=tmp_path) == Sizes()


class Driver:
    """CUDA's driver of one device."""

    def __init__(self, *, refuses: str = "") -> None:
        self.refuses = refuses

    def __getattr__(self, name: str) -> object:
        def call(*words: object) -> int:
            values = {"cuDeviceGetAttribute": 50 * MIB, "cuDeviceTotalMem_v2": 141 * 2**30}
            if name == "cuDeviceGetAttribute":
                assert words[1] == 38
            if name in values:
                words[0]._obj.value = values[name]  # type: ignore[attr-defined]
            return 1 if name == self.refuses or (name == "cuDeviceGet" and words[1] != 0) else 0

        return call


@pytest.mark.parametrize(
    ("uri", "refuses", "found"),
    [
        ("cuda", "", Sizes(50 * MIB, 141 * 2**30)),
        ("cuda://1", "", Sizes()),
        ("cuda", "cuInit", Sizes()),
        ("cuda", "cuDeviceGetAttribute", Sizes(None, 141 * 2**30)),
        ("cuda", "cuDeviceTotalMem_v2", Sizes(50 * MIB, None)),
    ],
)
def test_an_nvidia_gpus_driver_is_asked(monkeypatch: pytest.MonkeyPatch, uri: str, refuses: str, found: Sizes) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda _: Driver(refuses=refuses))
    assert sizes_of(uri) == found


@pytest.mark.parametrize("uri", ["local-task", "cuda", "hip", "nonsense"])
def test_where_nothing_is_said_nothing_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uri: str) -> None:
    def missing(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", missing)
    assert sizes_of(uri, root=tmp_path) == Sizes()


@pytest.mark.parametrize(
    ("sizes", "footprint", "rotation"),
    [
        (Sizes(50 * MIB, 1000 * MIB), 10 * MIB, Rotation(11, exceeds=True)),
        (Sizes(50 * MIB, 1000 * MIB), 120 * MIB, Rotation(2, exceeds=True)),
        (Sizes(50 * MIB, 1000 * MIB), 1, Rotation(MOST_SETS, exceeds=False)),
        (Sizes(50 * MIB, 200 * MIB), 10 * MIB, Rotation(5, exceeds=False)),
        (Sizes(50 * MIB, 200 * MIB), 80 * MIB, Rotation(0, exceeds=False)),
        (Sizes(50 * MIB, None), 25 * MIB, Rotation(5, exceeds=True)),
        (Sizes(), FALLBACK_BYTES, Rotation(3, exceeds=True)),
    ],
)
def test_the_buffers_exceed_the_cache_twice_within_a_share_of_memory(
    sizes: Sizes, footprint: int, rotation: Rotation
) -> None:
    assert sizes.rotation(footprint) == rotation
    if sizes.memory is not None:
        assert rotation.sets * footprint <= MEMORY_SHARE * sizes.memory
