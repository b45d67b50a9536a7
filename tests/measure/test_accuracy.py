"""Honest kernels of every type pass whatever their order of summation; lower precision and missing work do not."""

from __future__ import annotations

import numpy as np
import pytest

from autotuner.errors import UsageError
from autotuner.measure.check import compare
from autotuner.problems import Array, Gemm
from autotuner.problems.accuracy import Bound, Precision, known_precision, lower_precision
from autotuner.problems.attention import Attention
from autotuner.problems.conv import Conv
from tests.support.simulated_kernels import TYPES, accumulated, honest, in_14_bits, judged, wrong

DEPTHS = (1, 2, 7, 64, 1000, 4096)


def gemm(k: int, dtype: str, acc: str) -> Gemm:
    return Gemm.parse(shape=f"24x24x{k}", dtype=dtype, acc=acc)


@pytest.mark.parametrize("k", DEPTHS)
@pytest.mark.parametrize(("dtype", "acc"), TYPES)
def test_every_honest_order_of_summation_passes(dtype: str, acc: str, k: int) -> None:
    problem = gemm(k, dtype, acc)
    for name, kernel in honest(problem).items():
        for seed in range(3 if k < max(DEPTHS) else 1):
            assert judged(problem, kernel, seed=seed).passed, (name, seed)


@pytest.mark.parametrize("k", [7, 1024, 4096])
@pytest.mark.parametrize(("dtype", "acc"), TYPES)
def test_no_wrong_kernel_passes(dtype: str, acc: str, k: int) -> None:
    problem = gemm(k, dtype, acc)
    for name, kernel in wrong(problem).items():
        assert not judged(problem, kernel, seed=1).passed, name


@pytest.mark.parametrize("name", ["f16 inputs", "TF32 inputs", "bf16 inputs"])
def test_lower_precision_shows_on_random_inputs_of_the_largest_sums(name: str) -> None:
    problem = gemm(65536, "f32", "f32")
    assert not judged(problem, wrong(problem)[name], seed=2).random


@pytest.mark.parametrize(("dtype", "acc"), [("f32", "f32"), ("f16", "f32"), ("bf16", "f32"), ("f8", "f32")])
def test_one_missing_product_of_the_largest_sums_shows_on_both_inputs(dtype: str, acc: str) -> None:
    problem = gemm(65536, dtype, acc)
    verdict = judged(problem, wrong(problem)["one product missing"], seed=2)
    assert (verdict.random, verdict.whole) == (False, False)


def test_the_bound_is_near_what_rounding_one_by_one_really_gives() -> None:
    """A bound ten times too wide would show here, and so would one that is too narrow."""
    for k in (16, 256, 4096):
        problem = gemm(k, "f32", "f32")
        inputs = problem.inputs(0)
        reference = problem.reference(inputs)
        deviation = problem.bound(inputs, reference).deviation
        ratio = np.sqrt(np.mean(np.square((accumulated(*inputs) - reference) / deviation)))
        assert 0.8 < ratio < 1.2


def test_elements_of_very_different_size_have_bounds_of_their_own() -> None:
    problem = gemm(256, "f32", "f32")
    a, b = problem.inputs(0)
    a[5] *= np.float32(1e-6)
    reference = problem.reference((a, b))
    out = reference.astype(np.float32)
    bound = problem.bound((a, b), reference)
    assert compare(out, reference, bound).ok
    out[5, 7] *= np.float32(1.0001)
    assert not compare(out, reference, bound).ok


@pytest.mark.parametrize(("dtype", "acc", "k"), [("f32", "f32", 65536), ("f16", "f32", 4096), ("f16", "f16", 65536)])
def test_whole_numbers_have_no_zero_and_their_sums_are_exact_in_the_accumulator(dtype: str, acc: str, k: int) -> None:
    problem = gemm(k, dtype, acc)
    inputs = problem.whole_inputs(3)
    assert inputs is not None
    assert all(np.abs(x.astype(np.float32)).min() > 0 for x in inputs)
    exact = problem.reference(inputs)
    assert np.array_equal(accumulated(*inputs, acc=acc), exact)
    assert np.array_equal(accumulated(*inputs, acc=acc, step=16, parts=4), exact)


@pytest.mark.parametrize("allow", ["tf32", "f16"])
def test_lower_precision_passes_where_the_user_allows_it(allow: str) -> None:
    problem = gemm(1024, "f32", "f32").allowing(allow)
    kernels = wrong(problem)
    assert judged(problem, kernels["TF32 inputs"], seed=4).passed
    assert judged(problem, kernels["summed in f16"], seed=4).passed == (allow == "f16")
    for name in ("one product missing", "16 products missing in the last 5 rows", "one element of its neighbour"):
        assert not judged(problem, kernels[name], seed=4).passed, name
    assert problem.describe()["allow_precision"] == allow
    assert problem.arguments()[-2:] == ("--allow-precision", allow)


