"""Problems, models, workloads, experiments and retuning from Python, in one call each, as the commands do."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, Unpack

from autotuner.jobs.ab.arms import parse_arm
from autotuner.jobs.ab.opening import Experiment
from autotuner.jobs.ab.result import AbResult
from autotuner.jobs.ab.variants import run_ab
from autotuner.jobs.model.result import ModelResult
from autotuner.jobs.model.tuner import tune_model as tune_whole
from autotuner.jobs.opening import remembering
from autotuner.jobs.retune.plan import Wanted
from autotuner.jobs.retune.result import RetuneResult
from autotuner.jobs.retune.run import retune as retune_specs
from autotuner.jobs.suite import THRESHOLD
from autotuner.jobs.suite.load import load
from autotuner.jobs.suite.result import SuiteResult
from autotuner.jobs.suite.run import Selection, tune_suite
from autotuner.problems import Problem
from autotuner.programs.model import Model
from autotuner.targets import Target
from autotuner.tuning.options import Options
from autotuner.tuning.printer import OneProblem
from autotuner.tuning.result import Result, with_details
from autotuner.tuning.session import Watched
from autotuner.tuning.tune import tune as tune_problem


def tune(
    problem: Problem, target: Target, *, options: Options | None = None, **watched: Unpack[Watched]
) -> Result[Any]:
    """Searches for a configuration that beats IREE's default, and proves what it claims."""
    result = tune_problem(problem, target, options=remembering(options), **watched)
    return with_details(result, OneProblem(result.default_is_wrong))


def tune_model(
    model: Model,
    target: Target,
    *,
    options: Options | None = None,
    **watched: Unpack[Watched],
) -> ModelResult:
    """Makes a model faster: by flags, and by a spec for the dispatches that take its time."""
    return tune_whole(model, target, options=remembering(options), **watched)


def suite(
    workload: str,
    target: Target,
    *,
    threshold: float = THRESHOLD,
    sample: int | None = None,
    options: Options | None = None,
    **watched: Unpack[Watched],
) -> SuiteResult:
    """Tunes a workload: a suite's name, or a file as `autotune suite` takes it.

    What takes less than `threshold` per cent of the time is left out; `sample` takes so many problems by the seed.
    """
    selection = Selection(load(workload, dtype=target.usual_dtype), threshold=threshold, sample=sample)
    return tune_suite(selection, target, options=remembering(options), **watched)


def ab(
    a: str,
    b: str | None = None,
    *,
    target: Target,
    problem: Problem | None = None,
    model: Model | None = None,
    trust: bool = False,
    options: Options | None = None,
    **watched: Unpack[Watched],
) -> AbResult:
    """Races two ways to compile a problem or a model; `a` alone races IREE's default.

    Each is a microkernel's name, a spec (.mlir), a flagfile (.flags), or `default`. A
    microkernel alone with a problem is searched: all its variants take part.
    """
    options = remembering(options)
    parse = partial(parse_arm, workspace=options.workspace, trust=trust)
    asked = Experiment.of(parse(a), parse(b) if b is not None else None, problem, model)
    return run_ab(asked, target, options=options, **watched)


def retune(
    path: str | Path,
    *,
    target: Target | None = None,
    model: Model | None = None,
    trust: bool = False,
    options: Options | None = None,
    **watched: Unpack[Watched],
) -> RetuneResult:
    """Proves and races every entry of a spec or a workspace again, with the IREE of `options`.

    Without `target` it is the one that the specs record; `model` is the program of a model's spec.
    `result.details.rows` has each entry with its `state` and `reason`, `result.details.written` the new files.
    """
    wanted = Wanted(Path(path), target=target, model=model, trust=trust)
    return retune_specs(wanted, options=remembering(options), **watched)
