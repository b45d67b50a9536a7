"""Convolution: what it is called, and what a right answer is."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from autotuner.problems import Array
from autotuner.problems.conv import LAYOUTS, Conv

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


def naive(conv: Conv, image: Array, weights: Array) -> Array:
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


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", VARIANTS)
def test_the_reference_is_the_definition(name: str, layout: str) -> None:
    conv = variant(name, layout)
    image, weights = conv.inputs(seed=3)
    assert image.shape == conv.operands[0].shape
    np.testing.assert_allclose(conv.reference((image, weights)), naive(conv, image, weights), atol=1e-12)


def test_name_flops_and_types_say_what_it_is() -> None:
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
