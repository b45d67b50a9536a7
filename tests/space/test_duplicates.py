"""Configurations that give the code of another: in numbers that come from compared binaries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from autotuner.space.gpu import Batch, GpuSpace
from autotuner.space.prune import (
    DUPLICATES,
    FEW_REGISTERS,
    IDLE_REQUEST,
    NO_PADDING,
    RULES,
    TURNED_LINE,
    Chip,
    Kernel,
    Tile,
)
from autotuner.space.table import Value
from autotuner.targets.backends import CUDA, ROCM

Emit = Callable[..., str]
MI300, NAVI31, A100 = Chip("gfx942", 65536, 4), Chip("gfx1100", 65536, 4), Chip("sm_80", 166912, 0)


def number(value: int) -> np.ndarray:
    return np.array([value], np.int64)


def kernel(m: int, n: int, k: int, threads: int, *, chip: Chip = MI300) -> Kernel:
    """A matrix product of f16 with f32 accumulators, without free knobs."""
    promoted = Tile((number(m), number(k)), 16), Tile((number(k), number(n)), 16)
    shared, none = promoted[0].bytes + promoted[1].bytes, number(0)
    sums = Tile((number(m), number(n)), 32)
    return Kernel(chip, number(threads), promoted, (sums,), shared, waves=none, stages=none, staged=none, product=True)


def waves(base: Kernel, count: int) -> Kernel:
    return replace(base, waves=number(count))


@pytest.mark.parametrize(
    ("shape", "threads", "count", "idle"),
    [
        ((256, 32, 32), 256, 4, True),  # 18 KiB: three workgroups of a wave on each SIMD
        ((256, 32, 32), 256, 3, False),
        ((64, 128, 32), 128, 4, True),  # 12 KiB: five workgroups of two waves, ten on four SIMDs
        ((64, 128, 32), 128, 3, False),  # three on one of them: it gives other code
        ((128, 32, 128), 128, 2, True),
        ((128, 128, 32), 256, 0, False),
    ],
)
def test_more_waves_than_shared_memory_has_room_for_change_nothing(
    shape: tuple[int, int, int], threads: int, count: int, idle: bool
) -> None:
    base = waves(kernel(*shape, threads), count)
    assert IDLE_REQUEST.rejects(base).all() == idle
    assert not IDLE_REQUEST.rejects(replace(base, chip=NAVI31)).any()


def test_two_waves_change_nothing_where_registers_are_enough() -> None:
    few, many = kernel(64, 512, 16, 256), kernel(64, 512, 16, 128)  # 128 and 256 accumulators in a thread
    assert FEW_REGISTERS.rejects(waves(few, 2)).all()
    assert not FEW_REGISTERS.rejects(waves(few, 3)).any()
    assert not FEW_REGISTERS.rejects(waves(many, 2)).any()
    assert not FEW_REGISTERS.rejects(waves(replace(few, staged=number(4 * 256)), 2)).any()
    assert not FEW_REGISTERS.rejects(waves(replace(few, product=False), 2)).any()  # one of five convolutions differed


def test_without_padding_is_the_same_where_nothing_is_padded() -> None:
    def unpadded(base: Kernel, *, padding: int) -> Kernel:
        return replace(base, unpadded=number(1), padding=number(padding))

    full = kernel(256, 64, 256, 128, chip=A100)  # 160 KiB of 163
    assert NO_PADDING.rejects(unpadded(full, padding=8 * 512)).all()
    assert not NO_PADDING.rejects(unpadded(full, padding=8 * 256)).any()
    assert NO_PADDING.rejects(unpadded(full, padding=0)).all()
    assert not NO_PADDING.rejects(unpadded(replace(full, product=False), padding=8 * 512)).any()
    assert not NO_PADDING.rejects(replace(unpadded(full, padding=8 * 512), unpadded=number(0))).any()


def test_workgroups_in_one_line_are_not_transposed(emit: Emit) -> None:
    text = emit("gemm", "sm_80", 64, 4096, 512)
    every = GpuSpace.read(text, backend=CUDA, rules=RULES).space.frame()
    gpu = GpuSpace.read(text, backend=CUDA)
    kept = gpu.space.frame()
    line = every[(every["reorder_workgroups"] == "transpose") & ((every["wg_0"] == 64) | (every["wg_1"] == 4096))]
    assert gpu.pruned[TURNED_LINE.reason] == len(line) > 0
    turned = kept[kept["reorder_workgroups"] == "transpose"]
    assert len(turned) > 0
    assert (turned["wg_0"] < 64).all()
    # The lines of several batch entries are beside each other: there the order matters.
    assert TURNED_LINE.reason not in GpuSpace.read(text, backend=CUDA, batch=Batch(1)).pruned


def test_what_is_left_out_has_a_twin_that_stays(emit: Emit) -> None:
    text = emit("gemm", "gfx942", 128, 256, 512)
    every = GpuSpace.read(text, backend=ROCM, rules=RULES).space
    gpu = GpuSpace.read(text, backend=ROCM)
    plain: dict[str, Value] = {
        "waves_per_eu": 0,
        "reorder_workgroups": "none",
        "no_reduce_shared_memory_bank_conflicts": 0,
    }
    left_out = [config for config in every if config not in gpu.space]
    assert len(left_out) == sum(gpu.pruned.get(rule.reason, 0) for rule in DUPLICATES) > 0
    for config in left_out[:: max(len(left_out) // 50, 1)]:
        values = config.as_dict()
        twins = [{**values, knob: value} for knob, value in plain.items() if values[knob] not in (value, -1)]
        both = {**values, **{knob: value for knob, value in plain.items() if values[knob] != -1}}
        assert any(gpu.space[gpu.space.nearest(twin)].as_dict() == twin for twin in [*twins, both])


def test_masks_are_of_the_shape_of_what_they_are_asked() -> None:
    base = replace(kernel(64, 64, 64, 256, chip=MI300), waves=np.array([[0, 2, 3, 4]], np.int64))
    assert IDLE_REQUEST.rejects(base).shape == (1, 4)
