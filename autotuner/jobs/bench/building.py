"""What is made before anything is timed: IREE's modules, the inputs, and what must come out of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Protocol

from autotuner.build import Compiled
from autotuner.devices.device import Computed
from autotuner.devices.resident import Tensor, read_call
from autotuner.errors import AutotuneError, NoCandidateError
from autotuner.iree.compile import FailureClass
from autotuner.iree.run import Invocation
from autotuner.jobs.ab.arms import Arm
from autotuner.jobs.ab.recipe import ArmSite, Recipe
from autotuner.jobs.bench.tasks import Task, task_of
from autotuner.measure.check import RANDOM, Check, Data, Expected, compare
from autotuner.problems import Problem
from autotuner.problems.accuracy import last_rounding
from autotuner.problems.render import problem_mlir
from autotuner.programs.program import ModelProgram
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
    """Where IREE compiles a program: a problem's text, or the file of a model."""

    name: str
    program: str | Path
    flags: tuple[str, ...]
    """The program's own."""
    target: Target
    session: Session
    timeout: float
    folder: Path
    problem: Problem | None = None

    @classmethod
    def of(cls, problem: Problem, target: Target, session: Session, *, timeout: float, folder: Path) -> Site:
        return cls(problem.name, problem_mlir(problem), problem.flags, target, session, timeout, folder, problem)

    def start(self, arm: Arm) -> Future[Built]:
        """Compiles it with what an arm brings, with the proof that this arrives."""
        return self.session.executor.here.submit(self._build, arm)

    def rebuild(self, recipe: Recipe, repeat: int) -> Compiled:
        """The same code with its dispatches repeated."""
        return self.session.executor.start(recipe.job(self.program, timeout=self.timeout, repeat=repeat)).result()

    def _build(self, arm: Arm) -> Built:
        folder = self.folder / arm.kind
        folder.mkdir(parents=True, exist_ok=True)
        session = self.session
        site = ArmSite.within(
            session,
            self.target,
            program=self.program,
            flags=self.flags,
            problem=self.problem,
            folder=folder,
            timeout=self.timeout,
        )
        try:
            recipe = arm.recipe(site)
        except NoCandidateError as error:
            return Built(failure="not-applied", detail=str(error))
        except AutotuneError as error:
            return Built(failure="compile-error", detail=str(error))
        job = recipe.job(self.program, timeout=self.timeout)
        if isinstance(self.program, Path):  # it is compiled where its file lies
            made = session.builder.build(replace(job, timed=False))
        else:
            made = session.executor.start(job).result()
        return Built(recipe, made, made.failure, made.stderr if made.failure else "")


class Given(Protocol):
    """The inputs that all backends get, as files, and the answer that each must come to."""

    @property
    def described(self) -> Mapping[str, Any]:
        """What is computed, as documents have it."""

    @property
    def task(self) -> Task:
        """The same for the scripts of other libraries."""

    @property
    def invocation(self) -> Invocation: ...

    @property
    def tensors(self) -> tuple[Tensor, ...]: ...

    @property
    def elements(self) -> tuple[str, ...]:
        """The types of what must come out."""

    @property
    def repeated(self) -> bool:
        """Its dispatches may be repeated for timing, and its inputs taken in turns for a cold cache."""

    def check(self, computed: Computed, elements: Sequence[str]) -> Check:
        """Is the answer right?"""


@dataclass(frozen=True)
class ProblemGiven:
    """A problem, with a reference."""

    problem: Problem
    invocation: Invocation
    tensors: tuple[Tensor, ...]
    expected: Expected = field(repr=False)

    repeated: ClassVar[bool] = True

    @classmethod
    def make(cls, problem: Problem, folder: Path, *, seed: int) -> ProblemGiven:
        data = Data.write(problem, folder, seed=seed)
        inputs = data.inputs[RANDOM]
        paths = zip(data.paths(RANDOM), problem.operands[: -problem.results], strict=False)
        tensors = tuple(Tensor(path, operand.shape, operand.element.mlir) for path, operand in paths)
        reference = problem.reference(inputs)
        if reference is None:
            raise NoCandidateError(f"{problem.name} has no reference to compare with.")
        return cls(problem, data.invocation(), tensors, Expected(reference, problem.bound(inputs, reference)))

    @property
    def described(self) -> Mapping[str, Any]:
        return {**self.problem.describe(), "arguments": " ".join(self.problem.arguments())}

    @property
    def task(self) -> Task:
        return task_of(self.problem)

    @property
    def elements(self) -> tuple[str, ...]:
        return (self.problem.output.element.mlir,)

    def check(self, computed: Computed, elements: Sequence[str]) -> Check:
        """Against the reference; a result of a narrower type may be off by its last rounding too."""
        if computed.failure is not None:
            return Check(computed.failure, math.inf, computed.detail)
        right, (out,), (element,) = self.expected, computed.arrays, elements
        if out.size != right.reference.size:
            detail = f"{out.size} elements came out, not {right.reference.size}"
            return Check("wrong-result", math.inf, detail)
        bound = right.bound
        if element != self.elements[0]:
            bound = replace(bound, slack=bound.slack + last_rounding(right.reference, element))
        return compare(out.reshape(right.reference.shape), right.reference, bound)


@dataclass
class ModelGiven:
    """A model: the first backend's outputs are what the others are compared with; the arbiter says who is right."""

    inside: ModelProgram
    described: Mapping[str, Any]
    path: Path
    """As other libraries take it: in ONNX."""
    tensors: tuple[Tensor, ...]
    _begun: bool = False

    repeated: ClassVar[bool] = False

    @classmethod
    def make(cls, inside: ModelProgram, described: Mapping[str, Any], path: Path, folder: Path) -> ModelGiven:
        folder.mkdir(parents=True, exist_ok=True)
        call = read_call(inside.call, folder)
        return cls(inside, described, path, call.inputs if call is not None else ())

    @property
    def task(self) -> Task:
        return {"op": "model", "path": str(self.path.absolute()), "format": self.path.suffix.removeprefix(".")}

    @property
    def invocation(self) -> Invocation:
        return self.inside.call

    @property
    def elements(self) -> tuple[str, ...]:
        return self.inside.call.results

    def check(self, computed: Computed, elements: Sequence[str]) -> Check:
        del elements  # their sizes and values are compared
        if computed.failure is not None:
            return Check(computed.failure, math.inf, computed.detail)
        if len(computed.arrays) != len(self.elements):
            count = f"{len(computed.arrays)} outputs came out, not {len(self.elements)}"
            return Check("wrong-result", math.inf, count)
        if not self._begun:
            self._begun = True
            return self.inside.arbiter.begin(computed)
        return self.inside.arbiter.check(computed)


def input_bytes(given: Given) -> int:
    return sum(one.file.stat().st_size for one in given.tensors)
