from __future__ import annotations

import math
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from autotuner.search.guided import MEMORY, _remembered
from autotuner.search.model import Surrogate
from autotuner.search.study import Search, make_search
from autotuner.space.table import Config, Knob, Space
from benchmarks.replay import HERE, RandomLegal, load, replay

RECORDED = HERE / "iree"

KNOBS = [
    Knob("tile_m", (8, 16, 32, 64, 128)),
    Knob("tile_n", (8, 16, 32, 64, 128)),
    Knob("tile_k", (1, 2, 4, 8, 16, 32)),
    Knob("stages", (1, 2, 3, 4)),
]


def large() -> Space:
    """2,000 and some rows with a hole where the tile is too large."""
    return Space.product(KNOBS, [lambda c: c["tile_m"] * c["tile_n"] <= 4096]).cross([Knob("route", ("a", "b", "c"))])


def small() -> Space:
    return Space.product(KNOBS[:2], [lambda c: c["tile_m"] * c["tile_n"] <= 4096])


def cost(config: Config) -> float:
    """Best at 32 x 64 x 8, three stages, route b; a bowl in the logarithm of each."""
    wanted = {"tile_m": 32, "tile_n": 64, "tile_k": 8, "stages": 3}
    total = 0.0 if config["route"] == "b" else 0.5
    for name, best in wanted.items():
        total += 0.2 * (math.log2(int(config[name])) - math.log2(best)) ** 2
    return total


@pytest.fixture(params=[small, large], ids=["small", "large"])
def space(request: pytest.FixtureRequest) -> Space:
    made: Space = request.param()
    return made


def walk(search: Search, count: int, *, batch: int = 4) -> list[Config]:
    asked: list[Config] = []
    while len(asked) < count:
        configs = search.ask(min(batch, count - len(asked)))
        if not configs:
            break
        for config in configs:
            search.tell(config, float(len(config.key) + sum(map(ord, config.key)) % 97))
        asked += configs
    return asked


def test_nothing_is_asked_twice_all_is_legal_and_another_seed_asks_otherwise(space: Space) -> None:
    asked = walk(make_search(space, seed=3), 60)
    assert len(set(asked)) == len(asked) == min(60, len(space))
    assert all(config in space for config in asked)
    assert walk(make_search(space, seed=4), 8) != asked[:8]


def test_asks_without_tells_and_after_failures_alone_go_on_with_new_configurations(space: Space) -> None:
    search = make_search(space, seed=0)
    asked = [config for _ in range(5) for config in search.ask(4)]
    for config in asked:
        search.tell(config, None)
    asked += [config for _ in range(5) for config in search.ask(4)]
    assert len(set(asked)) == len(asked) == min(40, len(space))


def test_a_repeated_tell_changes_nothing() -> None:
    one, two = make_search(large(), seed=0), make_search(large(), seed=0)
    for search in (one, two):
        for config in search.ask(20):
            search.tell(config, cost(config))
            if search is two:
                search.tell(config, 100.0)
    assert one.ask(4) == two.ask(4)


def test_the_first_come_first_and_in_order(space: Space) -> None:
    first = [space[7], space[2], space[7], space[11]]
    search = make_search(space, seed=0, first=first)
    assert search.ask(2) == [space[7], space[2]]
    assert search.ask(3)[0] == space[11]


def test_an_illegal_first_is_asked_as_its_nearest_legal_row(space: Space) -> None:
    beyond = Config.of({**space[0].as_dict(), "tile_m": 128, "tile_n": 128})
    assert beyond not in space
    [asked] = make_search(space, seed=0, first=[beyond]).ask(1)
    assert asked == space[space.nearest(beyond.as_dict())]


def test_what_was_told_unasked_is_not_asked() -> None:
    space = small()
    search = make_search(space, seed=0, first=[space[1], space[2]])
    for row in range(0, len(space), 2):
        search.tell(space[row], 1.0)
    asked = walk(search, len(space))
    assert asked[0] == space[1]
    assert not {space[row] for row in range(0, len(space), 2)} & set(asked)


def test_an_exhausted_space_answers_with_nothing() -> None:
    space = small()
    search = make_search(space, seed=0)
    order = search.ask(1000)
    assert set(order) == set(space)
    assert order != list(space), "shuffled"
    assert search.ask(4) == []


