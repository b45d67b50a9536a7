"""Is the output right? Once per distinct binary, on seeded inputs, into storage that was poisoned first."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from autotuner import process
from autotuner.build import FailureClass
from autotuner.errors import EnvironmentFailure
from autotuner.problems import Array, Problem
from autotuner.render import FUNCTION
from autotuner.tools import Tools

_WORST = 50.0
"""One wrong element hides in the norm of a large output: each may be off by this many tolerances of the RMS."""


@dataclass(frozen=True, slots=True)
class Check:
    """What the comparison with the reference came to."""

    failure: FailureClass | None
    error: float
    detail: str = ""

    @property
    def ok(self) -> bool:
        return self.failure is None


@dataclass(frozen=True)
class Data:
    """A problem's inputs as files that IREE's tools read, and the answer that must come out."""

    problem: Problem
    folder: Path
    seed: int
    given: tuple[Array, ...] = field(default=(), repr=False, compare=False)
    """The user's inputs, one for each of the problem's; empty: seeded ones."""
    learnt: Array | None = None
    """What IREE's default computes, for problems that have no reference of their own."""

    function = FUNCTION

    @classmethod
    def write(cls, problem: Problem, folder: Path, *, seed: int, given: Sequence[Array] = ()) -> Data:
        data = cls(problem, folder, seed, tuple(given))
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for path, array in zip(data.paths, [*data.inputs, poison(problem)], strict=True):
                array.tofile(path)
        except OSError as error:
            raise EnvironmentFailure(
                f"cannot write the inputs to {folder}: {error.strerror}.",
                remedy="Free some space or choose another --workspace.",
            ) from error
        return data

    @cached_property
    def inputs(self) -> tuple[Array, ...]:
        return self.given or self.problem.inputs(self.seed)

    @cached_property
    def reference(self) -> Array | None:
        return self.problem.reference(self.inputs) if self.learnt is None else self.learnt

    @property
    def paths(self) -> list[Path]:
        names = [f"input{i}.bin" for i in range(len(self.problem.operands) - 1)] + ["poison.bin"]
        return [self.folder / name for name in names]

    @property
    def arguments(self) -> list[str]:
        """The --input flags; the last is the storage of the result."""
        pairs = zip(self.problem.operands, self.paths, strict=True)
        return [f"--input={operand.text}=@{path}" for operand, path in pairs]


def poison(problem: Problem) -> Array:
    """What the output's storage holds before: NaN, or a pattern that no right integer result would repeat."""
    output = problem.output
    if output.element.is_float:
        return np.full(output.shape, np.nan, np.float32).astype(output.element.numpy)
    return np.full(output.shape, 0x5A5A5A5A, np.int64).astype(output.element.numpy)


def compare(out: Array, reference: Array, *, tolerance: float) -> Check:
    """Relative error in the norm, and the worst single element; NaN never passes."""
    difference = out.astype(reference.dtype) - reference
    norm = float(np.linalg.norm(reference))
    error = float(np.linalg.norm(difference)) / (norm or 1.0)
    bound = tolerance
    rms = norm / math.sqrt(reference.size) or 1.0
    index = int(np.abs(difference).argmax())  # of a NaN, when there is one
    worst = float(np.abs(difference).flat[index]) / rms
    if error <= bound and worst <= _WORST * bound:
        return Check(None, error)
    at = tuple(int(i) for i in np.unravel_index(index, reference.shape))
    detail = f"relative error {error:.3g}, allowed {bound:.3g}; element {at} is off by {worst:.3g} RMS"
    return Check("wrong-result", error, f"{detail}, allowed {_WORST * bound:.3g}")


@dataclass(frozen=True)
class Checker:
    """Runs modules and compares what they compute."""

    tools: Tools
    data: Data
    device: str
    timeout: float

    def check(self, vmfb: Path) -> Check:
        out = self.output(vmfb)
        return out if isinstance(out, Check) else self.compared(out)

    def compared(self, out: Array) -> Check:
        """An output against the reference."""
        reference = self.data.reference
        if reference is None:
            raise ValueError(f"nothing is known yet of what {self.data.problem.name} computes")
        return compare(out, reference, tolerance=self.data.problem.tolerance)

    def taught(self, vmfb: Path) -> tuple[Checker, Check]:
        """The checker that takes this module's result for the right one, if it can be one: all written, and finite."""
        out = self.output(vmfb)
        if isinstance(out, Check):
            return self, out
        wide = out.astype(np.float64)
        if not np.isfinite(wide).all():
            return self, Check("wrong-result", math.inf, "its result is not finite")
        return replace(self, data=replace(self.data, learnt=wide)), Check(None, 0.0)

    def output(self, vmfb: Path) -> Array | Check:
        """What the module computes, or why it does not."""
        result = self.data.folder / "output.bin"
        result.unlink(missing_ok=True)
        done = process.run(self.command(vmfb, result), timeout=self.timeout)
        if done.timed_out:
            return Check("run-timeout", math.inf, done.why())
        if not done.ok or not result.is_file():
            return Check("run-error", math.inf, done.why())
        output = self.data.problem.output
        out = np.fromfile(result, output.element.numpy)
        if out.size != math.prod(output.shape):
            return Check("wrong-result", math.inf, f"{out.size} elements came out, not {math.prod(output.shape)}")
        return out.reshape(output.shape)

    def command(self, vmfb: Path, result: Path) -> list[str]:
        return [
            str(self.tools.iree_run_module),
            f"--module={vmfb}",
            f"--function={FUNCTION}",
            f"--device={self.device}",
            *self.data.arguments,
            f"--output=@{result}",
        ]
