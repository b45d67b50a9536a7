"""Right builds of a model pass whatever they fuse and however they sum; lower precision and wrong products do not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from autotuner.devices.device import Computed
from autotuner.iree.mlir import Dispatch
from autotuner.iree.run import DispatchTime
from autotuner.problems import Array
from autotuner.problems.dtypes import element_type
from autotuner.programs.arbiter import same_outputs
from autotuner.programs.flow import FlowDispatch, Group, Value
from autotuner.programs.structure import Shares, expected_error, from_statistics
from tests.support.simulated_kernels import accumulated

TOKENS, WIDTH, HIDDEN = 32, 64, 128
Order = Mapping[str, Any]


@dataclass(frozen=True)
class Layers:
    """Feed-forward layers with residual and normalisation, as kernels compute them, one rounding after the other."""

    count: int
    dtype: str

    def rounded(self, values: Array) -> Array:
        return values.astype(np.float32).astype(element_type(self.dtype).numpy).astype(np.float64)

    def operands(self) -> tuple[Array, list[tuple[Array, Array]]]:
        rng = np.random.default_rng(self.count)
        weights = [
            (
                self.rounded(rng.normal(size=(WIDTH, HIDDEN)) / WIDTH**0.5),
                self.rounded(rng.normal(size=(HIDDEN, WIDTH)) / HIDDEN**0.5),
            )
            for _ in range(self.count)
        ]
        return self.rounded(rng.normal(size=(TOKENS, WIDTH))), weights

    def outputs(
        self,
        *,
        order: Order | None = None,
        fused: bool = False,
        first: Callable[[Array, Array], Array] | None = None,
        last: Callable[[Array], None] | None = None,
    ) -> Computed:
        """`fused`: the second product stays in f32; `first` replaces the last layer's first product."""
        x, weights = self.operands()
        for number, (wide, narrow) in enumerate(weights, 1):
            product = first if first and number == self.count else lambda a, b: accumulated(a, b, **(order or {}))
            hidden = self.rounded(np.maximum(product(x, wide), 0))
            back = accumulated(hidden, narrow, **(order or {}))
            total = x + (back if fused else self.rounded(back))
            centred = total - total.mean(axis=-1, keepdims=True)
            x = self.rounded(centred / np.sqrt(np.square(centred).mean(axis=-1, keepdims=True) + 1e-5))
        if last:
            last(x)
        return Computed((x.astype(np.float32).astype(element_type(self.dtype).numpy),))

    @property
    def rounding(self) -> float:
        return self.expected()

    def expected(self, *, rounded_weights: bool = False) -> float:
        """Three dispatches a layer, each of which stores its result."""
        groups = [
            Group(_product(k, n, self.dtype), (_piece(f"{TOKENS}x{n}x{self.dtype}", self.count),))
            for k, n in ((WIDTH, HIDDEN), (HIDDEN, WIDTH))
        ]
        others = [_piece(f"{TOKENS}x{WIDTH}x{self.dtype}", self.count)]
        return expected_error(groups, others, rounded_weights=rounded_weights)


def _piece(tensor: str, calls: int) -> FlowDispatch:
    return FlowDispatch("e", "e::d", "", "", (), (), (Value(f"tensor<{tensor}>"),), (None,), calls)


def _product(k: int, n: int, dtype: str, *, acc: str = "f32") -> Dispatch:
    roles = (("batch", ()), ("m", (0,)), ("n", (1,)), ("k", (2,)))
    return Dispatch(
        "linalg.matmul", "contraction", (), (), (dtype, dtype, acc), (TOKENS, n, k), roles, ((0, 1),), "", ""
    )


def _as(dtype: Any) -> Callable[[Array, Array], Array]:
    return lambda a, b: a.astype(dtype).astype(np.float64) @ b.astype(dtype).astype(np.float64)


def _missing(rows: slice, count: int) -> Callable[[Array, Array], Array]:
    def product(a: Array, b: Array) -> Array:
        out: Array = a @ b
        out[rows] -= a[rows, -count:] @ b[-count:]
        return out

    return product


def _row_of_its_neighbour(a: Array, b: Array) -> Array:
    out: Array = a @ b
    out[3] = out[4]
    return out


def _one_element(out: Array) -> None:
    out[1, 2] += 1.0


