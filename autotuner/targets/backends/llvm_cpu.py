"""Processors, by LLVM."""

from __future__ import annotations

from autotuner.system import machine
from autotuner.targets.backends.base import Backend, DeviceFacts

CPU_FLAG = "--iree-llvmcpu-target-cpu"
LLVM_CPU = Backend(
    name="llvm-cpu",
    hal_device="local",
    device="local-task",
    drivers=("local-task", "local-sync", "local"),
    chip_flag=CPU_FLAG,
    chip_prefix="",
    more_flags=("--iree-hal-local-target-device-backends=llvm-cpu",),
    executable_format="",
    figures="code",
    remedy="Reinstall iree-base-runtime.",
    describe_device=lambda _: DeviceFacts(machine.processor()),  # whichever of its executors it is
    on_host=True,
)
