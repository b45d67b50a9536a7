"""What a backend of IREE's compiler is to this package: all that is particular about one is said in its file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from autotuner.iree.isa import Figures

TUNING_SPEC = "--iree-codegen-tuning-spec-path"
LIBRARY = "--iree-codegen-transform-dialect-library"
DEVICE_FLAG = "--iree-hal-target-device"
Vendor = Literal["amd", "nvidia"]


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """A device as its driver's own tool describes it."""

    name: str = ""
    driver: str = ""
    mhz: float | None = None


UNKNOWN = DeviceFacts()


@dataclass(frozen=True)
class Backend:
    """A code generator of IREE's: the flags that choose it, the devices that run its code, what is known of these."""

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
    spec_flag: str = TUNING_SPEC
    """What takes a tuning spec. A backend may ignore the usual flag without a word."""
    more_flags: tuple[str, ...] = ()
    """What it needs beside the device and the chip."""
    vendor: Vendor | None = None
    """Whose GPU, where the compiler itself says which configurations are legal; None: the space is declared here."""
    on_host: bool = False
    """Its code is for processors: it is compiled and timed on the same cores, and microkernels are linked into it."""
    chip_there: Callable[[str], str | None] = lambda _: None
    """Where the driver compiles its code for the chip that is there: which, of the device that its URI calls so.
    An object made for a chip must fit it; None: it is the one that IREE compiles for."""

    assembled_on_load: bool = False
    """The driver assembles its code when a module is loaded: a tenth of a second or more, then kept in its cache."""

    def flags(self, chip: str) -> tuple[str, ...]:
        """All that a compile for this chip needs."""
        return (f"{DEVICE_FLAG}={self.hal_device}", *self.more_flags, f"{self.chip_flag}={chip}")

    def owns(self, chip: str) -> bool:
        """Is this the name of one of its chips?"""
        return bool(self.chip_prefix) and chip.startswith(self.chip_prefix)
