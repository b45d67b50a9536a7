"""Attention: what it is called, and what a right answer is."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from autotuner.measure.check import compare
from autotuner.problems import Array
from autotuner.problems.attention import Attention


def naive(attention: Attention, query: Array, key: Array, value: Array) -> Array:
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
def test_the_reference_is_the_definition(shape: str, causal: bool) -> None:
    attention = Attention.parse(shape=shape, dtype="f32", causal=causal)
    inputs = attention.inputs(seed=3)
    np.testing.assert_allclose(attention.reference(inputs), naive(attention, *inputs), rtol=1e-6)


@pytest.mark.parametrize("flops", [0.0, 1e99], ids=["in float32", "in float64"])
def test_blocks_of_queries_and_narrower_sums_change_no_reference(flops: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autotuner.problems.attention._BLOCK", 2)
    monkeypatch.setattr("autotuner.problems.base._EXACT_REFERENCE_FLOPS", flops)
    attention = Attention.parse(shape="2x3x5x7x4", dtype="f16", causal=True)
    inputs, whole = attention.inputs(seed=3), attention.whole_inputs(seed=4)
    np.testing.assert_allclose(attention.reference(inputs), naive(attention, *inputs), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(attention.reference(whole), naive(attention, *whole), rtol=1e-12, atol=1e-12)


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


def test_name_flops_and_types_say_what_it_is() -> None:
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
