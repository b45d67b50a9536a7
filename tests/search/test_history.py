"""What other shapes' timings say of a new one, and how alike two configurations are for the model of their times."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from autotuner.search import history
from autotuner.search.guided import DEFAULT
from autotuner.search.history import FASTEST, RESULTS, EarlierRun, Prediction, Shape, kept, suggest
from autotuner.search.model import Rows, Similarity, Singles
from autotuner.space.table import ABSENT, Config, Knob, Space, Value

KNOBS = [Knob("tile_m", (8, 16, 32, 64, 128)), Knob("tile_n", (8, 16, 32, 64, 128)), Knob("stages", (1, 2, 3, 4))]
SPACE = Space.product(KNOBS)


def shape(m: int, n: int = 512, *, kind: str = "contraction", types: tuple[str, ...] = ("f16", "f32")) -> Shape:
    return Shape(kind, types, {"m": m, "n": n})


def us(config: Config, *, m: int) -> float:
    """The best tile grows with the shape."""
    best = min(max(m // 16, 8), 128)
    return 10 * math.exp(
        abs(math.log2(int(config["tile_m"]) / best))
        + abs(math.log2(int(config["tile_n"]) / 32))
        + 0.3 * abs(int(config["stages"]) - 3)
    )


def run(m: int, *, count: int = 40, seed: int = 0, space: Space = SPACE, **changed: str) -> EarlierRun:
    configs = [space[int(row)] for row in space.sample(count, np.random.default_rng(seed))]
    return EarlierRun(f"run {m}", shape(m, **changed), [c.as_dict() for c in configs], [us(c, m=m) for c in configs])  # type: ignore[arg-type]


def test_what_is_suggested_is_better_than_the_best_of_ten_times_as_many_dice() -> None:
    first = suggest(SPACE, shape(512), [run(256), run(1024, seed=1), run(512, seed=2)], count=4)
    dice = [SPACE[int(row)] for row in SPACE.sample(40, np.random.default_rng(5))]
    assert min(us(c, m=512) for c in first.configs) <= min(us(c, m=512) for c in dice)


def test_the_winner_of_the_same_shape_comes_first() -> None:
    far, near = run(4096), run(512)
    winner = near.configs[int(np.argmin(near.us))]
    found = suggest(SPACE, shape(512), [far, near])
    assert found.configs[0].as_dict() == winner
    assert found.sources == ("run 512", "run 4096")
    # Of a run that is no worse, but on a shape that is only near, the winner is one of several.
    unlike = EarlierRun(near.name, shape(600), near.configs, near.us)
    others = [EarlierRun(f"{n}", shape(601), *_turned(near)) for n in range(6)]
    assert suggest(SPACE, shape(600), [unlike, *others]).configs[0].as_dict() == winner
    assert suggest(SPACE, shape(605), [unlike, *others]).configs[0].as_dict() != winner


def _turned(known: EarlierRun) -> tuple[Sequence[Mapping[str, Value]], list[float]]:
    """The same configurations; what was slow is fast."""
    return known.configs, [1e6 / us for us in known.us]


def test_a_run_too_short_for_a_model_gives_its_winner_and_no_more() -> None:
    found = suggest(SPACE, shape(512), [run(512, count=3)])
    assert len(found.configs) == 1


def test_other_operations_and_other_knobs_say_nothing() -> None:
    assert suggest(SPACE, shape(512), [run(512, kind="attention")]).configs == ()
    other = EarlierRun("other", shape(512), [{"unroll": 1}] * 9, [1.0] * 9)
    assert suggest(SPACE, shape(512), [other]).configs == ()
    assert suggest(SPACE, shape(512), []).sources == ()


def test_other_types_are_farther_than_a_doubled_size() -> None:
    here = shape(512)
    assert here.distance(here) == 0.0
    assert here.distance(shape(1024)) == 1.0
    assert here.distance(shape(512, types=("i8", "i32"))) == 2.0


def test_configurations_of_a_larger_space_are_suggested_as_legal_ones() -> None:
    legal = SPACE.keep(np.array([int(c["tile_m"]) <= 32 for c in SPACE]))
    found = suggest(legal, shape(512), [run(512)], count=6)
    assert len(found.configs) == len(set(found.configs)) == 6
    assert all(config in legal for config in found.configs)


def test_in_a_large_space_few_rows_are_ranked_and_what_is_suggested_is_as_if_all_were(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sides = tuple(2**n for n in range(16))
    space = Space.product([Knob("tile_m", sides), Knob("tile_n", sides), Knob("stages", tuple(range(1, 13)))])
    runs = [run(256, space=space), run(1024, seed=1, space=space)]
    predicted: list[int] = []
    of = Prediction.of

    def counted(self: Prediction, rows: Rows) -> Singles:
        predicted.append(len(rows))
        return of(self, rows)

    monkeypatch.setattr(Prediction, "of", counted)
    found = suggest(space, shape(512), runs, count=6)
    assert len(space) > 3 * sum(predicted)
    monkeypatch.setattr(history, "CONSIDERED", len(space))
    assert found == suggest(space, shape(512), runs, count=6)
    assert predicted[-1] == len(space)


def test_of_a_long_run_the_fastest_and_an_even_sample_of_the_rest_are_made_use_of() -> None:
    us = [float(n) for n in reversed(range(400))]
    places = kept(us)
    assert len(places) == RESULTS
    assert [us[place] for place in places[:FASTEST]] == [float(n) for n in range(FASTEST)]
    assert us[places[-1]] == 399.0
    assert kept([3.0, 1.0, 2.0]) == [1, 2, 0]


# --- the prediction -----------------------------------------------------------------------------------------------

TILES = Space.product(KNOBS[:2])


def best_tile(side: int) -> EarlierRun:
    """Everything was timed, and the tile of this side is the fastest."""
    configs = [config.as_dict() for config in TILES]
    times = [math.exp(sum(abs(math.log2(int(own) / side)) for own in config.values())) for config in configs]
    return EarlierRun("", Shape("contraction", (), {}), configs, times)


def predicted(*known: tuple[float, EarlierRun]) -> Singles:
    return Prediction(TILES, known).of(np.arange(len(TILES)))


def test_the_nearer_shape_is_believed() -> None:
    for near, far in ((16, 64), (64, 16)):
        fastest = TILES[int(predicted((0.0, best_tile(near)), (3.0, best_tile(far))).argmin())]
        assert fastest["tile_m"] == near


def test_how_slow_another_shape_is_in_all_says_nothing() -> None:
    slow = best_tile(64)
    slower = EarlierRun("", slow.shape, slow.configs, [100.0 * us for us in slow.us])
    assert predicted((0.0, slow)) == pytest.approx(predicted((0.0, slower)), abs=1e-4)


# --- likeness ---------------------------------------------------------------------------------------------------------


WORDS = [Knob("tile", (ABSENT, 8, 16, 32, 64)), Knob("stages", (1, 2, 3)), Knob("route", ("a", "b"))]
WORDED = Space(WORDS, np.stack(np.meshgrid(range(5), range(3), range(2), indexing="ij"), -1).reshape(-1, 3))
SHARED = DEFAULT.shared
LIKENESS = Similarity(WORDS, shared=SHARED)


def between(one: tuple[int, int, str], other: tuple[int, int, str]) -> float:
    rows = [WORDED.index(Config.of(dict(zip(("tile", "stages", "route"), row, strict=True)))) for row in (one, other)]
    assert None not in rows
    features = LIKENESS.rows(WORDED.indices[np.array(rows, np.int64)])
    return float(LIKENESS.between(features[:1], features[1:])[0, 0])


def test_nearer_numbers_are_more_alike_and_one_knob_never_takes_all_likeness_away() -> None:
    assert between((8, 1, "a"), (8, 1, "a")) == pytest.approx(1.0)
    near, far = between((8, 1, "a"), (16, 1, "a")), between((8, 1, "a"), (64, 1, "a"))
    assert 1.0 > near > far > SHARED
    assert between((8, 1, "a"), (8, 1, "b")) == pytest.approx(SHARED)
    assert between((8, 1, "a"), (ABSENT, 1, "b")) == pytest.approx(SHARED**2)
    absent = {between((ABSENT, 1, "a"), (tile, 1, "a")) for tile in (8, 64)}
    assert max(absent) == pytest.approx(min(absent)), "a knob that is absent is not near to its smallest value"


def test_configurations_of_another_space_lie_between_the_values_of_this_one() -> None:
    own = LIKENESS.rows(WORDED.indices)
    known: dict[str, Value] = {"tile": 16, "stages": 2, "route": "a"}
    row = WORDED.index(Config.of(known))
    assert row is not None
    between_two, unknown = {**known, "tile": 24}, {**known, "route": "c"}
    same, middle, other = LIKENESS.between(LIKENESS.configs([known, between_two, unknown]), own[row : row + 1])[:, 0]
    assert same == pytest.approx(1.0)
    assert between((16, 2, "a"), (32, 2, "a")) < middle < 1.0
    assert other == pytest.approx(SHARED)
    assert LIKENESS.configs([{"tile": 16}]).sum() == len(WORDS)  # what it lacks is unknown