ORDERS: dict[str, Order] = {
    "blocks": {"step": 16},
    "split K": {"step": 4, "parts": 8},
    "matrix unit": {"step": 8, "cut": True},
}
WRONG: dict[str, dict[str, Any]] = {
    "one product missing": {"first": _missing(slice(None), 1)},
    "16 products missing in the last 5 rows": {"first": _missing(slice(-5, None), 16)},
    "one row of its neighbour": {"first": _row_of_its_neighbour},
    "f8 operands": {"first": _as(ml_dtypes.float8_e4m3fn)},
    "one element": {"last": _one_element},
}


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.parametrize("count", [1, 2, 6])
def test_what_rounding_explains_passes_and_what_is_wrong_in_one_layer_does_not(dtype: str, count: int) -> None:
    layers = Layers(count, dtype)
    usual = layers.outputs()
    for name, order in ORDERS.items():
        for fused in (False, True):
            check = same_outputs(
                layers.outputs(order=order, fused=fused), usual, tolerance=None, rounding=layers.rounding
            )
            assert check.ok, (name, fused, check.detail, layers.rounding)
    for name, change in WRONG.items():
        check = same_outputs(layers.outputs(**change), usual, tolerance=None, rounding=layers.rounding)
        assert check.failure == "wrong-result", (name, check.error, layers.rounding)


@pytest.mark.parametrize(("dtype", "count"), [("f16", 1), ("f16", 24), ("bf16", 12)])
def test_a_deep_narrow_model_passes_against_its_wide_original_whose_weights_were_not_rounded(
    dtype: str, count: int
) -> None:
    layers, original = Layers(count, dtype), Layers(count, "f32").outputs()
    allowed = layers.expected(rounded_weights=True)
    check = same_outputs(layers.outputs(order=ORDERS["blocks"]), original, tolerance=None, rounding=allowed)
    assert check.ok, (check.detail, allowed)
    assert layers.rounding < allowed < 2 * layers.rounding
    if dtype == "f16":
        wrong = layers.outputs(first=_row_of_its_neighbour)
        assert same_outputs(wrong, original, tolerance=None, rounding=allowed).failure == "wrong-result"


def test_an_f16_layer_that_computes_in_bf16_is_refused() -> None:
    layers = Layers(1, "f16")
    check = same_outputs(
        layers.outputs(first=_as(ml_dtypes.bfloat16)), layers.outputs(), tolerance=None, rounding=layers.rounding
    )
    assert check.failure == "wrong-result", (check.error, layers.rounding)


def test_the_expected_error_follows_types_sums_and_calls() -> None:
    def error(dtype: str, *, acc: str = "f32", calls: int = 1, k: int = 64, **more: Any) -> float:
        return expected_error([Group(_product(k, 8, dtype, acc=acc), (_piece(f"4x8x{dtype}", calls),))], [], **more)

    assert error("f32") == 1e-4
    assert error("f64", acc="f64") == 1e-6
    assert error("bf16") == pytest.approx(8 * error("f16"), rel=1e-3)
    assert error("f16", calls=4) == pytest.approx(2 * error("f16"))
    assert error("f16", acc="f16", k=510) == pytest.approx(16 * error("f16"), rel=1e-2)
    assert 2e-3 > error("f32", allow="tf32") > error("f32")
    assert error("f32", allow="f16") > error("f32", allow="tf32")
    assert error("f16", allow="tf32") == error("f16")
    # What passes through f16 is no better for being printed in f32.
    assert expected_error([], [_piece("4xf16", 1), _piece("4xf32", 1)]) > 4e-4
    assert expected_error([], [_piece("4xi32", 3)]) == 1e-4


def test_what_the_runtime_never_counted_did_not_run() -> None:
    """The product of an LSTM of StableHLO stood in a loop of no rounds for seeded inputs, skipped for its encoding."""
    counted = from_statistics({"ran": DispatchTime(us=3.0, calls=1.0), "quick": DispatchTime(us=0.0, calls=1.0)})
    assert counted is not None
    assert [counted.idle(names) for names in (["ran"], ["quick"], ["other"], ["other", "ran"])] == [
        False,
        False,
        True,
        False,
    ]
    assert not Shares({"ran": 3.0}, "each timed alone").idle(["other"])
