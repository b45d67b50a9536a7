"""A backend of IREE's compiler. All that is particular about one is in its file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from autotuner.iree.figures import Figures

TUNING_SPEC = "--iree-codegen-tuning-spec-path"
LIBRARY = "--iree-codegen-transform-dialect-library"
DEVICE_FLAG = "--iree-hal-target-device"
KIB = 1024
HALVES = (("f16", "f32"), ("bf16", "f32"))
FLOATS = (("f32", "f32"), *HALVES)
F16_SUMS = (("f16", "f16"),)
I8 = (("i8", "i32"),)
F8 = (("f8", "f32"),)
F8_PRODUCTS = tuple((name, "f32") for name in ("f8b128", "f8row", "bf8"))
F8_MIXED = tuple((name, "f32") for name in ("f8xbf8", "bf8xf8"))
"""What products of 8-bit floats have beside f8; of two types they have instructions on AMD's chips only."""
MX = (("mxfp4", "f32"), ("mxfp8", "f32"))

Types = tuple[tuple[str, str], ...]
"""(dtype, accumulator) pairs."""
Look = tuple[float | None, float | None, float | None]
"""MHz, watts and degrees Celsius of a device; None: unknown."""
Sizes = tuple[int | None, int | None]
"""Bytes of a device's last level cache and of its memory; None: unknown."""


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """A device's facts from its driver's tool."""

    name: str = ""
    driver: str = ""
    mhz: float | None = None


UNKNOWN = DeviceFacts()


@dataclass(frozen=True, slots=True)
class Peak:
    """The peak rates of a product, from its data sheet: dense, at its highest clock."""

    product: str
    gbs: float
    """GB/s of memory."""
    tflops: Mapping[str, float]
    """TFLOP/s (of i8: TOP/s) by the inputs' type, by matrix instructions where it has some."""
    chip: str = ""


@dataclass(frozen=True, eq=False)
class Chip:
    """The facts of a chip."""

    name: str
    units: int
    """Compute units or multiprocessors of its largest product."""
    shared: int
    """The most bytes of shared memory of a workgroup."""
    types: Types = ()
    """The (dtype, accumulator) pairs of its matrix instructions; empty: it runs the code of an earlier chip, and may
    have microkernels of its own."""
    f8: str | None = None
    """The MLIR type of its f8."""
    subgroup: int = 32
    """Threads of a subgroup."""
    threads: int = 2048
    """Threads that a unit holds at once."""
    registers: int = 255
    """The most 32-bit registers of a thread."""
    register_file: int = 65536
    """Registers of a unit, which its threads share; 0: SIMDs have registers for every wave."""
    simds: int = 0
    """SIMDs of a unit, whose waves share the registers of a thread; 0: not shared."""
    dma: bool = False
    """It copies 128 bits a lane from memory to shared memory at once, past the registers."""
    products: tuple[str, ...] = ()
    """Names of its products that IREE does not know."""
    skus: Mapping[str, int] = field(default_factory=dict)
    """Names of its products that IREE knows, with their units: each gets code of its own."""
    peaks: tuple[Peak, ...] = ()
    """Peak rates by product; the first stands for the chip where the device is unknown."""
    lacks: Mapping[str, str] = field(default_factory=dict)
    """Operations with types that cannot be tuned although the chip has them."""


def nothing_known(which: str, root: Path) -> Callable[[], Look]:
    """The sampler of a device without figures."""
    del which, root
    return lambda: (None, None, None)


def no_sizes(which: str, root: Path) -> Sizes:
    """The sizes of a device without figures."""
    del which, root
    return None, None


@dataclass(frozen=True)
class Backend:
    """A code generator of IREE's: its flags, the devices that run its code, and their facts.

    Functions on a device take its name in the URI, and the root of the machine's files. They never fail.
    """

    name: str
    """IREE's name of it."""
    hal_device: str
    """Its device in `--iree-hal-target-device`."""
    device: str
    """The default device URI."""
    drivers: tuple[str, ...]
    """Schemes of URIs of its devices."""
    chip_flag: str
    """The flag of the chip's name."""
    chip_prefix: str
    """The prefix of its chips' names; empty: processors, whose names have none."""
    figures: Figures
    """How the figures of its machine code are read."""
    executable_format: str
    """IREE's format name of its executables; empty: it depends on the processor."""
    remedy: str
    """The advice where none of its devices answers."""
    describe_device: Callable[[str], DeviceFacts]
    """Reads the facts of a device."""
    chips: tuple[Chip, ...] = ()
    spec_flag: str = TUNING_SPEC
    """The flag of a tuning spec. A backend may silently ignore the usual one."""
    more_flags: tuple[str, ...] = ()
    """More flags that it needs."""
    settings: tuple[str, ...] = ()
    """The settings of whole programs that only it has, by their names in `targets.knobs`."""
    routes: tuple[str, ...] = ()
    """The stock routes of single problems; on processors the operation names them."""
    free_knobs: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Knobs that IREE's constraints pin and the backend honours, with the values that give different code."""
    on_host: bool = False
    """Its code is for processors: it is compiled and timed on the same cores, microkernels are linked into it, and its
    space is declared here. Of other backends the compiler itself says which configurations are legal."""
    chip_there: Callable[[str], str | None] = lambda _: None
    """The chip of a device, where the driver compiles for it: objects must fit that chip. None: it is the one that IREE
    compiles for."""
    copies_ahead: bool = False
    """Its chips copy tiles to shared memory while they compute, several steps ahead: kernels want room for them."""
    assembled_on_load: bool = False
    """The driver assembles its code when a module is loaded, which takes a tenth of a second or more, and caches it."""
    sampler: Callable[[str, Path], Callable[[], Look]] = nothing_known
    """Makes a sampler of a device's clock, power and temperature."""
    sizes: Callable[[str, Path], Sizes] = no_sizes

    def flags(self, chip: str) -> tuple[str, ...]:
        """The flags of a compile for this chip."""
        return (f"{DEVICE_FLAG}={self.hal_device}", *self.more_flags, f"{self.chip_flag}={chip}")

    def owns(self, chip: str) -> bool:
        """Whether a chip's name is of this backend."""
        return bool(self.chip_prefix) and chip.startswith(self.chip_prefix)

    def known(self, chip: str) -> Chip | None:
        """The facts of the chip of this name; a letter after an NVIDIA chip's number is ignored."""
        return next((one for one in self.chips if chip in (one.name, f"{one.name}a", f"{one.name}f")), None)

    def like(self, chip: str) -> Chip:
        """The facts of this chip, else of the one with the most similar name."""
        alike = {one: [a == b for a, b in zip(one.name, chip, strict=False)] + [False] for one in self.chips}
        return self.known(chip) or replace(max(self.chips, key=lambda one: alike[one].index(False)), name=chip)
