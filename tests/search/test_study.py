"""Any sampler of Optuna's searches; what it is told is a study that others read."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import optuna
import pytest
from optuna.trial import TrialState

from autotuner.errors import EnvironmentFailure, UsageError
from autotuner.search.guided import GuidedSampler
from autotuner.search.study import Search, kept_study, make_search, sampler_maker
from autotuner.space.table import Config, Knob, Space

KNOBS = [Knob("tile_m", (8, 16, 32, 64, 128)), Knob("tile_n", (8, 16, 32, 64, 128)), Knob("only", (1,))]
SPACE = Space.product(KNOBS, [lambda c: c["tile_m"] * c["tile_n"] <= 4096])
OWN = """
from optuna.samplers import BaseSampler

class Stubborn(BaseSampler):
    def infer_relative_search_space(self, study, trial):
        return {}

    def sample_relative(self, study, trial, search_space):
        return {}

    def sample_independent(self, study, trial, name, distribution):
        return distribution.choices[-1]

class NoSampler:
    pass
"""
READER = """
import json, sys
import optuna
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
study = optuna.load_study(study_name=sys.argv[1], storage=JournalStorage(JournalFileBackend(sys.argv[2])))
print(json.dumps([[trial.state.name, trial.params, trial.value] for trial in study.trials]))
"""


def cost(config: Config) -> float | None:
    """The largest tiles fail."""
    return (
        None if config["tile_m"] == 128 else abs(int(config["tile_m"]) - 32) / 8 + abs(int(config["tile_n"]) - 64) / 8
    )


def walk(search: Search, count: int) -> list[Config]:
    asked: list[Config] = []
    while len(asked) < count and (batch := search.ask(min(4, count - len(asked)))):
        for config in batch:
            search.tell(config, cost(config))
        asked += batch
    return asked


@pytest.mark.parametrize("sampler", ["guided", "tpe", "random"])
def test_every_sampler_asks_for_each_legal_row_once_and_the_first_first(sampler: str) -> None:
    one, two = (walk(make_search(SPACE, seed=3, sampler=sampler, first=[SPACE[5]]), 100) for _ in range(2))
    assert one == two, "the same seed asks the same"
    assert one[0] == SPACE[5]
    assert len(one) == len(SPACE)
    assert set(one) == set(SPACE)


def test_a_sampler_of_ones_own_is_repaired_to_the_nearest_legal_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_samplers.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))
    asked = walk(make_search(SPACE, seed=0, sampler="own_samplers:Stubborn"), 100)
    assert Config.of({"tile_m": 128, "tile_n": 128, "only": 1}) not in SPACE
    assert asked[0] == SPACE[SPACE.nearest({"tile_m": 128, "tile_n": 128})]
    assert set(asked) == set(SPACE)
    with pytest.raises(UsageError, match="gives no sampler"):
        make_search(SPACE, seed=0, sampler="own_samplers:NoSampler")


@pytest.mark.parametrize("name", ["annealing", "no_such_module:Class", "optuna.samplers:NoSuchClass"])
def test_a_sampler_that_is_not_there_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match=name):
        sampler_maker(name)


@pytest.mark.skipif(find_spec("torch") is not None, reason="torch is installed")
def test_what_the_gaussian_process_of_optuna_needs_is_named() -> None:
    with pytest.raises(EnvironmentFailure, match="torch"):
        sampler_maker("gp")


def test_another_process_reads_the_study_while_the_search_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "studies" / "run-1.journal"
    for _ in range(2):  # the second time it takes the place of the first
        kept = kept_study(path, {"problem": "gemm"})
        search = make_search(SPACE, seed=0, kept=kept)
        asked = walk(search, 10)
    unasked = next(config for config in SPACE if config not in asked)
    search.tell(unasked, 0.5)
    command = [sys.executable, "-P", "-c", READER, "run-1", str(path)]
    read = json.loads(subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout)
    assert [(state, value) for state, _, value in read] == [
        ("COMPLETE", value) if value is not None else ("PRUNED", None) for value in [*map(cost, asked), 0.5]
    ]
    assert {**read[-1][1], "only": 1} == unasked.as_dict()
    assert len(kept.trials) == 1, "what is in the file takes no memory"
    assert search.ask(4), "it goes on"


def test_the_guided_sampler_serves_any_study_of_optuna() -> None:
    study = optuna.create_study(sampler=GuidedSampler(SPACE, seed=0))

    def objective(trial: optuna.Trial) -> float:
        values = {knob.name: int(str(trial.suggest_categorical(knob.name, knob.values))) for knob in KNOBS}
        value = cost(Config.of(values))
        if value is None:
            raise optuna.TrialPruned
        return value

    study.optimize(objective, n_trials=len(SPACE))
    assert {(t.params["tile_m"], t.params["tile_n"]) for t in study.trials} == {
        (config["tile_m"], config["tile_n"]) for config in SPACE
    }
    assert study.best_value == 0.0
    assert any(trial.state == TrialState.PRUNED for trial in study.trials)
