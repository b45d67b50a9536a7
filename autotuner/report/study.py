"""Runs as studies of Optuna, for its dashboard: a trial a candidate.

Optuna tells the importance of parameters that all timed trials have, and each route has knobs of its own, IREE's
default none. So a run is a study over its routes, of all candidates, and one over the knobs of each route.

They are written as a journal, Optuna's file of JSON lines: in its tables in SQL each trial takes many times as long.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial, TrialState

from autotuner.errors import UsageError
from autotuner.search.tpe import quiet
from autotuner.space.table import ABSENT, Value
from autotuner.store.rows import CandidateRow, RunRow
from autotuner.store.store import Store

METRIC, ROUTE, DEFAULT = "µs", "route", "default"
_STATES = {"timed": TrialState.COMPLETE, "failed": TrialState.FAIL, "duplicate": TrialState.PRUNED}
"""What is built to the binary of another is not timed again. What is only asked for is no trial yet."""


def export_studies(store: Store, run: str | None = None) -> bytes:
    """The journal of one run and its parts, or of all runs: whichever have candidates."""
    wanted = [store.run(run), *store.parts(run)] if run is not None else store.runs()[::-1]
    known = {owner.id: [row for row in store.candidates(owner.id) if row.state in _STATES] for owner in wanted}
    found = [(owner, known[owner.id]) for owner in wanted if known[owner.id]]
    if not found:
        raise UsageError("there is no candidate to export.", remedy="`autotune history` lists the runs.")
    with tempfile.TemporaryDirectory() as folder, quiet():
        file = Path(folder) / "journal"
        storage = JournalStorage(JournalFileBackend(str(file)))
        for owner, candidates in found:
            _write(storage, store, owner, candidates)
        return file.read_bytes()


def _write(storage: JournalStorage, store: Store, run: RunRow, candidates: Sequence[CandidateRow]) -> None:
    name, about = f"{run.problem.get('name', '')} {run.id}".strip(), _about(store, run)
    times = {one: [timing.time for timing in own] for one, own in store.timings_by_candidate(run.id).items()}
    baseline = min((c.us for c in candidates if c.kind == "baseline" and c.us), default=None)
    for title, parameters in _studies(candidates).items():
        study = optuna.create_study(storage=storage, study_name=f"{name} {title}".strip())
        study.set_metric_names([METRIC])
        for attribute, value in about.items():
            study.set_user_attr(attribute, value)
        space = distributions(parameters.values())
        trials = [
            _trial(one, parameters[one.id], space, times.get(one.id, [run.started]), baseline)
            for one in candidates
            if one.id in parameters
        ]
        study.add_trials(trials)


def _studies(candidates: Sequence[CandidateRow]) -> dict[str, dict[int, Mapping[str, Value]]]:
    """What the name of a study ends with -> its candidates -> their parameters."""
    studies: dict[str, dict[int, Mapping[str, Value]]] = {"": {one.id: {ROUTE: _route(one)} for one in candidates}}
    for one in candidates:
        if knobs := _knobs(one):
            studies.setdefault(f"knobs of {_route(one)}", {})[one.id] = knobs
    return studies


def _about(store: Store, run: RunRow) -> dict[str, Any]:
    """What the dashboard shows of a study beside its trials."""
    result, where = run.result or {}, store.environment(run.id)
    speedup = result.get("speedup") or {}
    facts = {
        "run": run.id,
        "problem": run.problem.get("name"),
        "target": run.target,
        "device": where.get("device_name") or run.device,
        "iree": where.get("iree"),
        "command": " ".join(run.command),
        "status": run.status,
        "verdict": result.get("verdict"),
        "reason": result.get("reason"),
        "speedup": speedup.get("median"),
        "speedup_interval": [speedup["low"], speedup["high"]] if speedup else None,
        "spec": result.get("spec"),
        "space": run.space_size,
    }
    return {name: value for name, value in facts.items() if value is not None}


def distributions(parameters: Iterable[Mapping[str, Value]]) -> dict[str, BaseDistribution]:
    """Each parameter over the values that were tried: numbers in their order, which the plots need, else categories."""
    tried: dict[str, dict[Value, None]] = {}
    for one in parameters:
        for name, value in one.items():
            tried.setdefault(name, {})[value] = None
    return {name: _distribution(list(values)) for name, values in tried.items()}


def _distribution(values: Sequence[Value]) -> BaseDistribution:
    numbers = [value for value in values if isinstance(value, int) and not isinstance(value, bool)]
    if len(numbers) < len(values):
        return CategoricalDistribution([str(value) for value in values])
    powers = all(number > 0 and number & (number - 1) == 0 for number in numbers)
    return IntDistribution(min(numbers), max(numbers), log=powers and len(numbers) > 2)


def _knobs(candidate: CandidateRow) -> Mapping[str, Value]:
    """Those that have a say in its route; the route itself is none of them."""
    return {name: value for name, value in candidate.config.as_dict().items() if value != ABSENT and name != ROUTE}


def _route(candidate: CandidateRow) -> str:
    return DEFAULT if candidate.kind == "baseline" else candidate.route or candidate.kind


def _trial(
    candidate: CandidateRow,
    parameters: Mapping[str, Value],
    space: Mapping[str, BaseDistribution],
    times: Sequence[datetime],
    baseline: float | None,
) -> FrozenTrial:
    attributes = {
        "ordinal": candidate.ordinal,
        "kind": candidate.kind,
        "route": candidate.route,
        "speedup": baseline / candidate.us if baseline and candidate.us else None,
        "error": candidate.error,
        "failure": candidate.failure,
        "stderr": candidate.stderr.partition("\n")[0],
        "spec": candidate.spec,
    }
    state = _STATES[candidate.state]
    trial = optuna.trial.create_trial(
        state=state,
        value=candidate.us if state is TrialState.COMPLETE else None,
        params={
            name: value if isinstance(space[name], IntDistribution) else str(value)
            for name, value in parameters.items()
        },
        distributions={name: space[name] for name in parameters},
        user_attrs={name: value for name, value in attributes.items() if value not in (None, "")},
    )
    # Optuna's clocks have no zone; theirs is the machine's.
    trial.datetime_start, trial.datetime_complete = (
        at.astimezone().replace(tzinfo=None) for at in (min(times), max(times))
    )
    return trial
