"""Workloads and experiments from Python, in one call each, as the commands `suite` and `ab` do them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Unpack

from autotuner.errors import UsageError
from autotuner.jobs.ab.arms import DEFAULT, parse_arm
from autotuner.jobs.ab.inputs import problem_inputs
from autotuner.jobs.ab.opening import Experiment
from autotuner.jobs.ab.result import AbResult
from autotuner.jobs.ab.run import run_experiment
from autotuner.jobs.ab.variants import experiment_options, search_variants
from autotuner.jobs.model.context import Model
from autotuner.jobs.suite import THRESHOLD
from autotuner.jobs.suite.load import load
from autotuner.jobs.suite.result import SuiteResult
from autotuner.jobs.suite.run import Selection, tune_suite
from autotuner.problems import Problem
from autotuner.targets import Target
from autotuner.tuning.options import Options
from autotuner.tuning.session import Watched


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
    selection = Selection(load(workload), threshold=threshold, sample=sample)
    return tune_suite(selection, target, options=options, **watched)


def ab(
    a: str,
    b: str | None = None,
    *,
    target: Target,
    problem: Problem | None = None,
    model: Model | None = None,
    inputs: Sequence[str] = (),
    trust: bool = False,
    options: Options | None = None,
    **watched: Unpack[Watched],
) -> AbResult:
    """Races two ways to compile a problem or a model; `a` alone races IREE's default.

    Each is a microkernel's name, a spec (.mlir), a flagfile (.flags), the path of an iree-compile, or `default`. A
    microkernel alone with a problem is searched: all its variants take part.
    """
    if problem is None and model is None:
        raise UsageError("ab needs a problem or a model.", remedy="Give problem=Gemm.parse(…) or model=Model(…).")
    options = options or Options()
    parse = partial(parse_arm, workspace=options.workspace, trust=trust)
    first = parse(a)
    if b is None and first.kernels and problem is not None and model is None:
        arrays = problem_inputs(inputs, target.prepare(problem), seed=options.seed)
        wanted = replace(experiment_options(options, first.kernels[0]), inputs=arrays)
        return search_variants(problem, target, options=wanted, **watched)
    arms = (first, parse(b)) if b is not None else (DEFAULT, first)
    return run_experiment(Experiment(*arms, problem, model, tuple(inputs)), target, options=options, **watched)
