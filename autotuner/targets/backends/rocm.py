"""AMD's GPUs."""

from __future__ import annotations

from autotuner.targets.backends.base import Backend

ROCM = Backend(
    name="rocm",
    hal_device="hip",
    device="hip",
    drivers=("hip", "rocm"),
    chip_flag="--iree-rocm-target",
    chip_prefix="gfx",
    executable_format="rocm-hsaco-fb",
    figures="remarks",
    vendor="amd",
    remedy="Install ROCm's runtime, or tune with --device none.",
)
