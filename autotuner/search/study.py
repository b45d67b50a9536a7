"""The search as an Optuna study: a sampler proposes candidates, each of which is a trial."""

from __future__ import annotations

import importlib
import inspect
import json
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import optuna
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler
from optuna.storages import JournalStorage
from optuna.storages.journal import BaseJournalBackend
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from autotuner.errors import EnvironmentFailure, StorageError, UsageError
from autotuner.search import GUIDED
from autotuner.search.grid import Grid, WholeSampler
from autotuner.search.guided import GuidedSampler
from autotuner.space.table import Config, Space

OPTUNA: Mapping[str, Callable[..., BaseSampler]] = {
    "tpe": optuna.samplers.TPESampler,
    "gp": optuna.samplers.GPSampler,
    "random": optuna.samplers.RandomSampler,
}


class Search:
    """Asks for candidates and tells their results; several may be asked for before the first is told.

    The study is in memory. Each told trial also goes into `kept`, the study that others read.
    """

    def __init__(
        self, space: Space, sampler: BaseSampler, *, first: Sequence[Config] = (), kept: Study | None = None
    ) -> None:
        """`first` is proposed first, in order, each as its nearest legal row."""
        self._grid = Grid(space)
        rows = (space.nearest(config.as_dict()) for config in first if len(space))
        self._trials: dict[int, int] = {}
        """By row under way, the number of its trial."""
        with quiet():
            legal = NearestLegalSampler(sampler, self._grid, first=[*dict.fromkeys(rows)])
            self._study = optuna.create_study(sampler=legal)
        self._distributions = legal.distributions
        self._kept = kept

    def ask(self, count: int) -> list[Config]:
        """Up to `count` distinct configurations that were never asked or told; none when all were."""
        batch: list[Config] = []
        while len(batch) < count and self._grid.free.any():
            with quiet():
                trial = self._study.ask(self._distributions)
            row = self._grid.row_of(trial.params)
            if row is None:
                raise AssertionError(f"an illegal configuration was proposed: {trial.params}")
            self._grid.take(row)
            self._trials[row] = trial.number
            batch.append(self._grid.space[row])
        return batch

    def tell(self, config: Config, value: float | None) -> None:
        """Records a configuration's log(time), or None for a failure. It need not have been asked for.

        The first word on a configuration stands; one that is not of this space says nothing about it. A failure is a
        pruned trial: to Optuna's samplers that is worse than whatever worked, of a failed one they learn nothing.
        """
        row = self._grid.space.index(config)
        state = TrialState.PRUNED if value is None else TrialState.COMPLETE
        if row is not None and self._grid.free[row]:
            self._grid.take(row)
            params, distributions = self._grid.params(row), self._distributions
            trial = optuna.trial.create_trial(state=state, value=value, params=params, distributions=distributions)
            self._study.add_trial(trial)
        elif row is not None and (number := self._trials.pop(row, None)) is not None:
            trial = self._study.tell(number, value, state=state)
        else:
            return
        if self._kept is not None:
            self._kept.add_trial(trial)


class CategoricalDistribution(optuna.distributions.CategoricalDistribution):
    """Optuna's distribution without copies and comparisons by value, as it never changes.

    Optuna does both several times a knob and trial, which takes longer than the model.
    """

    __hash__ = optuna.distributions.CategoricalDistribution.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other or super().__eq__(other)

    def __copy__(self) -> CategoricalDistribution:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> CategoricalDistribution:
        return self


