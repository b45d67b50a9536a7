"""Products, convolutions and attention: what each is called, and what a right answer is."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from autotuner.measure.check import compare
from autotuner.problems import Array, Gemm
from autotuner.problems.attention import Attention
from autotuner.problems.conv import LAYOUTS as CONV_LAYOUTS
from autotuner.problems.conv import Conv
from autotuner.problems.dtypes import type_name
from autotuner.problems.gemm import LAYOUTS

DTYPES = ("f32", "f16", "bf16", "i8", "f8")


def test_the_name_flops_and_bytes_of_a_product() -> None:
    gemm = Gemm.parse(shape="512X256x1024", dtype="f16")
    assert gemm.name == "gemm_512x256x1024_f16_f32_nn"
    assert gemm.flops == 2 * 512 * 256 * 1024
    assert gemm.bytes == 2 * (512 * 1024 + 1024 * 256) + 4 * 512 * 256
    assert gemm.describe() == {"op": "gemm", "name": gemm.name, "flops": gemm.flops, "bytes": gemm.bytes}
    spelt = Gemm.parse(shape="512, 256,1024", dtype="float16", acc="fp32", out="half")
    assert (spelt.name, spelt.dtype) == ("gemm_512x256x1024_f16_f32_f16_nn", "f16")
    assert [type_name(word) for word in ("fp8", "bfloat16", "int8", "F16")] == ["f8", "bf16", "i8", "f16"]
    batched = Gemm.parse(shape="4x8x16", dtype="i8", batch=3, layout="tn")
    assert batched.name == "gemm_3x4x8x16_i8_i32_tn"
    assert batched.flops == 3 * 2 * 4 * 8 * 16
    assert batched.bytes == 3 * (4 * 16 + 16 * 8 + 4 * 4 * 8)


def test_one_batch_entry_is_the_same_problem_with_a_loop_less() -> None:
    batched = Gemm(4, 8, 16, batch=3)
    assert batched.unbatched() == (Gemm(4, 8, 16), 1)
    assert Gemm(4, 8, 16).unbatched() == (Gemm(4, 8, 16), 0)


def naive_product(gemm: Gemm, a: Array, b: Array) -> Array:
    """The product from the operands as they lie in memory, by subscripts alone."""
    lead = "b" if gemm.batch > 1 else ""
    left = "mk" if gemm.layout[0] == "n" else "km"
    right = "kn" if gemm.layout[1] == "n" else "nk"
    product: Array = np.einsum(
        f"{lead}{left},{lead}{right}->{lead}mn", a.astype(np.float64), b.astype(np.float64), optimize=False
    )
    return product


@pytest.mark.parametrize(("layout", "batch"), list(itertools.product(LAYOUTS, (1, 3))))
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_reference_is_the_product_of_the_operands_as_they_lie(dtype: str, layout: str, batch: int) -> None:
    gemm = Gemm.parse(shape="5x6x7", dtype=dtype, layout=layout, batch=batch)
    a, b = gemm.inputs(seed=1)
    expected = naive_product(gemm, a, b)
    reference = gemm.reference((a, b))
    assert reference.shape == gemm.output.shape == expected.shape
    np.testing.assert_allclose(reference, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", DTYPES)
def test_inputs_are_seeded_and_not_trivial(dtype: str) -> None:
    gemm = Gemm.parse(shape="32x32x64", dtype=dtype)
    a, b = gemm.inputs(seed=7)
    for array, operand in zip((a, b), gemm.operands[:2], strict=True):
        assert array.shape == operand.shape
        assert array.dtype == np.dtype(operand.element.numpy)
        values = array.astype(np.float64)
        assert np.isfinite(values).all()
        assert values.min() < 0 < values.max()
        assert len(np.unique(values)) > 64
    assert a.reshape(-1)[:16].tobytes() != b.reshape(-1)[:16].tobytes()
    assert [array.tobytes() for array in gemm.inputs(seed=7)] == [a.tobytes(), b.tobytes()]
    assert gemm.inputs(seed=8)[0].tobytes() != a.tobytes()


# --- convolutions -----------------------------------------------------------------------------------------------------


VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "padded": {"pad": "1x2"},
    "strided": {"stride": "2x1", "pad": "1x1"},
    "dilated": {"dilation": "1x2"},
    "grouped": {"groups": 2, "pad": "1x1"},
    "depthwise": {"groups": 4, "filter": "3x2x4", "stride": "1x2"},
    "multiplied": {"groups": 4, "filter": "3x2x8"},
    "1x1": {"filter": "1x1x6"},
}


def variant(name: str, layout: str, dtype: str = "f32") -> Conv:
    words = {"shape": "2x7x8x4", "filter": "3x2x6", **VARIANTS[name]}
    return Conv.parse(**words, dtype=dtype, layout=layout)


def naive_convolution(conv: Conv, image: Array, weights: Array) -> Array:
    """Straight from the definition, one output element at a time."""
    last = conv.layout == "nhwc-hwcf"
    height, width = conv.output_size
    per_in, per_out = conv.c // conv.groups, conv.f // conv.groups
    out = np.zeros(conv.output.shape)
    for n, y, x, f in itertools.product(range(conv.n), range(height), range(width), range(conv.f)):
        group, total = f // per_out, 0.0
        for ky, kx, c in itertools.product(range(conv.kh), range(conv.kw), range(per_in)):
            row = y * conv.stride[0] + ky * conv.dilation[0] - conv.pad[0]
            column = x * conv.stride[1] + kx * conv.dilation[1] - conv.pad[1]
            if not (0 <= row < conv.h and 0 <= column < conv.w):
                continue
            channel = group * per_in + c
            pixel = image[n, row, column, channel] if last else image[n, channel, row, column]
            if conv.groups == conv.c == conv.f:
                weight = weights[ky, kx, channel] if last else weights[channel, ky, kx]
            elif not last:
                weight = weights[f, c, ky, kx]
            else:
                weight = weights[group, f % per_out, ky, kx, c] if conv.groups > 1 else weights[ky, kx, c, f]
            total += float(pixel) * float(weight)
        out[(n, y, x, f) if last else (n, f, y, x)] = total
    return out


@pytest.mark.parametrize("layout", CONV_LAYOUTS)
@pytest.mark.parametrize("name", VARIANTS)
def test_the_reference_of_a_convolution_is_its_definition(name: str, layout: str) -> None:
    conv = variant(name, layout)
    image, weights = conv.inputs(seed=3)
    assert image.shape == conv.operands[0].shape
    np.testing.assert_allclose(conv.reference((image, weights)), naive_convolution(conv, image, weights), atol=1e-12)


def test_name_flops_and_types_say_what_a_convolution_is() -> None:
    conv = Conv.parse(shape="1x56x56x64", filter="3x3x128", pad="1x1", stride="2x2", dtype="i8", layout="nchw-fchw")
    assert conv.name == "conv_1x56x56x64_3x3x128_s2x2_p1x1_i8_nchw"
    assert conv.output.shape == (1, 128, 28, 28)
    assert conv.flops == 2 * 28 * 28 * 128 * 9 * 64
    assert conv.types == ("i8", "i32")
    assert conv.describe()["op"] == "conv"
    assert Conv.parse(shape="1x8x8x16", filter="3x3x16", groups=16).name == "conv_1x8x8x16_3x3x16_g16_f16_nhwc"


def test_a_result_is_rounded_behind_its_epilogue() -> None:
    conv = Conv.parse(shape="1x8x8x16", filter="3x3x16", out="f16", epilogue="bias,residual,relu")
    assert conv.name == "conv_1x8x8x16_3x3x16_f16_f16_nhwc_bias_residual_relu"
    assert [operand.element.name for operand in conv.operands] == ["f16", "f16", "f32", "f32", "f16"]
    assert "--out" in conv.arguments()
    assert Conv.parse(shape="1x8x8x16", filter="3x3x16", out="f32").out == ""


# --- attention --------------------------------------------------------------------------------------------------------


def naive_attention(attention: Attention, query: Array, key: Array, value: Array) -> Array:
    """One query at a time, over the keys that it may see."""
    out = np.zeros(attention.output.shape)
    for b, h, i in itertools.product(range(attention.batch), range(attention.heads), range(attention.queries)):
        seen = min(i + 1, attention.keys) if attention.causal else attention.keys
        scores = [
            float(query[b, h, i].astype(float) @ key[b, h, j].astype(float)) / np.sqrt(attention.width)
            for j in range(seen)
        ]
        weights = np.exp(scores) / np.exp(scores).sum()
        out[b, h, i] = sum(w * value[b, h, j].astype(float) for j, w in enumerate(weights))
    return out


@pytest.mark.parametrize("shape", ["2x3x5x7x4", "1x1x7x5x8", "1x2x1x9x4"])
@pytest.mark.parametrize("causal", [False, True])
def test_the_reference_of_attention_is_its_definition(shape: str, causal: bool) -> None:
    attention = Attention.parse(shape=shape, dtype="f32", causal=causal)
    inputs = attention.inputs(seed=3)
    np.testing.assert_allclose(attention.reference(inputs), naive_attention(attention, *inputs), rtol=1e-6)


@pytest.mark.parametrize("flops", [0.0, 1e99], ids=["in float32", "in float64"])
def test_blocks_of_queries_and_narrower_sums_change_no_reference(flops: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autotuner.problems.attention._BLOCK", 2)
    monkeypatch.setattr("autotuner.problems.base._EXACT_REFERENCE_FLOPS", flops)
    attention = Attention.parse(shape="2x3x5x7x4", dtype="f16", causal=True)
    inputs, whole = attention.inputs(seed=3), attention.whole_inputs(seed=4)
    np.testing.assert_allclose(attention.reference(inputs), naive_attention(attention, *inputs), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(attention.reference(whole), naive_attention(attention, *whole), rtol=1e-12, atol=1e-12)


def test_weights_are_far_from_uniform_so_that_a_wrong_mask_shows() -> None:
    plain = Attention.parse(shape="1x2x64x64x64", dtype="f16")
    causal = Attention.parse(shape="1x2x64x64x64", dtype="f16", causal=True)
    inputs = plain.inputs(seed=0)
    right, wrong = causal.reference(inputs), plain.reference(inputs)
    assert compare(right.astype(np.float16), right, causal.bound(inputs, right)).ok
    assert not compare(wrong.astype(np.float16), right, causal.bound(inputs, right)).ok
    assert np.linalg.norm(right - wrong) / np.linalg.norm(right) > 0.1
    mean = inputs[2].astype(float).mean(axis=2, keepdims=True)
    assert np.linalg.norm(wrong - mean) / np.linalg.norm(wrong) > 0.5


def test_name_flops_and_types_say_what_an_attention_is() -> None:
    attention = Attention.parse(shape="2x8x256x512x64", dtype="bf16")
    assert attention.name == "attention_2x8x256x512x64_bf16"
    assert attention.flops == 4 * 2 * 8 * 256 * 512 * 64
    assert attention.types == ("bf16", "f32")
    assert attention.output.text == "2x8x256x64xbf16"
    assert Attention.parse(shape="1x1x4x4x4", dtype="f8").output.element.mlir == "f32"


@pytest.mark.parametrize(("queries", "keys"), [(4, 4), (4, 7), (7, 4), (1, 9)])
def test_a_causal_problem_counts_the_pairs_that_are_seen(queries: int, keys: int) -> None:
    causal = Attention.parse(shape=f"1x1x{queries}x{keys}x2", causal=True)
    assert causal.name.endswith("_causal")
    assert causal.flops == 4 * 2 * int(np.tri(queries, keys).sum())


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
def test_a_softmax_without_the_largest_score_subtracted_is_found_out(dtype: str) -> None:
    """On random numbers alone it is right."""
    attention = Attention.parse(shape="1x2x8x16x64", dtype=dtype)
    query, key, value = (x.astype(np.float32) for x in attention.whole_inputs(seed=0))
    with np.errstate(all="ignore"):
        weights = np.exp(query @ key.swapaxes(-1, -2) / np.float32(8))
        out = weights @ value / weights.sum(axis=-1, keepdims=True)
    assert not np.isfinite(out).all()
