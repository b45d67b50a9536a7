"""Where a model's time goes: what its dispatches are, that the parts add up, and what is said of them."""

from __future__ import annotations

import pytest

from autotuner.iree.run import DispatchTime
from autotuner.programs.breakdown import (
    ATTENTION,
    BETWEEN,
    CONV,
    GEMM,
    MICROKERNEL,
    OTHER,
    PACKING,
    Breakdown,
    TimeTable,
    kind_of,
)

TIMES = {
    "main$async_dispatch_0_conv_8x8x8x3x3x3_f32": DispatchTime(400.0),
    "main$async_dispatch_1_matmul_like_16x64x8_f32": DispatchTime(300.0),
    "main$async_dispatch_2_reduction_8x16_f32": DispatchTime(100.0),
}


@pytest.mark.parametrize(
    ("export", "kind"),
    [
        ("main_dispatch_0_conv_16x16x32x3x3x16_f32", CONV),
        ("main_dispatch_0_depthwise_conv_2d_nhwc_hwc_1x8x8x4_f32", CONV),
        ("main_dispatch_1_matmul_64x64x128_f32", GEMM),
        ("main$async_dispatch_2_matmul_like_16x64x8_f32", GEMM),
        ("main_dispatch_2_mmt4d_4x8x96x16x16x1_f32", GEMM),
        ("main_dispatch_2_batch_matmul_2x8x8x8_f32", GEMM),
        ("main_dispatch_2_matvec_like_8x8_f32", GEMM),
        ("main_dispatch_6_attention_2x6x4xf32_generic", ATTENTION),
        ("main_dispatch_3_unpack_elementwise_64x128_f32_pack", PACKING),
        ("_encoding_0_encode_96x128xf32_to_96x128xf32", PACKING),
        ("main_dispatch_4_slow_memcpy", PACKING),
        ("main_dispatch_7_elementwise_transpose_8x2x8_f32", OTHER),
        ("main_dispatch_1_reduction_8x16_f32", OTHER),
        ("main_dispatch_11_softmax_2x8x8xf32_generic", OTHER),
        ("main_dispatch_11_pooling_nhwc_max_1x8x8x4x2x2_f32", OTHER),
        ("main_dispatch_11", OTHER),
        ("sgemm_c", MICROKERNEL),
    ],
)
def test_a_dispatch_is_told_by_the_name_that_the_compiler_gave_it(export: str, kind: str) -> None:
    assert kind_of(export) == kind


def test_the_parts_add_up_to_the_model_and_the_rest_is_between_dispatches() -> None:
    found = Breakdown.from_statistics(TIMES, 1000.0)
    told = {kind: us for kind, us in found.parts.items() if us}
    assert told == {CONV: 400.0, GEMM: 300.0, OTHER: 100.0, BETWEEN: 200.0}
    assert Breakdown.from_statistics(TIMES, 400.0).parts[BETWEEN] == 0.0, "statistics cost time, too"


def test_before_and_after_stand_side_by_side() -> None:
    after = Breakdown.from_statistics({"main_dispatch_0_mmt4d_4x8_f32": DispatchTime(250.0)}, 500.0)
    table = TimeTable(Breakdown.from_statistics(TIMES, 1000.0), after)
    assert table.short() == "gemm 50%, launch and waiting 50% (best, by the runtime's statistics)"
    half = TimeTable(Breakdown.from_statistics(TIMES, 1000.0))
    assert half.short().startswith("conv 40%, gemm 30%"), "a side that nothing tells is left open"
    assert (bool(TimeTable()), TimeTable().to_json()) == (False, None)
    document = table.to_json()
    assert document is not None
    assert document["after"]["parts"] == [{"kind": GEMM, "us": 250.0}, {"kind": BETWEEN, "us": 250.0}]
