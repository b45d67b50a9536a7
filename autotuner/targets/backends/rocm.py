"""AMD's GPUs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from autotuner.system import machine
from autotuner.targets.backends.base import (
    F8,
    F8_MIXED,
    F8_PRODUCTS,
    F16_SUMS,
    FLOATS,
    HALVES,
    I8,
    KIB,
    MX,
    Backend,
    Chip,
    DeviceFacts,
    Look,
    Peak,
    Sizes,
    nothing_known,
)

_PCI = "0x1002"
"""The vendor's PCI number."""


def _describe(which: str) -> DeviceFacts:
    """The facts from rocm-smi, or from amd-smi where a newer ROCm has only that. The case of keys differs between
    versions."""
    card = which if which.isdecimal() else "0"
    facts = machine.leaves(["rocm-smi", "-d", card, "--showproductname", "--showdriverversion", "--json"])
    if not facts:
        facts = machine.leaves(["amd-smi", "static", "--gpu", card, "--asic", "--driver", "--json"])
    return DeviceFacts(
        name=facts.get("card series") or facts.get("market_name") or "",
        driver=facts.get("driver version") or facts.get("version") or "",
    )


def _sampler(which: str, root: Path) -> Callable[[], Look]:
    """A sampler of the driver's hwmon files."""
    cards = [
        card / "device"
        for card in sorted((root / "sys/class/drm").glob("card*"), key=lambda card: _place(card.name))
        if _place(card.name) >= 0 and machine.read(card / "device/vendor") == _PCI
    ]
    number = int(which) if which.isdecimal() else 0
    sensors = sorted(cards[number].glob("hwmon/hwmon*")) if number < len(cards) else []
    if not sensors:
        return nothing_known(which, root)

    def figure(unit: float, *names: str) -> float | None:
        return next((value / unit for value in machine.numbers(sensors[0] / name for name in names)), None)

    return lambda: (
        figure(1e6, "freq1_input"),
        figure(1e6, "power1_average", "power1_input"),
        figure(1e3, "temp1_input"),
    )


def _place(name: str) -> int:
    """A card's number; -1 for its connectors."""
    number = name.removeprefix("card")
    return int(number) if number.isdecimal() else -1


def _sizes(which: str, root: Path) -> Sizes:
    """The sizes from the driver's topology, in which nodes without SIMDs are processors and caches are in KiB."""
    nodes = sorted((root / "sys/class/kfd/kfd/topology/nodes").glob("[0-9]*"), key=lambda node: int(node.name))
    gpus = [node for node in nodes if _properties(node / "properties").get("simd_count", 0) > 0]
    number = int(which) if which.isdecimal() else 0
    if number >= len(gpus):
        return None, None
    caches = [_properties(file) for file in gpus[number].glob("caches/*/properties")]
    last = max((cache.get("level", 0) for cache in caches), default=0)
    size = sum(cache.get("size", 0) for cache in caches if cache.get("level") == last) * KIB
    banks = [_properties(file) for file in gpus[number].glob("mem_banks/*/properties")]
    return size or None, sum(bank.get("size_in_bytes", 0) for bank in banks) or None


def _properties(path: Path) -> dict[str, int]:
    """The properties in a file with lines of a name and a number."""
    pairs = [line.split() for line in machine.read(path).splitlines()]
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdecimal()}


def _mi350(f16: float, *, f32: float) -> dict[str, float]:
    """The rates of gfx950: twice as many f8 as f16, and twice as many f4."""
    return {
        "f32": f32,
        **dict.fromkeys(("f16", "bf16"), f16),
        **dict.fromkeys(("f8", "i8", "mxfp8"), 2 * f16),
        "mxfp4": 4 * f16,
    }


