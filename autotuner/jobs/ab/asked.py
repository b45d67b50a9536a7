"""What a user asks of an experiment: a microkernel alone has its variants searched, anything else races two arms."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Unpack

from autotuner.errors import AutotuneError, UsageError
from autotuner.jobs.ab.arms import DEFAULT, Arm
from autotuner.jobs.ab.inputs import problem_inputs
from autotuner.jobs.ab.opening import Experiment
from autotuner.jobs.ab.rehearsal import Rehearsal, rehearse_experiment
from autotuner.jobs.ab.result import AbResult
from autotuner.jobs.ab.run import run_experiment
from autotuner.jobs.ab.variants import ALONE, experiment_options, failure, search_variants
from autotuner.microkernels.variants import Kernel
from autotuner.problems import Problem
from autotuner.programs.model import Model
from autotuner.targets import Target
from autotuner.tuning.dry_run import Rehearsal as DryRun
from autotuner.tuning.dry_run import rehearse
from autotuner.tuning.options import Options
from autotuner.tuning.session import Watched


@dataclass(frozen=True)
class Asked:
    """One arm, which races IREE's default, or two; and what both compile."""

    first: Arm
    second: Arm | None = None
    problem: Problem | None = None
    model: Model | None = None
    inputs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.problem is None and self.model is None:
            raise UsageError("ab needs a problem or a model.", remedy="Give --shape or --model.")

    @property
    def searched(self) -> Kernel | None:
        """The microkernel whose variants all take part: it is alone, and so is the problem."""
        if self.second is None and self.model is None and self.problem is not None and self.first.kernels:
            return self.first.kernels[0]
        return None

    @property
    def arms(self) -> tuple[Arm, Arm]:
        return (DEFAULT, self.first) if self.second is None else (self.first, self.second)

    @property
    def experiment(self) -> Experiment:
        return Experiment(*self.arms, self.problem, self.model, self.inputs)

    def rehearse(self, target: Target, *, options: Options) -> Rehearsal | DryRun:
        """What would be done, without doing it."""
        if self.searched is not None and self.problem is not None:
            wanted = self._search(self.searched, self.problem, target, options)
            return rehearse(self.problem, target, options=wanted, task=ALONE)
        return rehearse_experiment(self.experiment, target, options=options)

    def run(self, target: Target, *, options: Options, **watched: Unpack[Watched]) -> AbResult:
        if self.searched is not None and self.problem is not None:
            wanted = self._search(self.searched, self.problem, target, options)
            return search_variants(self.problem, target, options=wanted, **watched)
        return run_experiment(self.experiment, target, options=options, **watched)

    def failure(self, result: AbResult) -> AutotuneError | None:
        """A microkernel that never worked is no slow one: the user must know."""
        return failure(self.searched, result) if self.searched is not None else None

    def _search(self, kernel: Kernel, problem: Problem, target: Target, options: Options) -> Options:
        arrays = problem_inputs(self.inputs, target.prepare(problem), seed=options.seed)
        return replace(experiment_options(options, kernel), inputs=arrays)