@pytest.mark.parametrize("k", [256, 4096, 16384])
def test_short_sums_of_f8_pass_where_the_user_allows_them_and_nothing_wrong_does(k: int) -> None:
    problem = gemm(k, "f8", "f32").allowing("f16")
    assert judged(problem, in_14_bits, seed=4).passed
    for name in ("one product missing", "16 products missing in the last 5 rows", "one element of its neighbour"):
        assert not judged(problem, wrong(problem)[name], seed=4).passed, name


@pytest.mark.parametrize(("dtype", "allow"), [("i8", "f16"), ("f16", "tf32"), ("f8", "tf32")])
def test_a_precision_that_is_no_lower_is_refused(dtype: str, allow: str) -> None:
    with pytest.raises(UsageError, match="is not below"):
        Gemm.parse(shape="4x4x4", dtype=dtype).allowing(allow)
    with pytest.raises(UsageError, match="unknown --allow-precision 'bf8'"):
        Gemm.parse(shape="4x4x4", dtype=dtype).allowing("bf8")


@pytest.mark.parametrize(
    ("wanted", "dtype", "acc", "lower"),
    [
        ("", "f32", "f32", True),
        ("tf32", "f32", "f32", True),
        ("tf32", "f16", "f32", False),
        ("f16", "f32", "f32", True),
        ("f16", "f16", "f32", True),
        ("f16", "bf16", "f32", True),
        ("f16", "f16", "f16", False),
        ("f16", "f8", "f32", True),
        ("f16", "i8", "i32", False),
    ],
)
def test_a_precision_is_lower_where_the_types_leave_something_to_give_away(
    wanted: Precision, dtype: str, acc: str, lower: bool
) -> None:
    assert lower_precision(wanted, dtype=dtype, acc=acc) == (wanted if lower else "")


def test_no_precision_is_a_known_one() -> None:
    assert known_precision(None) == known_precision("") == ""
    with pytest.raises(UsageError) as caught:
        known_precision("f8")
    assert caught.value.remedy == "Choose one of: tf32, f16."


def test_a_convolution_that_misses_one_product_at_the_border_is_refused() -> None:
    conv = Conv.parse(shape="1x9x9x64", filter="3x3x16", pad="1x1", dtype="f16")
    for inputs in (conv.inputs(0), conv.whole_inputs(0)):
        assert inputs is not None
        reference = conv.reference(inputs)
        bound = conv.bound(inputs, reference)
        out = reference.astype(np.float32)
        assert compare(out, reference, bound).ok
        image, weights = (x.astype(np.float64) for x in inputs)
        out[0, 0, 0, 3] -= np.float32(image[0, 0, 0, 5] * weights[1, 1, 5, 3])
        assert not compare(out, reference, bound).ok


# --- attention ----------------------------------------------------------------------------------------------------


def attended(attention: Attention, inputs: tuple[Array, ...], *, weights_in: str, skip: int | None = None) -> Array:
    """As kernels do it: scores in f32, weights rounded to the operands' type, sums in f32."""
    query, key, value = (x.astype(np.float32) for x in inputs)
    scores = query @ key.swapaxes(-1, -2) / np.float32(np.sqrt(attention.width))
    if attention.causal:
        scores = np.where(np.tri(attention.queries, attention.keys, dtype=bool), scores, -np.inf)
    if skip is not None:
        scores[..., skip] = -np.inf
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True), dtype=np.float32)
    narrow = weights.astype(weights_in).astype(np.float32)
    out: Array = narrow @ value / weights.sum(axis=-1, keepdims=True)
    return out.astype(attention.output.element.numpy)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shape", ["1x2x64x64x64", "1x1x32x1000x128", "1x1x16x512x80"])
def test_honest_attention_passes_and_one_missed_key_does_not(shape: str, causal: bool) -> None:
    attention = Attention.parse(shape=shape, dtype="f16", causal=causal)
    whole = attention.whole_inputs(1)
    for inputs, bound_of in ((attention.inputs(1), attention.bound), (whole, attention.whole_bound)):
        reference = attention.reference(inputs)
        bound: Bound = bound_of(inputs, reference)
        assert compare(attended(attention, inputs, weights_in="float16"), reference, bound).ok
        missed = attended(attention, inputs, weights_in="float16", skip=1)
        assert not compare(missed, reference, bound).ok


def test_f32_attention_with_f16_weights_passes_only_where_it_is_allowed() -> None:
    attention = Attention.parse(shape="1x2x64x128x64", dtype="f32")
    inputs = attention.inputs(1)
    reference = attention.reference(inputs)
    out = attended(attention, inputs, weights_in="float16")
    assert compare(attended(attention, inputs, weights_in="float32"), reference, attention.bound(inputs, reference)).ok
    assert not compare(out, reference, attention.bound(inputs, reference)).ok
    assert compare(out, reference, attention.allowing("f16").bound(inputs, reference)).ok