_RDNA3 = HALVES + F16_SUMS + I8
_RDNA4 = _RDNA3 + F8 + F8_PRODUCTS + F8_MIXED
_MI300X = {"f16": 1307.4, "bf16": 1307.4, "f8": 2614.9, "f32": 163.4, "i8": 2614.9}
_cdna = partial(Chip, subgroup=64, register_file=0, registers=512, simds=4)
_rdna = partial(Chip, register_file=0, registers=256)
CHIPS = (
    _cdna(
        *("gfx908", 120, 64 * KIB, FLOATS[:2] + I8),
        skus={"mi100": 120},
        peaks=(Peak("MI100", 1228.8, {"f16": 184.6, "f32": 46.1, "i8": 184.6}),),
    ),
    _cdna(
        *("gfx90a", 110, 64 * KIB, FLOATS + I8),
        skus={"mi210": 104, "mi250": 104, "mi250x": 110},
        peaks=(
            Peak("MI250X", 1638.4, {"f16": 191.5, "bf16": 191.5, "f32": 47.9, "i8": 191.5}),  # one of its two chips
            Peak("MI210", 1638.4, {"f16": 181.0, "bf16": 181.0, "f32": 45.3, "i8": 181.0}),
        ),
    ),
    _cdna(
        *("gfx942", 304, 64 * KIB, FLOATS + I8 + F8 + F8_PRODUCTS + F8_MIXED, "f8E4M3FNUZ"),
        skus={"mi300a": 228, "mi300x": 304, "mi308x": 80, "mi325x": 304},
        peaks=(
            Peak("MI300X", 5300.0, _MI300X),
            Peak("MI300A", 5300.0, {"f16": 980.6, "bf16": 980.6, "f8": 1961.2, "f32": 122.6, "i8": 1961.2}),
            Peak("MI325X", 6000.0, _MI300X),
        ),
    ),
    _cdna(
        *("gfx950", 256, 160 * KIB, FLOATS + I8 + F8 + F8_PRODUCTS + F8_MIXED + MX, "f8E4M3FN"),
        dma=True,
        skus={"mi350x": 256, "mi355x": 256},
        peaks=(
            Peak("MI355X", 8000.0, _mi350(2516.6, f32=157.3)),
            Peak("MI350X", 8000.0, _mi350(2306.9, f32=144.2)),
        ),
    ),
    _rdna(
        *("gfx1100", 96, 64 * KIB, _RDNA3),
        skus={"rx7900xt": 84, "rx7900xtx": 96, "w7800": 70, "w7900": 96},
        peaks=(Peak("RX 7900 XTX", 960.0, {"f16": 122.8, "bf16": 122.8, "f32": 61.4, "i8": 122.8}),),
    ),
    _rdna(
        *("gfx1101", 60, 64 * KIB, _RDNA3),
        skus={"rx7700xt": 54, "rx7800xt": 60, "w7700": 48},
        peaks=(Peak("RX 7800 XT", 624.1, {"f16": 74.6, "bf16": 74.6, "f32": 37.3, "i8": 74.6}),),
    ),
    _rdna(
        *("gfx1103", 12, 64 * KIB, _RDNA3),
        products=("phoenix", "radeon780m"),
        peaks=(Peak("Radeon 780M", 120.0, {"f16": 16.6, "bf16": 16.6, "f32": 8.3, "i8": 16.6}),),
    ),
    _rdna(
        *("gfx1150", 16, 64 * KIB, _RDNA3),
        products=("strix-point", "radeon890m"),
        peaks=(Peak("Radeon 890M", 120.0, {"f16": 23.8, "bf16": 23.8, "f32": 11.9, "i8": 23.8}),),
    ),
    _rdna(
        *("gfx1151", 40, 64 * KIB, _RDNA3),
        products=("strix-halo", "radeon8060s"),
        peaks=(Peak("Radeon 8060S", 256.0, {"f16": 59.4, "bf16": 59.4, "f32": 29.7, "i8": 59.4}),),
    ),
    _rdna(
        *("gfx1200", 32, 64 * KIB, _RDNA4, "f8E4M3FN"),
        skus={"rx9060xt": 32},
        peaks=(Peak("RX 9060 XT", 320.0, {"f16": 103.0, "bf16": 103.0, "f8": 205.0, "f32": 25.6, "i8": 205.0}),),
    ),
    _rdna(
        *("gfx1201", 64, 64 * KIB, _RDNA4, "f8E4M3FN"),
        skus={"r9700": 64, "rx9070": 56, "rx9070xt": 64},
        peaks=(
            Peak("RX 9070 XT", 640.0, {"f16": 195.0, "bf16": 195.0, "f8": 389.0, "f32": 48.7, "i8": 389.0}),
            Peak("RX 9070", 640.0, {"f16": 145.0, "bf16": 145.0, "f8": 289.0, "f32": 36.1, "i8": 289.0}),
            Peak("R9700", 640.0, {"f16": 191.0, "bf16": 191.0, "f8": 383.0, "f32": 47.8, "i8": 383.0}),
        ),
    ),
    Chip(
        *("gfx1250", 256, 320 * KIB, FLOATS + F16_SUMS + I8 + F8 + F8_PRODUCTS + F8_MIXED, "f8E4M3FN"),
        register_file=0,
        registers=1024,
        skus={"mi455x": 256},
        # As IREE's own table has them, which says nothing of i8.
        peaks=(Peak("MI455X", 23300.0, {"f16": 5030.0, "bf16": 5030.0, "f8": 20130.0, "f32": 315.0}),),
    ),
)

ROCM = Backend(
    name="rocm",
    hal_device="hip",
    device="hip",
    drivers=("hip", "rocm"),
    chip_flag="--iree-rocm-target",
    chip_prefix="gfx",
    chips=CHIPS,
    executable_format="rocm-hsaco-fb",
    figures="remarks",
    settings=(
        "padded",
        "data-tiling",
        "tensor-ukernels",
        "split-reduction",
        "plain-loads",
        "global-isel",
        "default-specs",
    ),
    routes=(
        "tensor-ukernels",
        "data-tiling+tensor-ukernels",
        "data-tiling",
        "split-reduction",
        "plain-loads",
        "global-isel",
        "default-specs",
    ),
    # Of the prefetch 1 gives the binary of 0, 4 that of 3. Of the waves 0 is no attribute; 1 never changes the binary,
    # 2 to 4 do where registers limit the occupancy. On NVIDIA no value changes the binary.
    free_knobs={"prefetch_num_stages": (0, 2, 3), "waves_per_eu": (0, 2, 3, 4)},
    describe_device=_describe,
    sampler=_sampler,
    sizes=_sizes,
    remedy="Install ROCm's runtime, or tune with --device none.",
)