def test_an_empty_space_has_nothing_to_ask() -> None:
    space = small()
    empty = space.keep(np.zeros(len(space), bool))
    search = make_search(empty, seed=0, first=[space[0]])
    assert search.ask(4) == []


def test_a_configuration_of_another_space_is_let_pass(space: Space) -> None:
    search = make_search(space, seed=0)
    search.tell(Config.of({"unheard_of": 1}), 0.5)
    assert len(search.ask(4)) == 4


def test_the_bottom_of_a_bowl_is_found_in_a_twentieth_of_the_space() -> None:
    space = large()
    for seed in range(3):
        search = make_search(space, seed=seed)
        best = math.inf
        for _ in range(len(space) // 20 // 4):
            for config in search.ask(4):
                search.tell(config, cost(config))
                best = min(best, cost(config))
        assert best <= 0.2


def test_failures_do_not_stop_it_from_finding_the_best_that_works() -> None:
    space = large()
    for seed in range(3):
        search = make_search(space, seed=seed)
        best, failed = math.inf, 0
        for _ in range(25):
            for config in search.ask(4):
                works = config["route"] != "c" and config["stages"] != 4
                search.tell(config, cost(config) if works else None)
                best = min(best, cost(config)) if works else best
                failed += not works
        assert best <= 0.3
        assert failed < 40


@pytest.mark.parametrize("first", [8, 10, 11])
def test_the_model_is_asked_once_a_batch_and_a_quarter_is_left_to_the_dice(
    monkeypatch: pytest.MonkeyPatch, first: int
) -> None:
    chosen: list[int] = []
    choices = Surrogate.choices

    def counted(self: Surrogate, *known: Any, **others: Any) -> Iterator[int]:
        chosen.append(0)
        for row in choices(self, *known, **others):
            chosen[-1] += 1
            yield row

    monkeypatch.setattr(Surrogate, "choices", counted)
    space = large()
    walk(make_search(space, seed=0, first=[space[row] for row in range(0, 10 * first, 10)]), 48)
    batches = (48 - first) // 4
    assert batches <= len(chosen) <= batches + 1
    assert sum(chosen) == (48 - first) - -(-(48 - first) // 4)


def test_a_value_that_always_fails_is_given_up() -> None:
    """A third of this space fails for its route: six failures tell, and the rest of the run goes to the others."""
    search, failed = make_search(large(), seed=0), 0
    for _ in range(25):
        for config in search.ask(4):
            works = config["route"] != "c"
            search.tell(config, cost(config) if works else None)
            failed += not works
    assert failed <= 10


def test_on_a_recorded_space_it_is_better_than_the_dice_and_cheap() -> None:
    recording = load(RECORDED / "gemm_2048x2048x2048_f16_f32_nn-sm_80.csv.gz")
    seeds, evaluations = range(4), 60
    dice = [replay(recording, RandomLegal(recording.space, seed=seed), evaluations=evaluations)[-1] for seed in seeds]
    began = time.process_time()
    found = [replay(recording, make_search(recording.space, seed=seed), evaluations=evaluations)[-1] for seed in seeds]
    each = (time.process_time() - began) / (len(seeds) * evaluations)
    assert np.log(found).mean() < np.log(1.08)
    assert np.log(found).mean() < 0.5 * np.log(dice).mean()
    assert each < 0.02, "two milliseconds on a machine of its own"


class Looked(list[int]):
    """How many of its elements were looked at."""

    looked = 0

    def __getitem__(self, place: Any) -> Any:
        self.looked += 1
        return super().__getitem__(place)

    def __iter__(self) -> Iterator[int]:
        self.looked += len(self)
        return super().__iter__()


@pytest.mark.parametrize("best", [0, 3, MEMORY, 1000, 5000])
def test_the_model_keeps_the_best_and_an_even_sample_and_looks_at_no_others(best: int) -> None:
    ranked = [*range(5000)]
    fast, lost = Looked(ranked[:best]), Looked(ranked[best:])
    kept = _remembered(fast, lost)
    assert len(kept) == fast.looked + lost.looked == MEMORY
    assert kept[: MEMORY // 2].tolist() == ranked[: MEMORY // 2]
    assert kept[-1] == ranked[-1]
    assert np.ptp(np.diff(kept[MEMORY // 2 :])) <= 1
    assert _remembered([2, 1], [3]).tolist() == [2, 1, 3]
