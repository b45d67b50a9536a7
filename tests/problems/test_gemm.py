"""GEMM: what it is called, and what a right answer is."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from autotuner.problems import Array, Gemm
from autotuner.problems.dtypes import type_name
from autotuner.problems.gemm import LAYOUTS

DTYPES = ("f32", "f16", "bf16", "i8", "f8")


def test_name_flops_and_bytes() -> None:
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


def naive(gemm: Gemm, a: Array, b: Array) -> Array:
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
def test_reference_is_the_product_of_the_operands_as_they_lie(dtype: str, layout: str, batch: int) -> None:
    gemm = Gemm.parse(shape="5x6x7", dtype=dtype, layout=layout, batch=batch)
    a, b = gemm.inputs(seed=1)
    expected = naive(gemm, a, b)
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
