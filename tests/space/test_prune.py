"""The rules: what each rejects, in numbers from failed builds and compared binaries, and what it lets through."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from autotuner.problems import Gemm
from autotuner.space.gpu import GpuSpace
from autotuner.space.prune import (
    FEW_REGISTERS,
    IDLE_REQUEST,
    REGISTERS,
    RULES,
    SHARED_MEMORY,
    STRIDED,
    TORN_SCORES,
    UNDERIVABLE,
    UNSWIZZLED,
    WIDENED,
    Kernel,
    Rule,
    Tile,
    apply,
)
from autotuner.targets.backends import CUDA, ROCM, Chip
from tests.space.conftest import Emit

MI300, NAVI31 = ROCM.like("gfx942"), ROCM.like("gfx1100")
A100 = CUDA.like("sm_80")


def number(value: int) -> np.ndarray:
    return np.array([value], np.int64)


def tile(*shape: int, bits: int = 16) -> Tile:
    return Tile(tuple(number(size) for size in shape), bits)


def kernel(m: int, n: int, k: int, threads: int, *, chip: Chip = MI300, derived: bool = False) -> Kernel:
    """A matrix product of f16 with f32 accumulators."""
    promoted = (tile(m, k), tile(k, n))
    return Kernel(
        chip=chip,
        threads=number(threads),
        promoted=promoted,
        accumulators=(tile(m, n, bits=32),),
        shared=promoted[0].bytes + promoted[1].bytes,
        derived=derived,
    )


@pytest.mark.parametrize(
    ("shape", "threads", "works"),
    [
        ((32, 80), 256, False),  # 10 vectors a row
        ((80, 32), 128, False),  # rows: 4 vectors, then 80 rows over 32 threads
        ((32, 64), 64, True),
        ((16, 16), 256, True),  # one element each
        ((1, 1, 32, 256), 256, True),
        ((64, 64), 96, False),
    ],
)
def test_a_promoted_operand_must_spread_evenly_over_the_threads(
    shape: tuple[int, ...], threads: int, works: bool
) -> None:
    base = kernel(64, 64, 64, threads, derived=True)
    assert bool(UNDERIVABLE.rejects(replace(base, promoted=(tile(*shape),))).all()) != works
    # TileAndFuse masks what is left over.
    assert not UNDERIVABLE.rejects(replace(base, promoted=(tile(*shape),), derived=False)).any()


@pytest.mark.parametrize(
    ("rule", "field", "bad", "good"),
    [
        (STRIDED, "strided", True, False),
        (SHARED_MEMORY, "shared", number(65537), number(65536)),
        (WIDENED, "widened", number(1), number(0)),
        (UNSWIZZLED, "unswizzled", number(1), number(0)),
        (TORN_SCORES, "scores", (number(16), number(32)), (number(64), number(32))),
    ],
    ids=["stride", "memory", "accumulator", "swizzle", "scores"],
)
def test_what_the_compiler_cannot_build_is_left_out_and_no_more(rule: Rule, field: str, bad: Any, good: Any) -> None:
    base = kernel(64, 64, 64, 256)
    assert rule.rejects(replace(base, **{field: bad})).all()
    assert not rule.rejects(replace(base, **{field: good})).any()
    assert not rule.rejects(base).any()


@pytest.mark.parametrize(
    ("m", "n", "threads", "chip", "waves", "spills"),
    [
        (256, 256, 128, MI300, 0, True),  # 512 accumulators
        (128, 256, 128, MI300, 0, False),
        (256, 256, 512, MI300, 0, False),  # 128 of 256, with two waves on each SIMD
        (512, 256, 1024, MI300, 0, True),  # 128 of 128, with four
        (128, 128, 64, NAVI31, 0, True),
        (128, 64, 64, NAVI31, 0, False),
        (128, 256, 128, A100, 0, True),
        (128, 128, 128, A100, 0, False),
        (128, 64, 256, MI300, 4, False),
        (256, 128, 256, MI300, 4, True),
    ],
)
def test_accumulators_must_leave_registers(m: int, n: int, threads: int, chip: Chip, waves: int, spills: bool) -> None:
    base = replace(kernel(m, n, 8, threads, chip=chip), waves=number(waves))
    assert bool(REGISTERS.rejects(base).all()) == spills


def test_a_prefetch_holds_operands_in_registers() -> None:
    base = kernel(128, 128, 128, 64, chip=NAVI31)
    small = replace(base, accumulators=(tile(16, 16, bits=32),))
    assert not REGISTERS.rejects(small).any()
    assert REGISTERS.rejects(replace(small, staged=number(65536))).all()


def test_what_any_rule_rejects_is_left_out() -> None:
    both = replace(kernel(512, 512, 64, 128), shared=np.array([[70000], [70000], [1000]]), waves=number(0))
    assert apply(both, (SHARED_MEMORY,), shape=(3, 2)).tolist() == [[False] * 2, [False] * 2, [True] * 2]
    assert not apply(both, RULES, shape=(3, 2)).any()


# --- what gives the code of another: in numbers that come from compared binaries ------------------------------------


def product(m: int, n: int, k: int, threads: int, *, chip: Chip = MI300) -> Kernel:
    return replace(kernel(m, n, k, threads, chip=chip), product=True)


def waves(base: Kernel, count: int) -> Kernel:
    return replace(base, waves=number(count))


@pytest.mark.parametrize(
    ("shape", "threads", "count", "idle"),
    [
        ((256, 32, 32), 256, 4, True),  # 18 KiB: three workgroups of a wave on each SIMD
        ((256, 32, 32), 256, 3, False),
        ((64, 128, 32), 128, 4, True),  # 12 KiB: five workgroups of two waves, ten on four SIMDs
        ((64, 128, 32), 128, 3, False),  # three on one of them: it gives other code
    ],
)
def test_more_waves_than_shared_memory_has_room_for_change_nothing(
    shape: tuple[int, int, int], threads: int, count: int, idle: bool
) -> None:
    base = waves(product(*shape, threads), count)
    assert IDLE_REQUEST.rejects(base).all() == idle
    assert not IDLE_REQUEST.rejects(replace(base, chip=NAVI31)).any()


def test_two_waves_change_nothing_where_registers_are_enough() -> None:
    few, many = product(64, 512, 16, 256), product(64, 512, 16, 128)  # 128 and 256 accumulators in a thread
    assert FEW_REGISTERS.rejects(waves(few, 2)).all()
    assert not FEW_REGISTERS.rejects(waves(few, 3)).any()
    assert not FEW_REGISTERS.rejects(waves(many, 2)).any()
    assert not FEW_REGISTERS.rejects(waves(replace(few, staged=number(4 * 256)), 2)).any()
    assert not FEW_REGISTERS.rejects(waves(replace(few, product=False), 2)).any()  # one of five convolutions differed


def test_what_is_left_out_has_a_twin_that_stays(emit: Emit) -> None:
    text = emit(Gemm.parse(shape="64x128x128"), "gfx942")
    every = GpuSpace.read(text, backend=ROCM, rules=RULES).space
    gpu = GpuSpace.read(text, backend=ROCM)
    left_out = [config for config in every if config not in gpu.space]
    assert len(left_out) == len(every) - len(gpu.space) > 0
    for config in left_out[:: max(len(left_out) // 50, 1)]:
        twin = {**config.as_dict(), "waves_per_eu": 0}
        assert gpu.space[gpu.space.nearest(twin)].as_dict() == twin
