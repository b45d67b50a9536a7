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

Types = tuple[tuple[str, str], ...]
"""(dtype, accumulator) pairs."""
Look = tuple[float | None, float | None, float | None]
"""MHz, watts and degrees Celsius of a device; None where nobody tells."""
Sizes = tuple[int | None, int | None]
"""Bytes of a device's last level cache and of its memory; None where nobody tells."""


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """A device as its driver's own tool describes it."""

    name: str = ""
    driver: str = ""
    mhz: float | None = None


UNKNOWN = DeviceFacts()


@dataclass(frozen=True, slots=True)
class Peak:
    """What a product can do at most, by its maker's data sheet: dense, at its highest clock."""

    product: str
    gbs: float
    """GB/s of its memory."""
    tflops: Mapping[str, float]
    """TFLOP/s (of i8: TOP/s) by the inputs' type, by matrix instructions where it has some."""
    chip: str = ""


@dataclass(frozen=True, eq=False)
class Chip:
    """What is known of a chip before any of its devices is asked."""

    name: str
    units: int
    """Compute units or multiprocessors of its largest product: what workgroups are spread over."""
    shared: int
    """Bytes of shared memory that a workgroup can have."""
    types: Types = ()
    """What its matrix instructions multiply and add up in; empty: IREE makes no code for it, and it runs that for an
    earlier chip. It may have microkernels of its own."""
    f8: str | None = None
    """What MLIR calls its f8."""
    subgroup: int = 32
    """Threads that go in step."""
    threads: int = 2048
    """That a unit holds at once."""
    registers: int = 255
    """Of 32 bits, that a thread can have."""
    register_file: int = 65536
    """Registers of a unit, which its threads share; 0: each of its SIMDs has some for every wave."""
    simds: int = 0
    """Of a unit, that share the registers of a thread among their waves; 0: a thread's are its own."""
    products: tuple[str, ...] = ()
    """Names that users may give it."""
    peaks: tuple[Peak, ...] = ()
    """The first stands for the chip where no device says what it is."""
    lacks: Mapping[str, str] = field(default_factory=dict)
    """Operation -> a type that it cannot be tuned in here, though the chip has it."""


def nothing_known(which: str, root: Path) -> Callable[[], Look]:
    """Of a device that tells neither its clock nor its power."""
    del which, root
    return lambda: (None, None, None)


def no_sizes(which: str, root: Path) -> Sizes:
    """Of a device that tells neither its cache nor its memory."""
    del which, root
    return None, None


@dataclass(frozen=True)
class Backend:
    """A code generator of IREE's: the flags that choose it, the devices that run its code, what is known of these.

    What is asked of a device takes what its URI calls it, and the folder that the machine's files are under. It never
    fails.
    """

    name: str
    """What IREE calls it."""
    hal_device: str
    """What `--iree-hal-target-device` calls its devices."""
    device: str
    """The device URI that runs its code, unless the user names another."""
    drivers: tuple[str, ...]
    """How URIs of devices that run its code may begin."""
    chip_flag: str
    """What takes the chip's name."""
    chip_prefix: str
    """How the names of its chips begin; empty: those of processors, which have nothing in common."""
    figures: Figures
    """How registers, spills and the like are read from what it makes."""
    executable_format: str
    """What IREE calls the executables that it makes; empty: a processor's says which."""
    remedy: str
    """What a user does when none of its devices answers."""
    describe_device: Callable[[str], DeviceFacts]
    """What is known of the device that its URI calls so."""
    chips: tuple[Chip, ...] = ()
    spec_flag: str = TUNING_SPEC
    """What takes a tuning spec. A backend may ignore the usual flag without a word."""
    more_flags: tuple[str, ...] = ()
    """What it needs beside the device and the chip."""
    settings: tuple[str, ...] = ()
    """The settings of whole programs that it has and others have not, by their names in `targets.knobs`."""
    routes: tuple[str, ...] = ()
    """What IREE's own flags may gain for a single problem; of processors the operation says which."""
    free_knobs: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """What IREE's constraints pin and the backend honours, with the values that give different code."""
    on_host: bool = False
    """Its code is for processors: it is compiled and timed on the same cores, microkernels are linked into it, and its
    space is declared here. Of other backends the compiler itself says which configurations are legal."""
    chip_there: Callable[[str], str | None] = lambda _: None
    """Where the driver compiles its code for the chip that is there: which, of the device that its URI calls so.
    An object made for a chip must fit it; None: it is the one that IREE compiles for."""
    assembled_on_load: bool = False
    """The driver assembles its code when a module is loaded: a tenth of a second or more, then kept in its cache."""
    sampler: Callable[[str, Path], Callable[[], Look]] = nothing_known
    """What looks at a device's clock, power and temperature."""
    sizes: Callable[[str, Path], Sizes] = no_sizes

    def flags(self, chip: str) -> tuple[str, ...]:
        """All that a compile for this chip needs."""
        return (f"{DEVICE_FLAG}={self.hal_device}", *self.more_flags, f"{self.chip_flag}={chip}")

    def owns(self, chip: str) -> bool:
        """Is this the name of one of its chips?"""
        return bool(self.chip_prefix) and chip.startswith(self.chip_prefix)

    def known(self, chip: str) -> Chip | None:
        """What is known of the chip of this name; a letter behind an NVIDIA chip's number is for code of that chip."""
        return next((one for one in self.chips if chip in (one.name, f"{one.name}a", f"{one.name}f")), None)

    def like(self, chip: str) -> Chip:
        """The same, or what is known of the chip that is called most like it."""
        alike = {one: [a == b for a, b in zip(one.name, chip, strict=False)] + [False] for one in self.chips}
        return self.known(chip) or replace(max(self.chips, key=lambda one: alike[one].index(False)), name=chip)
