"""One model of the results of many shapes."""

from __future__ import annotations

import numpy as np
import pytest

from autotuner.search.prediction import Prediction, Results, _solved
from autotuner.space.table import Knob, Space

SIDES = (8, 16, 32, 64, 128)
SPACE = Space.product([Knob("tile_m", SIDES), Knob("tile_n", SIDES)])
ROWS = np.arange(len(SPACE))


def results(best: int, *, distance: float) -> Results:
    """Everything was timed, and the tile of this side is the fastest."""
    configs = [config.as_dict() for config in SPACE]
    logs = [sum(abs(float(np.log2(int(side) / best))) for side in config.values()) for config in configs]
    return Results(distance, {}, configs, logs)


def fastest(*known: Results) -> int:
    side = SPACE[int(Prediction(SPACE, {}, known).of(ROWS).argmin())]["tile_m"]
    assert isinstance(side, int)
    return side


def test_the_nearer_shape_is_believed() -> None:
    assert fastest(results(16, distance=0.0), results(64, distance=3.0)) == 16
    assert fastest(results(16, distance=3.0), results(64, distance=0.0)) == 64


def test_how_slow_another_shape_is_in_all_says_nothing() -> None:
    slow = results(64, distance=0.0)
    slower = Results(slow.distance, slow.sizes, slow.configs, [log + 5.0 for log in slow.logs])
    assert Prediction(SPACE, {}, [slow]).of(ROWS) == pytest.approx(Prediction(SPACE, {}, [slower]).of(ROWS), abs=1e-4)


def test_the_equations_are_solved_as_a_factorization_solves_them() -> None:
    points = np.random.default_rng(0).normal(size=(300, 6))
    covariance = np.exp(-np.abs(points[:, None] - points[None]).sum(axis=2)) + 0.05 * np.eye(300)
    values = np.random.default_rng(1).normal(size=300)
    found = _solved(covariance.astype(np.float32), values.astype(np.float32))
    assert covariance @ found == pytest.approx(values, abs=0.01)
