"""The table of configurations: membership, neighbours, repair, and the ways to make a table."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotuner.space.table import ABSENT, Config, Knob, Space, Value

NUMBERS = st.lists(st.integers(0, 64), min_size=1, max_size=5, unique=True).map(lambda v: tuple(sorted(v)))
WORDS = st.lists(st.sampled_from(["none", "transpose", "left", "right"]), min_size=1, max_size=3, unique=True).map(
    tuple
)


@st.composite
def spaces(draw: st.DrawFn, prefix: str = "k") -> Space:
    values = draw(st.lists(st.one_of(NUMBERS, WORDS), min_size=1, max_size=4))
    knobs = [Knob(f"{prefix}{i}", v) for i, v in enumerate(values)]
    grid = list(itertools.product(*(range(len(v)) for v in values)))
    chosen = draw(st.lists(st.sampled_from(grid), min_size=1, max_size=40))
    return Space(knobs, np.array(chosen, np.int64))


def values(config: Config) -> tuple[Value, ...]:
    return tuple(value for _, value in config.items)


@given(spaces())
def test_index_and_row_are_inverse(space: Space) -> None:
    for row, config in enumerate(space):
        assert space.index(config) == row
        assert config in space


@given(spaces(), st.data())
def test_only_rows_are_members(space: Space, data: st.DataObject) -> None:
    members = {values(config) for config in space}
    config = Config.of({k.name: data.draw(st.sampled_from(k.values)) for k in space.knobs})
    assert (config in space) == (values(config) in members)
    assert Config.of({**config.as_dict(), "other": 1}) not in space


@given(spaces(), st.data())
def test_rows_around_are_exactly_those_that_differ_in_one_knob_or_in_two(space: Space, data: st.DataObject) -> None:
    here = data.draw(st.integers(0, len(space) - 1))
    apart = [sum(a != b for a, b in zip(values(c), values(space[here]), strict=True)) for c in space]
    for distance, rows in enumerate(space.around(here), start=1):
        assert rows.tolist() == [row for row, count in enumerate(apart) if count == distance]


@given(spaces())
def test_a_member_is_nearest_to_itself(space: Space) -> None:
    for row, config in enumerate(space):
        assert space.nearest(config.as_dict()) == row


@given(spaces("a"), spaces("b"))
def test_join_keeps_every_row_of_every_part(left: Space, right: Space) -> None:
    joined = Space.join("part", {"left": left, "right": right})
    assert len(joined) == len(left) + len(right)
    for label, part, other in (("left", left, right), ("right", right, left)):
        for config in part:
            absent = {k.name: ABSENT for k in other.knobs}
            assert Config.of({"part": label, **config.as_dict(), **absent}) in joined


@given(spaces(), NUMBERS)
def test_cross_multiplies(space: Space, numbers: tuple[int, ...]) -> None:
    crossed = space.cross([Knob("free", numbers)])
    assert len(crossed) == len(space) * len(numbers)
    assert all(Config.of({**space[0].as_dict(), "free": number}) in crossed for number in numbers)


def test_product_obeys_every_rule() -> None:
    knobs = [Knob("a", (1, 2, 3, 4)), Knob("b", (1, 2, 3))]
    space = Space.product(knobs, [lambda c: c["a"] % c["b"] == 0, lambda c: c["a"] * c["b"] <= 6])
    assert [values(c) for c in space] == [(1, 1), (2, 1), (2, 2), (3, 1), (4, 1)]


def test_rows_of_a_product_are_in_order_and_some_of_them_can_be_kept() -> None:
    space = Space.product([Knob("a", (1, 2)), Knob("b", (5, 6))])
    assert [values(c) for c in space] == [(1, 5), (1, 6), (2, 5), (2, 6)]
    assert [values(c) for c in space.keep(np.array([False, False, True, True]))] == [(2, 5), (2, 6)]


def test_nearest_repairs_an_illegal_proposal_and_ignores_what_it_does_not_know() -> None:
    space = Space([Knob("a", (16, 32, 64)), Knob("b", (1, 2, 4))], np.array([[0, 0], [1, 1], [2, 2]]))
    assert space[space.nearest({"a": 60, "b": 4, "unknown": 7})].as_dict() == {"a": 64, "b": 4}
    assert space[space.nearest({"b": 2})].as_dict() == {"a": 32, "b": 2}


@pytest.mark.parametrize("bad", [(), (1, 1), (4, 2)])
def test_knob_refuses_values_that_are_missing_repeated_or_out_of_order(bad: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="'k' needs"):
        Knob("k", bad)


def test_empty_space_says_so_and_one_without_knobs_has_one_row() -> None:
    empty = Space([Knob("a", (1,))], np.zeros((0, 1), np.int64))
    assert len(empty) == 0
    assert Config.of({"a": 1}) not in empty
    with pytest.raises(ValueError, match="empty"):
        empty.nearest({"a": 1})
    assert len(Space([], np.zeros((1, 0), np.int64))) == 1


def test_key_does_not_depend_on_the_order_of_knobs() -> None:
    assert Config.of({"a": 1, "b": "x"}).key == Config.of({"b": "x", "a": 1}).key != Config.of({"a": 2, "b": "x"}).key


def test_a_space_of_more_combinations_than_numbers_finds_its_rows() -> None:
    """Parts that are joined have the knobs of all: a processor's convolutions with microkernels have so many."""
    rng = np.random.default_rng(1)
    knobs = [Knob(f"k{number}", tuple(range(40))) for number in range(14)]
    rows = rng.integers(0, 40, (500, 14))
    beside = np.tile(rows[7], (39, 1))
    beside[:, 3] = [place for place in range(40) if place != rows[7][3]]
    space = Space(knobs, np.concatenate([rows, rows[:50], beside]))
    assert len(space) == 539, "doubles are gone"
    assert [space.index(config) for config in space] == list(range(539))
    assert [space[n].items[0][1] for n in range(500)] == rows[:, 0].tolist(), "in the order in which they were given"
    assert Config(tuple((knob.name, 39) for knob in knobs)) not in space
    one, two = space.around(7)
    assert one.tolist() == list(range(500, 539))
    assert two.tolist() == []
