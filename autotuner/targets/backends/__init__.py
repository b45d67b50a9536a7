"""All backends. A new one is a file beside these, and a line here."""

from autotuner.targets.backends.base import DEVICE_FLAG, LIBRARY, TUNING_SPEC, Backend, Chip, Peak
from autotuner.targets.backends.cuda import CUDA
from autotuner.targets.backends.llvm_cpu import LLVM_CPU
from autotuner.targets.backends.rocm import ROCM

BACKENDS = (LLVM_CPU, ROCM, CUDA)
CHOOSING = (
    DEVICE_FLAG,
    *(flag.partition("=")[0] for backend in BACKENDS for flag in backend.more_flags),
    *(backend.chip_flag for backend in BACKENDS if not backend.on_host),
)
"""Flags that choose the target, without the processor's name."""

__all__ = [
    "BACKENDS",
    "CHOOSING",
    "CUDA",
    "DEVICE_FLAG",
    "LIBRARY",
    "LLVM_CPU",
    "ROCM",
    "TUNING_SPEC",
    "Backend",
    "Chip",
    "Peak",
    "backend_of",
    "backend_on",
    "spec_flag_for",
]


def spec_flag_for(device: str) -> str:
    """The flag of a tuning spec, by the device in `--iree-hal-target-device`."""
    return next((one.spec_flag for one in BACKENDS if device.startswith(one.hal_device)), TUNING_SPEC)


def backend_on(uri: str) -> Backend | None:
    """The backend of a device URI, or the first of several; None: unknown."""
    first = uri.partition(",")[0]
    driver = first.partition("://")[0].partition("#")[0]  # a processor's second process, as `naming` calls it
    return next((backend for backend in BACKENDS if driver in backend.drivers), None)


def backend_of(chip: str) -> Backend:
    """The backend of a chip; a name of no GPU is a processor's."""
    return next((backend for backend in BACKENDS if backend.owns(chip)), LLVM_CPU)
