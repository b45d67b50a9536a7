"""What is made before anything is timed: IREE's modules, the inputs, and what must come out of them."""

from __future__ import annotations

import math
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path

from autotuner.build import Compiled
from autotuner.carriers.render import problem_mlir
from autotuner.devices.device import Computed
from autotuner.devices.inputs import Tensor
from autotuner.errors import AutotuneError, NoCandidateError
from autotuner.iree.compile import FailureClass
from autotuner.iree.run import Invocation
from autotuner.jobs.ab.arms import Arm
from autotuner.jobs.ab.recipe import ArmSite, Recipe
from autotuner.measure.check import RANDOM, Check, Data, Expected, compare
from autotuner.microkernels.variants import kernel_chip
from autotuner.problems import Problem
from autotuner.problems.accuracy import last_rounding
from autotuner.problems.dtypes import element_type
from autotuner.targets import Target
from autotuner.tuning.session import Session


@dataclass(frozen=True)
class Built:
    """A module with what makes it, or why there is none."""

    recipe: Recipe | None = None
    module: Compiled | None = None
    failure: FailureClass | None = None
    detail: str = ""


@dataclass(frozen=True)
class Site:
    """Where IREE compiles a problem."""

    problem: Problem
    target: Target
    session: Session
    timeout: float
    folder: Path

    def start(self, arm: Arm) -> Future[Built]:
        """Compiles it with what an arm brings, with the proof that this arrives."""
        return self.session.executor.here.submit(self._build, arm)

    def rebuild(self, recipe: Recipe, repeat: int) -> Compiled:
        """The same code with its dispatches repeated."""
        job = recipe.job(self._program, timeout=self.timeout, repeat=repeat)
        return self.session.executor.start(job).result()

    def _build(self, arm: Arm) -> Built:
        folder = self.folder / arm.kind
        folder.mkdir(parents=True, exist_ok=True)
        target, session = self.target, self.session
        site = ArmSite(
            program=self._program,
            flags=(*self.problem.flags, *target.compile_flags),
            target=target,
            chip=kernel_chip(target, session.device),
            tools=session.tools,
            workspace=session.workspace.root,
            folder=folder,
            timeout=self.timeout,
            problem=self.problem,
        )
        try:
            recipe = arm.recipe(site)
        except NoCandidateError as error:
            return Built(failure="not-applied", detail=str(error))
        except AutotuneError as error:
            return Built(failure="compile-error", detail=str(error))
        made = session.executor.start(recipe.job(self._program, timeout=self.timeout)).result()
        return Built(recipe, made, made.failure, made.stderr if made.failure else "")

    @property
    def _program(self) -> str:
        return problem_mlir(self.problem)


@dataclass(frozen=True)
class Given:
    """The inputs that all backends get, as files, and the answer that each must come to."""

    invocation: Invocation
    tensors: tuple[Tensor, ...]
    expected: Expected = field(repr=False)

    @classmethod
    def make(cls, problem: Problem, folder: Path, *, seed: int) -> Given:
        data = Data.write(problem, folder, seed=seed)
        inputs = data.inputs[RANDOM]
        paths = zip(data.paths(RANDOM), problem.operands[: -problem.results], strict=False)
        tensors = tuple(Tensor(path, operand.shape, operand.element.mlir) for path, operand in paths)
        reference = problem.reference(inputs)
        if reference is None:
            raise NoCandidateError(f"{problem.name} has no reference to compare with.")
        return cls(data.invocation(), tensors, Expected(reference, problem.bound(inputs, reference)))

    @property
    def bytes(self) -> int:
        return sum(one.file.stat().st_size for one in self.tensors)

    def check(self, computed: Computed, element: str) -> Check:
        """A result against the reference; one of a narrower type may be off by its last rounding too."""
        if computed.failure is not None:
            return Check(computed.failure, math.inf, computed.detail)
        right, (out,) = self.expected, computed.arrays
        if out.size != right.reference.size:
            detail = f"{out.size} elements came out, not {right.reference.size}"
            return Check("wrong-result", math.inf, detail)
        bound = right.bound
        if element_type(element).is_float and out.dtype.itemsize < element_type("f32").bytes:
            bound = replace(bound, slack=bound.slack + last_rounding(right.reference, element))
        return compare(out.reshape(right.reference.shape), right.reference, bound)
