"""Programs, which are compiled, called, checked and timed: a problem with a reference, or a model with an arbiter.

Jobs treat both alike.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from autotuner.devices.device import Computed, Device
from autotuner.iree.run import Invocation
from autotuner.measure.check import Check, Checker, Data, compare
from autotuner.problems import Array, Bound, Problem
from autotuner.problems.accuracy import Precision
from autotuner.problems.render import Rows, dynamic_gemm_mlir, problem_mlir
from autotuner.programs.arbiter import Arbiter
from autotuner.programs.model import Model


@dataclass(frozen=True)
class Answer:
    """A module's outputs, and their check."""

    arrays: tuple[Array, ...] = field(repr=False)
    check: Check
    seconds: float | None = None
    """Seconds of the call, where the device tells."""


def difference(one: Answer, other: Answer) -> float:
    """The largest relative error between the outputs of two modules."""
    pairs = zip(other.arrays, one.arrays, strict=True)
    errors = [compare(b, a.astype(np.float64), Bound(math.inf)).error for b, a in pairs]
    return max(errors, default=0.0)


@dataclass(frozen=True)
class ProblemProgram:
    """A problem."""

    problem: Problem
    device: Device
    seed: int
    timeout: float
    folder: Path
    """The folder of its inputs."""
    rows: Rows | None = None
    """The range of a product's M, in a program that learns it when it runs."""

    repeated = True
    arbiter = None

    @property
    def name(self) -> str:
        return self.problem.name

    @property
    def flags(self) -> tuple[str, ...]:
        return self.problem.flags

    @property
    def allow(self) -> Precision:
        return self.problem.allow

    @property
    def source(self) -> str:
        return problem_mlir(self.problem) if self.rows is None else dynamic_gemm_mlir(self.problem, rows=self.rows)

    def invocation(self) -> Invocation:
        return Data.write(self.problem, self.folder / "inputs", seed=self.seed).invocation()

    def answer(self, vmfb: Path, against: Answer | None) -> Answer:
        del against  # what is right is known without it
        out, check = self._checker.answer(vmfb)
        return Answer(out, check)

    @property
    def storage(self) -> int:
        return len(self.problem.outputs)

    def agree(self, found: Computed, other: Computed) -> Check:
        return self._checker.agree(found, other)

    @cached_property
    def _checker(self) -> Checker:
        data = Data(self.problem, self.folder / "inputs", self.seed)
        return data.checker(self.device, timeout=self.timeout)


@dataclass(frozen=True)
class ModelProgram:
    """A model."""

    model: Model
    call: Invocation
    device: Device
    timeout: float
    arbiter: Arbiter
    """Decides whether outputs are right."""
    problem: Problem | None = None
    allow: Precision = ""

    repeated = False
    flags = ()
    storage = 0

    @property
    def name(self) -> str:
        return self.model.name

    @property
    def source(self) -> Path:
        return self.model.source

    def invocation(self) -> Invocation:
        return self.call

    def answer(self, vmfb: Path, against: Answer | None) -> Answer:
        outputs = self.outputs(vmfb)
        if outputs.failure is not None:
            return Answer((), Check(outputs.failure, math.inf, outputs.detail))
        if against is None:
            check = self.arbiter.begin(outputs)
        else:
            check = self.arbiter.check(outputs)
        return Answer(outputs.arrays, check, outputs.seconds)

    def agree(self, found: Computed, other: Computed) -> Check:
        return self.arbiter.agree(found, other)

    def outputs(self, vmfb: Path) -> Computed:
        """The outputs of one call of a module."""
        (outputs,) = self.device.check(vmfb, [self.call], timeout=self.timeout)
        return outputs


Program = ProblemProgram | ModelProgram
"""A program with its invocation and its check."""
