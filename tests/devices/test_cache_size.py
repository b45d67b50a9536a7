"""The last level cache: how large it is, and over how many sets of buffers a cold timing goes."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from autotuner.devices.cache_size import FALLBACK_BYTES, MEMORY_SHARE, MOST_SETS, Rotation, Sizes, sizes_of

MIB = 2**20


def write(root: Path, files: Mapping[str, object]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"{text}\n")


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


def test_this_machines_are_found() -> None:
    found = sizes_of("local-task")
    assert found.cache is None or 2**17 <= found.cache < 2**33
    assert found.memory is not None
    assert found.memory > 2**27


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
