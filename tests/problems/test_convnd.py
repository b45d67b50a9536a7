"""Convolutions of one to three dimensions and their gradients: one bilinear form, seen from three sides."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from autotuner.errors import UsageError
from autotuner.problems.conv import Conv
from autotuner.problems.convnd import ConvNd

FORMS = [
    {"shape": "2x9x8x6", "filter": "3x2x4"},
    {"shape": "2x9x8x6", "filter": "3x3x4", "stride": "2x1", "pad": "1x1"},
    {"shape": "1x5x6x7x4", "filter": "2x3x3x6", "groups": "2", "pad": "1x0x1", "dilation": "1x2x1"},
    {"shape": "2x11x6", "filter": "3x4", "stride": "2"},
]


@pytest.mark.parametrize("words", FORMS, ids=lambda words: words["shape"])
def test_the_gradients_are_those_of_the_forward_direction(words: dict[str, str]) -> None:
    """With y = conv(x, w), the sum of dy * y is that of x and the data's gradient, and of w and the weight's."""
    forward = ConvNd.from_words({**words, "dtype": "f32"})
    image, weights = forward.inputs(1)
    results = forward.reference((image, weights))
    made = replace(forward, direction="data").inputs(2)[0]
    assert made.shape == results.shape
    whole = float((made * results).sum())
    assert abs(whole) > 1e-3
    data = replace(forward, direction="data").reference((made, weights))
    weight = replace(forward, direction="weight").reference((image, made))
    assert np.isclose((image * data).sum(), whole, rtol=1e-12)
    assert np.isclose((weights * weight).sum(), whole, rtol=1e-12)


def test_two_dimensions_forward_are_those_of_conv() -> None:
    words = {"shape": "2x9x8x6", "stride": "2x1", "pad": "1x1", "dtype": "f32"}
    own, plain = ConvNd.from_words({**words, "filter": "3x3x4"}), Conv.from_words({**words, "filter": "3x3x4"})
    image, weights = own.inputs(1)
    np.testing.assert_allclose(
        own.reference((image, weights)), plain.reference((image, weights.transpose(1, 2, 3, 0))), rtol=1e-12
    )
    assert own.flops == plain.flops


def test_one_group_has_the_constraints_of_all() -> None:
    grouped = ConvNd.parse(shape="1x8x8x6", filter="3x3x4", groups=2)
    assert grouped.unbatched() == (ConvNd.parse(shape="1x8x8x3", filter="3x3x2"), 1)
    assert ConvNd.parse(shape="1x8x8x6", filter="3x3x4").unbatched()[1] == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"shape": "2x6", "filter": "3x4"}, "is not NxDxHxWxC"),
        ({"shape": "1x2x3x4x5x6", "filter": "3x4"}, "is not NxDxHxWxC"),
        ({"shape": "1x8x8x4", "filter": "3x3x3x4"}, "--filter"),
        ({"shape": "1x8x8x4", "filter": "3x3x4", "direction": "back"}, "unknown direction 'back'"),
        ({"shape": "1x8x8x4", "filter": "3x3x4", "stride": "2"}, "--stride"),
        ({"shape": "1x8x8x4", "filter": "3x3x4", "groups": "3"}, "does not divide"),
        ({"shape": "1x2x2x4", "filter": "3x3x4"}, "is larger than the image"),
    ],
)
def test_words_that_make_no_convolution_are_refused(words: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        ConvNd.from_words(words)
