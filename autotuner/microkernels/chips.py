"""What a chip is to a microkernel: its units, threads that go in step, how wide vectors are, whose object it takes."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from autotuner.microkernels.isa import choose_isa
from autotuner.targets.backends import backend_of

_PTX = re.compile(r"sm_(\d+)")


def object_for(chip: str, there: Sequence[str]) -> str | None:
    """This very chip's; else, as NVIDIA's driver translates PTX for later chips, that of the nearest earlier one."""
    if chip in there:
        return chip
    wanted = _PTX.fullmatch(chip)
    earlier = [
        int(found[1]) for found in map(_PTX.fullmatch, there) if found and wanted and int(found[1]) < int(wanted[1])
    ]
    return f"sm_{max(earlier)}" if earlier else None


def is_gpu(chip: str) -> bool:
    return not backend_of(chip).on_host


def subgroup_of(chip: str) -> int:
    """How many threads go in step: 64 on CDNA, 32 on RDNA and NVIDIA, 1 on processors."""
    return backend_of(chip).like(chip).subgroup if is_gpu(chip) else 1


def units_of(chip: str) -> int:
    """Its compute units, or SMs; 1 on processors."""
    return backend_of(chip).like(chip).units if is_gpu(chip) else 1


def lanes_of(chip: str, features: Collection[str] = ()) -> int:
    """How many f32 the vectors have that a kernel in C is compiled for; 1 on GPUs."""
    return 1 if is_gpu(chip) else choose_isa(chip, features).lanes
