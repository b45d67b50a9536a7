"""AMD's GPUs."""

from __future__ import annotations

from autotuner.system import machine
from autotuner.targets.backends.base import Backend, DeviceFacts


def _describe(which: str) -> DeviceFacts:
    """By rocm-smi, or by amd-smi where a newer ROCm has only that. Keys differ between versions in case."""
    card = which if which.isdecimal() else "0"
    facts = machine.leaves(["rocm-smi", "-d", card, "--showproductname", "--showdriverversion", "--json"])
    if not facts:
        facts = machine.leaves(["amd-smi", "static", "--gpu", card, "--asic", "--driver", "--json"])
    return DeviceFacts(
        name=facts.get("card series") or facts.get("market_name") or "",
        driver=facts.get("driver version") or facts.get("version") or "",
    )


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
    describe_device=_describe,
    remedy="Install ROCm's runtime, or tune with --device none.",
)
