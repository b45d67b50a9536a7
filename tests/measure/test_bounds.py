"""The bound, number by number: what the documents say of it is computed here by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from autotuner.measure import check as check_module
from autotuner.measure.check import compare
from autotuner.problems import Array, Gemm, Operand
from autotuner.problems.accuracy import Bound, Sums, last_rounding, rms, sum_bound, whole_numbers
from autotuner.problems.base import random_inputs, reference_rounds, squared, whole_inputs, widened
from autotuner.problems.dtypes import element_type

F32, F16, BF16, I8 = (element_type(name) for name in ("f32", "f16", "bf16", "i8"))
U32, U16 = 2.0**-24, 2.0**-11
ENDS, SPREAD = np.array([[3.0, -1.0]]), np.array([[2.0, 4.0]])


def sequential(unit: float, k: int) -> Array:
    """The variance of one rounding after the other."""
    variance: Array = (0.42 * unit) ** 2 * (k * (ENDS**2 / 3 + SPREAD**2 / 6) + SPREAD**2)
    return variance


ONE_BY_ONE, SLACK = sequential(U32, 100), U32 * np.abs(ENDS)
PATH = 100 * (ENDS**2 / 3 + SPREAD**2 / 6)
CUT = (0.72 * U32 * 100 / 4) ** 2 * (ENDS**2 / 4 + SPREAD**2 / 12)
FACTORS = 2 * (0.42 * U16) ** 2 * SPREAD**2
IN_F16 = Sums(100, F16, "f16", "f16")


@pytest.mark.parametrize(
    ("sums", "more", "variance", "slack"),
    [
        (Sums(100, F32, "f32", "f32"), {}, ONE_BY_ONE, SLACK),
        (Sums(100, F32, "f32", "f32"), {"rounded_reference": True}, ONE_BY_ONE + (0.42 * U32) ** 2 * PATH, SLACK),
        (Sums(100, F32, "f32", "f32"), {"kernels": 2}, 2 * ONE_BY_ONE, 2 * SLACK),
        (Sums(100, F16, "f32", "f32"), {}, ONE_BY_ONE + CUT, SLACK),
        (Sums(100, BF16, "f32", "f32"), {}, ONE_BY_ONE + CUT, SLACK),
        (IN_F16, {}, sequential(U16, 100), U16 * np.abs(ENDS) + 2.0**-25),
        (Sums(100, F32, "f32", "f32", "tf32"), {}, ONE_BY_ONE + FACTORS, SLACK),
        (Sums(100, F32, "f32", "f32", "f16"), {}, sequential(U16, 100) + FACTORS, SLACK),
    ],
    ids=[
        "sums in f32 round one after the other",
        "a reference that rounds is allowed for",
        "and another kernel",
        *("matrix units cut sums of f16 off", "and of bf16", "sums in f16"),
        *("a precision that is allowed rounds both factors", "and f16 the sums, too"),
    ],
)
def test_the_bound_of_sums(sums: Sums, more: dict[str, Any], variance: Array, slack: Array) -> None:
    bound = sum_bound(ENDS, SPREAD, sums, **more)
    assert np.allclose(np.square(bound.deviation), variance, rtol=1e-12, atol=0)
    assert np.allclose(bound.slack, slack, rtol=1e-12, atol=0)
    assert (bound.worst, bound.mean) == (None, 1.5)


def test_integers_have_no_bound() -> None:
    bound = sum_bound(ENDS, SPREAD, Sums(100, I8, "i32", "i32"))
    assert (bound.deviation, bound.slack) == (0.0, 0.0)
    assert Sums(100, I8, "i32", "i32").unit == 0.0
    assert Sums(100, I8, "i32", "i32").whole_limit == 0


def test_the_last_rounding_is_half_a_unit_of_the_results_type() -> None:
    values = np.array([-8.0, 0.0, 1.0])
    assert np.array_equal(last_rounding(values, "f32"), U32 * np.array([8.0, 0.0, 1.0]))
    assert np.array_equal(last_rounding(values, "f16"), U16 * np.array([8.0, 0.0, 1.0]) + 2.0**-25)
    assert np.array_equal(last_rounding(values, "bf16"), 2.0**-8 * np.array([8.0, 0.0, 1.0]))


def test_how_far_one_element_and_all_may_be_off() -> None:
    bound = Bound(1.0)
    assert bound.worst_of(1000) == pytest.approx(math.log(2000 / 1e-9) / 1.28)
    assert bound.worst_of(0) == bound.worst_of(1) == pytest.approx(math.log(2e9) / 1.28)
    assert bound.mean_of(2500) == pytest.approx(1.5 * 1.1)
    assert bound.mean_of(0) == bound.mean_of(1) == pytest.approx(9.0)
    fixed = Bound(1.0, worst=7.0, mean=2.0)
    assert (fixed.worst_of(1000), fixed.mean_of(1000)) == (7.0, 2.0)


def test_a_relative_bound_is_of_the_usual_size_or_of_the_elements_own() -> None:
    bound = Bound.relative(np.array([3.0, -4.0, 0.0, 0.0]), 0.1)
    assert np.allclose(bound.deviation, [0.3, 0.4, 0.25, 0.25])
    assert (bound.worst, bound.mean, bound.slack) == (16.0, 1.0, 0.0)
    assert np.allclose(Bound.relative(np.zeros(2), 0.1).deviation, 0.1)
    assert rms(np.array([3.0, 4.0])) == pytest.approx(math.sqrt(12.5))
    assert rms(np.zeros(0)) == 0.0
    assert rms(np.array([300.0], np.float16)) == 300.0


@pytest.mark.parametrize(
    ("sums", "limit"),
    [
        (Sums(1, F32, "f32", "f32"), 2303),  # 8·4,095²/3 is above 2²⁴
        (Sums(64, F32, "f32", "f32"), 728),
        (Sums(1, F16, "f32", "f32"), 2048),
        (Sums(1, F16, "f16", "f16"), 26),
        (Sums(1, BF16, "f32", "f32"), 256),
        (Sums(1, F32, "f32", "f32", "tf32"), 2048),
        (Sums(1, F16, "f32", "f16"), 85),  # its result would overflow
        (Sums(10**9, F16, "f16", "f16"), 0),
    ],
)
def test_whole_numbers_are_so_small_that_no_sum_rounds(sums: Sums, limit: int) -> None:
    m = sums.whole_limit
    assert m == limit
    largest = min(1 / sums.unit, 2.0**15 if "f16" in (sums.acc, sums.out) else math.inf)
    assert m == 0 or max(m * m, 8 * math.sqrt(sums.length) * (m + 1) * (2 * m + 1) / 6) <= largest


def test_whole_numbers_have_both_signs_all_sizes_and_no_zero() -> None:
    numbers = whole_numbers((400, 3), F16, limit=3, rng=np.random.default_rng(0))
    assert numbers.dtype == np.float16
    assert numbers.shape == (400, 3)
    assert set(numbers.ravel().astype(int)) == {-3, -2, -1, 1, 2, 3}
    operands = [Operand((4, 5), F32), Operand((5, 6), F32)]
    made = whole_inputs(operands, Sums(5, F32, "f32", "f32"), 3)
    again = whole_inputs(operands, Sums(5, F32, "f32", "f32"), 3)
    assert made is not None
    assert again is not None
    assert [x.shape for x in made] == [(4, 5), (5, 6)]
    assert all(np.array_equal(a, b) for a, b in zip(made, again, strict=True))
    assert not np.array_equal(made[0].ravel()[:20], made[1].ravel()[:20])
    assert whole_inputs(operands, Sums(5, I8, "i32", "i32"), 3) is None


def test_random_numbers_fill_their_range_and_follow_their_seed() -> None:
    operands = [Operand((50, 40), F32), Operand((50, 40), I8), Operand((5, 4), BF16)]
    first, second, third = random_inputs(operands, 1)
    assert -1 <= first.min() < -0.99
    assert 0.99 < first.max() <= 1
    assert (second.min(), second.max()) == (-127, 127)
    assert second.dtype == np.int8
    assert third.dtype == BF16.numpy
    assert np.array_equal(random_inputs(operands, 1)[0], first)
    assert not np.array_equal(random_inputs(operands, 2)[0], first)


def test_only_a_large_product_of_16_bit_numbers_has_a_reference_in_f32() -> None:
    half, single, whole = np.ones((2, 2), np.float16), np.ones((2, 2), np.float32), np.ones((2, 2), np.int8)
    assert reference_rounds([half, half], flops=2 * 10**10 + 1)
    assert not reference_rounds([half, half], flops=2 * 10**10)
    assert not reference_rounds([half, single], flops=10**12)
    assert not reference_rounds([whole, whole], flops=10**12)
    assert [x.dtype for x in widened([half, half], flops=10**12)] == [np.float32, np.float32]
    assert [x.dtype for x in widened([half, half], flops=1)] == [np.float64, np.float64]
    (square,) = squared([np.full((2,), 300.0, np.float16)])
    assert square.dtype == np.float32
    assert square[0] == 90000.0


def test_a_problems_whole_numbers_must_come_out_exactly() -> None:
    problem = Gemm.parse(shape="4x4x4", dtype="f32")
    inputs = problem.whole_inputs(0)
    assert inputs is not None
    bound = problem.whole_bound(inputs, problem.reference(inputs))
    assert (bound.deviation, bound.slack) == (0.0, 0.0)


# --- the comparison -------------------------------------------------------------------------------------------------


def test_one_element_may_be_off_by_slack_and_deviations_and_no_more() -> None:
    reference = np.zeros((3, 4))
    bound = Bound(0.5, slack=1.0, worst=10.0, mean=100.0)
    out = reference.copy()
    out[1, 2] = -6.0  # 1 + 10 · 0.5
    assert compare(out, reference, bound).ok
    out[1, 2] = -6.001
    check = compare(out, reference, bound)
    assert check.failure == "wrong-result"
    assert "element (1, 2) is -6.001, not 0" in check.detail


def test_all_elements_together_may_be_off_by_the_mean_and_no_more() -> None:
    reference = np.full(100, 2.0)
    bound = Bound(np.full(100, 0.5), slack=np.full(100, 2.0), worst=100.0, mean=2.0)
    allowed = 2.0 * math.sqrt(0.5**2 + (0.6 * 2.0) ** 2)
    inside = compare(reference + 0.999 * allowed, reference, bound)
    assert inside.ok
    assert inside.error == pytest.approx(0.999 * allowed / 2)
    outside = compare(reference + 1.001 * allowed, reference, bound)
    assert outside.failure == "wrong-result"
    assert f"relative error {outside.error:.3g}; in the mean 2 deviations off, allowed 2" in outside.detail


def test_what_is_exact_passes_where_nothing_is_allowed() -> None:
    reference = np.array([1.0, -2.0])
    assert compare(reference, reference, Bound(0.0)).ok
    assert not compare(np.array([1.0, -2.0000001]), reference, Bound(0.0)).ok
    assert compare(np.zeros(3), np.zeros(3), Bound(0.0)).error == 0.0
    assert compare(np.full(4, 0.5), np.zeros(4), Bound(1.0)).error == pytest.approx(1.0)
    assert compare(np.zeros((0, 3)), np.zeros((0, 3)), Bound(1.0)).ok


def test_the_worst_element_is_found_in_whichever_piece_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_module, "_CHUNK", 5)
    reference = np.arange(1.0, 24.0).reshape(23, 1)
    for at in (0, 4, 5, 13, 22):
        out = reference.copy()
        out[at] += 3
        out[(at + 7) % 23] += 2
        check = compare(out, reference, Bound(np.full((23, 1), 0.1), slack=np.full((23, 1), 0.01), worst=1.0, mean=1e9))
        assert f"element ({at}, 0) is {at + 4}, not {at + 1}" in check.detail
        assert check.error == pytest.approx(math.sqrt(13 / np.square(reference).sum()))
    off = compare(reference + 0.2, reference, Bound(0.1, worst=1e9, mean=1.99))
    assert "in the mean 2 deviations off" in off.detail
    out = reference.copy()
    out[20], out[3] = np.nan, 1e9
    check = compare(out, reference, Bound(0.1))
    assert math.isnan(check.error)
    assert "element (20, 0) is nan" in check.detail
