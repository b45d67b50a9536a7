"""NVIDIA's GPUs: PTX, which the driver compiles for its chip."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from autotuner.system import machine
from autotuner.targets.backends.base import (
    F8,
    F8_PRODUCTS,
    F16_SUMS,
    HALVES,
    KIB,
    LIBRARY,
    UNKNOWN,
    Backend,
    Chip,
    DeviceFacts,
    Look,
    Peak,
    Sizes,
    nothing_known,
)

_L2_CACHE_SIZE = 38
"""CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE."""


def _describe(which: str) -> DeviceFacts:
    query = ["--query-gpu=name,driver_version,clocks.sm", "--format=csv,noheader,nounits", f"--id={which}"]
    fields = [field.strip() for field in machine.output(["nvidia-smi", *query]).partition("\n")[0].split(",")]
    return DeviceFacts(fields[0], fields[1], machine.number(fields[2])) if len(fields) == 3 else UNKNOWN


def _chip_there(which: str) -> str | None:
    """The compute capability of a device, such as sm_90; None: unknown."""
    text = machine.output(["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader", f"--id={which}"])
    digits = text.partition("\n")[0].strip().replace(".", "")
    return f"sm_{digits}" if digits.isdigit() else None


def _number(which: str) -> int:
    """The device's number; 0 where the URI has none."""
    return int(which) if which.isdecimal() else 0


def _nvml(which: str) -> tuple[Any, Any] | None:
    """NVIDIA's library (nvidia-ml-py) and its handle of the device."""
    try:
        nvml = import_module("pynvml")
        nvml.nvmlInit()
        if which.startswith("GPU-"):
            return nvml, nvml.nvmlDeviceGetHandleByUUID(which)
        return nvml, nvml.nvmlDeviceGetHandleByIndex(_number(which))
    except Exception:  # no package, no driver, no such device: NVML has an exception for each
        return None


def _asked(question: Callable[[], Any]) -> float | None:
    try:
        return float(question())
    except Exception:  # not every chip answers every question
        return None


def _sampler(which: str, root: Path) -> Callable[[], Look]:
    if (found := _nvml(which)) is None:
        return nothing_known(which, root)
    nvml, handle = found
    return lambda: (
        _asked(lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM)),
        _asked(lambda: nvml.nvmlDeviceGetPowerUsage(handle) / 1e3),
        _asked(lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU)),
    )


def _sizes(which: str, root: Path) -> Sizes:
    """The sizes from the driver."""
    del root
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None, None
    device, cache, memory = ctypes.c_int(), ctypes.c_int(), ctypes.c_size_t()
    if driver.cuInit(0) or driver.cuDeviceGet(ctypes.byref(device), _number(which)):
        return None, None
    unknown = driver.cuDeviceGetAttribute(ctypes.byref(cache), _L2_CACHE_SIZE, device)
    unmeasured = driver.cuDeviceTotalMem_v2(ctypes.byref(memory), device)
    return None if unknown else cache.value or None, None if unmeasured else memory.value or None


