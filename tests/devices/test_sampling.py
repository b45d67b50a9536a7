"""Clock, power and temperature: read where they are, empty where they are not, and stored with each timing."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

import pytest

from autotuner.devices.conditions import NO_SAMPLE, Conditions, DeviceState, Sample
from autotuner.devices.device import Computed, Module, Timing
from autotuner.devices.sampled import SampledDevice
from autotuner.devices.sampling import open_sampler
from autotuner.iree.benchmark import Benchmark, DispatchTime
from autotuner.iree.run import Invocation
from tests.support.bare_device import BareDevice

CPU = min(os.sched_getaffinity(0))


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


@pytest.mark.parametrize(
    "files",
    [
        {"sys/class/hwmon/hwmon0/name": "coretemp", "sys/class/hwmon/hwmon0/temp1_input": 61000},
        {"sys/class/thermal/thermal_zone3/type": "x86_pkg_temp", "sys/class/thermal/thermal_zone3/temp": 61000},
    ],
)
def test_a_processors_temperature_is_that_of_its_hottest_sensor(tmp_path: Path, files: Mapping[str, object]) -> None:
    write(tmp_path, files)
    write(tmp_path, {"sys/class/hwmon/hwmon7/name": "nvme", "sys/class/hwmon/hwmon7/temp1_input": 99000})
    write(tmp_path, {"sys/class/hwmon/hwmon8/name": "k10temp", "sys/class/hwmon/hwmon8/temp1_input": 40000})
    assert open_sampler("local-task", root=tmp_path)() == Sample(celsius=61)


@pytest.mark.parametrize("uri", ["local-task", "cuda", "hip", "hip://7", "vulkan", "nonsense"])
def test_where_nothing_is_to_be_had_samples_are_empty(tmp_path: Path, uri: str) -> None:
    write(tmp_path, {"sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq": "<unknown>"})
    assert open_sampler(uri, root=tmp_path)() == NO_SAMPLE


def test_this_machines_clock_is_read() -> None:
    known = "cpu MHz" in Path("/proc/cpuinfo").read_text() or Path(f"/sys/devices/system/cpu/cpu{CPU}/cpufreq").exists()
    mhz = open_sampler("local-task")().mhz
    assert (mhz is not None and 100 < mhz < 10_000) if known else mhz is None


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
        ("cuda", Sample(1980, 691.3, 60)),
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


def test_without_the_library_an_nvidia_gpu_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert open_sampler("cuda")() == NO_SAMPLE


@dataclass
class Counted(BareDevice):
    """A device whose clock falls with each look at it."""

    uri: str = "counted"
    state: DeviceState = "sustained"
    starts_quickly: bool = True
    invocation_us: float = 1.0
    renewed: int = 0
    looks: list[int] = field(default_factory=list)

    def renew(self) -> None:
        self.renewed += 1

    def check(self, vmfb: Path, invocations: Sequence[Invocation], *, timeout: float) -> tuple[Computed, ...]:
        del vmfb, timeout
        return tuple(Computed() for _ in invocations)

    def time(
        self, module: Module, benchmark: Benchmark, *, repetitions: int = 3, give_up_us: float = math.inf
    ) -> Timing:
        del give_up_us
        del module, benchmark
        self.looks.append(0)
        return Timing((1.0,) * repetitions)

    def dispatch_times(
        self, vmfb: Path, invocation: Invocation, *, timeout: float
    ) -> Mapping[str, DispatchTime] | None:
        del vmfb, invocation, timeout
        return {"main": DispatchTime(1.0)}

    def sample(self) -> Sample:
        self.looks.append(1)
        return Sample(mhz=2000.0 - sum(self.looks))


@dataclass(frozen=True)
class Vmfb:
    vmfb: Path = Path("module.vmfb")
    repeat: int = 1


@pytest.fixture
def benchmark() -> Benchmark:
    return Benchmark(Invocation("main", (), ("f32",)), seconds=0.01, timeout=1)


def test_a_timing_has_the_samples_before_and_after_it(benchmark: Benchmark) -> None:
    counted = Counted()
    watched = SampledDevice(counted, counted.sample)
    timing = watched.time(Vmfb(), benchmark, repetitions=2)
    assert timing.conditions == Conditions("sustained", "warm", Sample(mhz=1999), Sample(mhz=1998), "counted")
    assert counted.looks == [1, 0, 1]
    assert timing.us == (1.0, 1.0)


def test_all_else_is_the_devices_own(benchmark: Benchmark) -> None:
    counted = Counted()
    watched = SampledDevice(counted, Sample)
    watched.renew()
    assert (counted.renewed, watched.invocation_us) == (1, 1.0)
    assert watched.isolated is watched
    assert (watched.uri, watched.state, watched.starts_quickly) == ("counted", "sustained", True)
    assert watched.check(Path(), [benchmark.invocation] * 2, timeout=1) == (Computed(), Computed())
    assert watched.dispatch_times(Path(), benchmark.invocation, timeout=1) == {"main": DispatchTime(1.0)}


@pytest.mark.parametrize(
    "conditions",
    [
        Conditions("burst", "cold", Sample(1, 2, 3), Sample(celsius=4)),
        Conditions("process"),
    ],
)
def test_conditions_survive_the_database(conditions: Conditions) -> None:
    assert Conditions.from_json(conditions.to_json()) == conditions


def test_what_is_not_known_is_not_written() -> None:
    assert Conditions("process", after=Sample(mhz=1.04)).to_json() == {
        "state": "process",
        "cache": "warm",
        "after": {"mhz": 1.0},
    }


def test_the_middle_of_some_looks_is_the_median_of_each_figure_that_is_known() -> None:
    looks = [Sample(1000.0, 90.0), Sample(1400.0), Sample(1100.0, 70.0)]
    assert Sample.middle(looks) == Sample(mhz=1100.0, watts=80.0, celsius=None)
    assert Sample.middle([]) == Sample()
