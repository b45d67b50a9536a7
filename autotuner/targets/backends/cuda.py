"""NVIDIA's GPUs: PTX, which the driver compiles for the chip that is there."""

from __future__ import annotations

from autotuner.system import machine
from autotuner.targets.backends.base import LIBRARY, UNKNOWN, Backend, DeviceFacts


def _describe(which: str) -> DeviceFacts:
    query = ["--query-gpu=name,driver_version,clocks.sm", "--format=csv,noheader,nounits", f"--id={which}"]
    fields = [field.strip() for field in machine.output(["nvidia-smi", *query]).partition("\n")[0].split(",")]
    return DeviceFacts(fields[0], fields[1], machine.number(fields[2])) if len(fields) == 3 else UNKNOWN


def _chip_there(which: str) -> str | None:
    """sm_90 and the like; None where nobody tells."""
    text = machine.output(["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader", f"--id={which}"])
    digits = text.partition("\n")[0].strip().replace(".", "")
    return f"sm_{digits}" if digits.isdigit() else None


CUDA = Backend(
    name="cuda",
    hal_device="cuda",
    device="cuda",
    drivers=("cuda",),
    chip_flag="--iree-cuda-target",
    chip_prefix="sm_",
    spec_flag=LIBRARY,  # IREE takes the flag of tuning specs here and does nothing
    executable_format="cuda-nvptx-fb",
    figures="ptxas",
    vendor="nvidia",
    describe_device=_describe,
    chip_there=_chip_there,
    assembled_on_load=True,
    remedy="Install NVIDIA's driver, or tune with --device none.",
)