_AMPERE = HALVES + F16_SUMS
_A100 = {"f16": 312.0, "bf16": 312.0, "f32": 19.5, "i8": 624.0}
_H100 = {"f16": 989.4, "bf16": 989.4, "f8": 1978.9, "f32": 66.9, "i8": 1978.9}
CHIPS = (
    Chip(
        *("sm_80", 108, 163 * KIB, _AMPERE),
        skus={"a100": 108},
        peaks=(
            Peak("A100", 2039.0, _A100),
            Peak("A100 PCIE 40GB", 1555.0, _A100),
            Peak("A100 SXM4 40GB", 1555.0, _A100),
        ),
    ),
    Chip(
        *("sm_86", 84, 99 * KIB, _AMPERE),
        threads=1536,
        products=("a10",),
        skus={"rtx3080": 68, "rtx3090": 82, "rtx3090ti": 84},
        peaks=(
            Peak("RTX 3090", 936.2, {"f16": 71.2, "bf16": 71.2, "f32": 35.6, "i8": 284.7}),
            Peak("A10", 600.0, {"f16": 125.0, "bf16": 125.0, "f32": 31.2, "i8": 250.0}),
        ),
    ),
    Chip(
        *("sm_87", 16, 163 * KIB, _AMPERE),
        threads=1536,
        products=("orin",),
        peaks=(Peak("Orin", 204.8, {"f16": 42.5, "bf16": 42.5, "f32": 5.3, "i8": 85.0}),),
    ),
    Chip(
        *("sm_89", 142, 99 * KIB, _AMPERE + F8 + F8_PRODUCTS, "f8E4M3FN"),
        threads=1536,
        products=("l4", "l40s"),
        skus={"rtx4080": 76, "rtx4090": 128},
        peaks=(
            Peak("L40S", 864.0, {"f16": 362.1, "bf16": 362.1, "f8": 733.0, "f32": 91.6, "i8": 733.0}),
            Peak("RTX 4090", 1008.0, {"f16": 165.2, "bf16": 165.2, "f8": 330.3, "f32": 82.6, "i8": 660.6}),
            Peak("L4", 300.0, {"f16": 121.0, "bf16": 121.0, "f8": 242.5, "f32": 30.3, "i8": 242.5}),
        ),
        lacks={"attention": "f8"},
    ),
    Chip(
        *("sm_90", 132, 227 * KIB),
        products=("h100", "h200", "gh200"),
        peaks=(
            Peak("H200", 4800.0, _H100),
            Peak("H100", 3350.0, _H100),
            Peak("H100 PCIe", 2000.0, {"f16": 756.4, "bf16": 756.4, "f8": 1512.9, "f32": 51.2, "i8": 1512.9}),
        ),
    ),
    Chip(
        *("sm_100", 148, 227 * KIB),
        products=("b200", "gb200"),
        peaks=(Peak("B200", 8000.0, {"f16": 2250.0, "bf16": 2250.0, "f8": 4500.0, "f32": 75.0, "i8": 4500.0}),),
    ),
    Chip(
        *("sm_120", 170, 99 * KIB, _AMPERE + F8 + F8_PRODUCTS, "f8E4M3FN"),
        threads=1536,
        products=("rtx5080", "rtx5090"),
        peaks=(
            Peak("RTX 5090", 1792.0, {"f16": 209.5, "bf16": 209.5, "f8": 419.0, "f32": 104.8, "i8": 838.0}),
            Peak("RTX 5080", 960.0, {"f16": 112.6, "bf16": 112.6, "f8": 225.1, "f32": 56.3, "i8": 450.2}),
        ),
        lacks={"attention": "f8"},
    ),
    Chip(
        *("sm_121", 48, 99 * KIB, _AMPERE),
        threads=1536,
        products=("gb10",),
        # An eighth and a quarter of its 500 TFLOP/s of dense FP4, as its larger sisters have them.
        peaks=(Peak("GB10", 273.0, {"f16": 62.5, "bf16": 62.5, "f8": 125.0, "f32": 31.2, "i8": 250.0}),),
    ),
)
"""Code for sm_80 also runs on later ones."""

CUDA = Backend(
    name="cuda",
    hal_device="cuda",
    device="cuda",
    drivers=("cuda",),
    chip_flag="--iree-cuda-target",
    chip_prefix="sm_",
    chips=CHIPS,
    spec_flag=LIBRARY,  # IREE takes the flag of tuning specs here and does nothing
    executable_format="cuda-nvptx-fb",
    figures="code",
    describe_device=_describe,
    chip_there=_chip_there,
    copies_ahead=True,
    assembled_on_load=True,
    sampler=_sampler,
    sizes=_sizes,
    settings=("constants-apart",),
    remedy="Install NVIDIA's driver, or tune with --device none.",
)
