"""How alike two configurations are for the model of their times."""

from __future__ import annotations

import numpy as np
import pytest

from autotuner.search.guided import DEFAULT
from autotuner.search.model import Likeness
from autotuner.space.table import ABSENT, Config, Knob, Space, Value

KNOBS = [Knob("tile", (ABSENT, 8, 16, 32, 64)), Knob("stages", (1, 2, 3)), Knob("route", ("a", "b"))]
SPACE = Space(KNOBS, np.stack(np.meshgrid(range(5), range(3), range(2), indexing="ij"), -1).reshape(-1, 3))
SHARED = DEFAULT.shared
LIKENESS = Likeness(KNOBS, shared=SHARED)


def between(one: tuple[int, int, str], other: tuple[int, int, str]) -> float:
    rows = [SPACE.index(Config.of(dict(zip(("tile", "stages", "route"), row, strict=True)))) for row in (one, other)]
    assert None not in rows
    features = LIKENESS.rows(SPACE.indices[np.array(rows, np.int64)])
    return float(LIKENESS.between(features[:1], features[1:])[0, 0])


def test_the_same_are_alike_and_nearer_numbers_more_than_farther_ones() -> None:
    assert between((8, 1, "a"), (8, 1, "a")) == pytest.approx(1.0)
    near, far = between((8, 1, "a"), (16, 1, "a")), between((8, 1, "a"), (64, 1, "a"))
    assert 1.0 > near > far > SHARED


def test_one_knob_never_takes_all_likeness_away() -> None:
    assert between((8, 1, "a"), (8, 1, "b")) == pytest.approx(SHARED)
    assert between((8, 1, "a"), (ABSENT, 1, "b")) == pytest.approx(SHARED**2)


def test_a_knob_that_is_absent_is_not_near_to_its_smallest_value() -> None:
    assert between((ABSENT, 1, "a"), (8, 1, "a")) == pytest.approx(between((ABSENT, 1, "a"), (64, 1, "a")))


def test_the_covariance_of_all_rows_is_one_that_can_be_solved() -> None:
    features = LIKENESS.rows(SPACE.indices)
    assert np.linalg.eigvalsh(LIKENESS.between(features, features)).min() > 0


def test_configurations_of_another_space_lie_between_the_values_of_this_one() -> None:
    own = LIKENESS.rows(SPACE.indices)
    known: dict[str, Value] = {"tile": 16, "stages": 2, "route": "a"}
    row = SPACE.index(Config.of(known))
    assert row is not None
    between_two, unknown = {**known, "tile": 24}, {**known, "route": "c"}
    same, middle, other = LIKENESS.between(LIKENESS.configs([known, between_two, unknown]), own[row : row + 1])[:, 0]
    assert same == pytest.approx(1.0)
    assert between((16, 2, "a"), (32, 2, "a")) < middle < 1.0
    assert other == pytest.approx(SHARED)
    assert LIKENESS.configs([{"tile": 16}]).sum() == len(KNOBS)  # what it lacks is unknown
