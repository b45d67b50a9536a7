"""NVIDIA's GPUs: PTX, which the driver compiles for the chip that is there."""

from __future__ import annotations

from autotuner.targets.backends.base import LIBRARY, Backend

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
    object_runs_elsewhere=True,
    remedy="Install NVIDIA's driver, or tune with --device none.",
)