class NearestLegalSampler(WholeSampler):
    """Wraps a sampler: each proposal becomes the nearest legal row that was not proposed before."""

    def __init__(self, sampler: BaseSampler, grid: Grid, *, first: list[int]) -> None:
        super().__init__(grid, category=CategoricalDistribution)
        self._sampler, self._first = sampler, first

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Proposes all knobs at once: one alone cannot be repaired."""
        while self._first:
            row = self._first.pop(0)
            if self._grid.free[row]:
                return self._grid.params(row)
        sampler = self._sampler
        params = sampler.sample_relative(study, trial, sampler.infer_relative_search_space(study, trial))
        for name, one in search_space.items():
            if name not in params:
                params[name] = sampler.sample_independent(study, trial, name, one)
        found = self._grid.row_of(params)
        if found is None or not self._grid.free[found]:
            found = self._grid.space.nearest(params, among=self._grid.free)
        return self._grid.params(found)

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        self._sampler.before_trial(study, trial)

    def after_trial(self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None) -> None:
        self._sampler.after_trial(study, trial, state, values)


def kept_study(path: Path, about: Mapping[str, str]) -> Study:
    """A new study in a file that `optuna-dashboard` and `optuna.load_study` can read while it grows."""
    with quiet():
        study = optuna.create_study(storage=JournalStorage(Journal(path)), study_name=path.stem)
        study.set_metric_names(["log(microseconds)"])
    for name, value in about.items():
        study.set_user_attr(name, value)
    return study


class Journal(BaseJournalBackend):
    """A study's file: Optuna's journal, which other programs may read while it grows. Only this process writes it.

    Optuna's own backend takes a lock and waits for the disk with each line, 10 ms a candidate. Here a line is with the
    system when it is written; nothing reads it again but people, so a power failure may have the last ones.
    """

    def __init__(self, path: Path) -> None:
        """A new file in the place of what is there."""
        self._path = path
        self._new: list[dict[str, Any]] = []
        self._trial = False
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        self._write(b"", os.O_CREAT | os.O_EXCL)

    def read_logs(self, log_number_from: int) -> list[dict[str, Any]]:
        """The logs since the last read, by the storage of this process."""
        del log_number_from
        new, self._new = self._new, []
        return new

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        lines = [json.dumps(log, separators=(",", ":")) for log in logs]
        self._write("".join(f"{line}\n" for line in lines).encode())
        for log in logs:  # Optuna keeps what it reads, and nobody asks this process for trials: it must know one
            if "params" not in log or not self._trial:
                self._new.append(log)
            self._trial |= "params" in log

    def _write(self, text: bytes, how: int = 0) -> None:
        try:
            with open(os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | how, 0o666), "ab") as file:
                file.write(text)
        except OSError as error:
            raise StorageError(f"cannot write {self._path}: {error.strerror}.", remedy="Free some space.") from error


def make_search(
    space: Space, *, seed: int, sampler: str = GUIDED, first: Sequence[Config] = (), kept: Study | None = None
) -> Search:
    """A search over this space by the sampler of this name."""
    return Search(space, make_sampler(sampler, space, seed=seed), first=first, kept=kept)


def make_sampler(name: str, space: Space, *, seed: int) -> BaseSampler:
    """The sampler that --sampler names."""
    if name == GUIDED:
        return GuidedSampler(space, seed=seed)
    make = sampler_maker(name)
    seeded = "seed" in inspect.signature(make).parameters
    with quiet():
        sampler = make(seed=seed % 2**32) if seeded else make()
    if not isinstance(sampler, BaseSampler):
        raise UsageError(f"--sampler {name} gives no sampler of Optuna's.", remedy="Name a subclass of BaseSampler.")
    return sampler


def sampler_maker(name: str) -> Callable[..., BaseSampler]:
    """The factory of a sampler by name, Optuna's or the user's own."""
    if name == "gp" and (missing := [one for one in ("scipy", "torch") if find_spec(one) is None]):
        raise EnvironmentFailure(f"--sampler gp needs {' and '.join(missing)}.", remedy="Run: pip install torch scipy")
    if name in OPTUNA:
        return OPTUNA[name]
    if ":" not in name:
        known = ", ".join([GUIDED, *OPTUNA])
        raise UsageError(f"unknown --sampler {name!r}.", remedy=f"Choose one of: {known}, or name MODULE:CLASS.")
    module, _, attribute = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        remedy = "It must be installed, or its folder in PYTHONPATH."
        raise UsageError(f"--sampler {name} cannot be loaded: {error}.", remedy=remedy) from error
    return found  # type: ignore[no-any-return]


@contextmanager
def quiet() -> Iterator[None]:
    """Silences Optuna's reports and its warnings of experimental features."""
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        optuna.logging.set_verbosity(verbosity)
