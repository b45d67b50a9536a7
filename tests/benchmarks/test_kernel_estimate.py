"""The estimates of microkernels, fitted again with a shape left out."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.kernel_estimate import ESTIMATES, Columns, Estimate, begun, fit, read


@pytest.mark.parametrize("estimate", ESTIMATES, ids=lambda estimate: estimate.kernel)
def test_the_formula_says_what_the_manifest_says(estimate: Estimate) -> None:
    _, numbers, us, expected = read(estimate.kernel)
    assert len(us) > 100
    assert np.allclose(estimate.formula(numbers, estimate.constants), expected, rtol=0.04)


def test_a_fit_finds_the_constants_that_timings_were_made_by() -> None:
    def line(x: Columns, constants: tuple[float, ...]) -> np.ndarray:
        return x["size"] * constants[0] + constants[1]

    sizes = Columns({"size": np.arange(1.0, 40.0)})
    found = fit(Estimate("made-up", line, (1000.0, 1000.0)), sizes, line(sizes, (2500.0, 6000.0)) / 1000)
    assert np.allclose(found, (2500.0, 6000.0), rtol=0.1)


def test_what_a_search_begins_with_is_compared_with_the_best() -> None:
    us = np.array([4.0, 2.0, 3.0])
    assert begun(np.array([1.0, 3.0, 2.0]), us, 1) == 2.0
    assert begun(np.array([1.0, 3.0, 2.0]), us, 2) == 1.5
    assert begun(np.array([1.0, 3.0, 2.0]), us, 3) == 1.0
