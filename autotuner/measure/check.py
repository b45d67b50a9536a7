"""Is the output right? Once per distinct binary, on two sets of inputs, into storage that was poisoned first."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from autotuner.devices.device import Computed, Device
from autotuner.errors import EnvironmentFailure
from autotuner.iree.run import Invocation
from autotuner.problems import Array, Bound, Operand, Problem
from autotuner.problems.base import FUNCTION
from autotuner.system.parsing import write_raw
from autotuner.system.process import raise_if_late

if TYPE_CHECKING:
    from autotuner.iree.compile import FailureClass

RANDOM, WHOLE = "input", "whole"
"""The two sets of inputs, as their files are called: numbers of all digits, and whole ones whose sums are exact."""
_CHUNK = 1 << 22
"""Elements that are compared at once: outputs may be as large as memory allows."""
_ROUNDED_RMS = 0.6
"""Of the slack, in the root mean square: a last rounding takes up to all of it."""


@dataclass(frozen=True, slots=True)
class Check:
    """The result of the comparison with the reference."""

    failure: FailureClass | None
    error: float
    detail: str = ""

    @property
    def ok(self) -> bool:
        return self.failure is None


@dataclass(frozen=True)
class Expected:
    """The right answer to a set of inputs, and the bound that rounding gives."""

    reference: Array
    bound: Bound


@dataclass(frozen=True)
class Data:
    """A problem's inputs as files that IREE's tools read, and the answers that must come out."""

    problem: Problem
    folder: Path
    seed: int
    learnt: Mapping[str, tuple[Array, ...]] = field(default_factory=dict, repr=False, compare=False)
    """What IREE's default computes, for problems that have no reference of their own."""

    @classmethod
    def write(cls, problem: Problem, folder: Path, *, seed: int) -> Data:
        data = cls(problem, folder, seed)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for name, arrays in data.inputs.items():
                for path, array in zip(data.paths(name), [*arrays, *map(poison, problem.outputs)], strict=True):
                    write_raw(array, path)
        except OSError as error:
            raise EnvironmentFailure(
                f"cannot write the inputs to {folder}: {error.strerror}.",
                remedy="Free some space or choose another --workspace.",
            ) from error
        return data

    @cached_property
    def inputs(self) -> dict[str, tuple[Array, ...]]:
        """By set; the first is the one that is timed."""
        sets = {RANDOM: self.problem.inputs(self.seed), WHOLE: self.problem.whole_inputs(self.seed)}
        return {name: arrays for name, arrays in sets.items() if arrays and name in (self.learnt or sets)}

    @cached_property
    def expected(self) -> dict[str, tuple[Expected, ...]]:
        """By set, of each result; none where nothing is known."""
        return {name: self._expected(name) for name in self.inputs}

    def _expected(self, name: str) -> tuple[Expected, ...]:
        raise_if_late()
        known = self.learnt.get(name, ()) if self.learnt else (self.problem.reference(self.inputs[name]),)
        return tuple(self._right(name, result, one) for result, one in enumerate(known) if one is not None)

    def _right(self, name: str, result: int, reference: Array) -> Expected:
        inputs, problem = self.inputs[name], self.problem.viewing(result)
        if name == RANDOM:
            return Expected(reference, problem.bound(inputs, reference))
        rounded = reference.astype(problem.output.element.numpy).astype(np.float64)
        return Expected(rounded, problem.whole_bound(inputs, reference))

    @property
    def knows(self) -> bool:
        """The right answer is known without a run of IREE's default."""
        return all(self.expected.values())

    def paths(self, name: str) -> list[Path]:
        """The files of a set's inputs, then one for the storage of each result."""
        results = self.problem.results
        inputs = [f"{name}{i}.bin" for i in range(len(self.problem.operands) - results)]
        return [self.folder / file for file in (*inputs, *(f"poison{i or ''}.bin" for i in range(results)))]

    def invocation(self, name: str = RANDOM) -> Invocation:
        """How a module is called on a set of inputs; the storage of the results comes last."""
        pairs = zip(self.problem.operands, self.paths(name), strict=True)
        texts = tuple(f"{operand.text}=@{path}" for operand, path in pairs)
        return Invocation(FUNCTION, texts, tuple(output.element.mlir for output in self.problem.outputs))

    def checker(self, device: Device, *, timeout: float) -> Checker:
        """A checker of modules on this device."""
        return Checker(device, self, timeout)


def poison(output: Operand) -> Array:
    """What an output's storage holds before: NaN, or a pattern that no right integer result would repeat."""
    if output.element.is_float:
        return np.full(output.shape, np.nan, np.float32).astype(output.element.numpy)
    return np.full(output.shape, 0x5A5A5A5A, np.int64).astype(output.element.numpy)


def compare(out: Array, reference: Array, bound: Bound) -> Check:
    """Every element by itself, and all in the mean; NaN never passes."""
    squares = own = ratios = 0.0
    worst, at = 0.0, 0
    with np.errstate(all="ignore"):  # what is not finite is found below
        for start, chunk, right, deviation, slack in _chunks(out, reference, bound):
            difference = np.abs(chunk - right)
            squares += float(np.square(difference).sum())
            own += float(np.square(right).sum())
            variance = np.square(deviation) + np.square(_ROUNDED_RMS * slack)
            ratios += float(np.where(difference == 0, 0, np.square(difference) / variance).sum())
            beyond = np.where(difference <= slack, 0, (difference - slack) / deviation)
            index = int(beyond.argmax())  # of a NaN, when there is one
            if not beyond[index] <= worst:
                worst, at = float(beyond[index]), start + index
            if math.isnan(worst):
                break
    error = math.nan if math.isnan(worst) else math.sqrt(squares / (own or 1.0))
    mean, size = math.sqrt(ratios / max(reference.size, 1)), reference.size
    if worst <= bound.worst_of(size) and mean <= bound.mean_of(size):
        return Check(None, error)
    where = tuple(int(i) for i in np.unravel_index(at, reference.shape))
    found = f"element {where} is {out[where]:.8g}, not {reference[where]:.8g}"
    allowed = f"in the mean {mean:.3g} deviations off, allowed {bound.mean_of(size):.3g}"
    return Check("wrong-result", error, f"relative error {error:.3g}; {allowed}; {found}")


def _chunks(out: Array, reference: Array, bound: Bound) -> Iterator[tuple[int, Array, Array, Array, Array]]:
    def part(side: Array | float, start: int) -> Array:
        array = np.asarray(side)
        piece = array.reshape(-1)[start : start + _CHUNK] if array.ndim else array
        return piece.astype(np.float64)

    # A result may be one number. What is allowed may be one for all elements.
    out, reference = out.reshape(-1), reference.reshape(-1)
    for start in range(0, reference.size, _CHUNK):
        deviation, slack = part(bound.deviation, start), part(bound.slack, start)
        yield start, part(out, start), part(reference, start), deviation, slack


@dataclass(frozen=True)
class Checker:
    """Runs modules and compares their results."""

    device: Device
    data: Data
    timeout: float
    _seen: dict[tuple[str, str], Check] = field(default_factory=dict, init=False, repr=False, compare=False)
    """By set of inputs and digest: most modules compute the very bits that were compared before."""

    def check(self, vmfb: Path) -> Check:
        return self.answer(vmfb)[1]

    def answer(self, vmfb: Path) -> tuple[tuple[Array, ...], Check]:
        """What the module computes of the inputs that are timed, and whether that and the rest is right."""
        found = self._answer(vmfb)
        if found[1].failure == "wrong-result" and self.device.isolated is not self.device:
            # What ran before may have written where the inputs lie: what is wrong must be so on a device begun anew.
            self.device.renew()
            found = self._answer(vmfb)
        return found

    def _answer(self, vmfb: Path) -> tuple[tuple[Array, ...], Check]:
        computed = self._computed(vmfb)
        checks = [self._checked(name, one) for name, one in computed.items()]
        wrong = next((check for check in checks if not check.ok), None)
        first = self._outputs(computed[RANDOM])
        return () if isinstance(first, Check) else first, wrong or checks[0]

    def _checked(self, name: str, computed: Computed) -> Check:
        known = self._seen.get((name, computed.digest)) if computed.digest else None
        if known is None:
            known = self._compared(name, self._outputs(computed))
            if computed.digest:
                self._seen[name, computed.digest] = known
        return known

    def trusting(self, vmfb: Path) -> tuple[Checker, Check]:
        """The checker that takes this module's results for the right ones, if they can be: all written, and finite."""
        outputs = {name: self._outputs(one) for name, one in self._computed(vmfb).items()}
        first = outputs[RANDOM]
        if isinstance(first, Check):
            return self, first
        learnt = {
            name: tuple(one.astype(np.float64) for one in out)
            for name, out in outputs.items()
            if not isinstance(out, Check)
        }
        finite = {name: out for name, out in learnt.items() if all(np.isfinite(one).all() for one in out)}
        if RANDOM not in finite:
            return self, Check("wrong-result", math.inf, "its result is not finite")
        return replace(self, data=replace(self.data, learnt=finite)), Check(None, 0.0)

    def agree(self, found: Computed, other: Computed) -> Check:
        """Whether two modules compute the same of inputs whose answer nobody knows: numbers like those that are known,
        so that rounding leaves about as much."""
        out, right = self._outputs(found), self._outputs(other)
        if isinstance(out, Check):
            return out
        if isinstance(right, Check) or not all(np.isfinite(one.astype(np.float64)).all() for one in right):
            return Check(None, 0.0)  # nothing to compare with
        known = (expected.bound.of_two for expected in self.data.expected[RANDOM])
        checks = [
            compare(one, wide.astype(np.float64), bound) for one, wide, bound in zip(out, right, known, strict=True)
        ]
        return next((check for check in checks if not check.ok), checks[0])

    def _compared(self, name: str, out: tuple[Array, ...] | Check) -> Check:
        """All outputs against the reference: the first that is wrong, or the one that is farthest off."""
        if isinstance(out, Check):
            return out
        expected = self.data.expected[name]
        if not expected:
            raise ValueError(f"nothing is known yet of what {self.data.problem.name} computes")
        checks = []
        for number, (one, right) in enumerate(zip(out, expected, strict=True)):
            check = compare(one, right.reference, right.bound)
            where = ["on whole numbers"] * (name == WHOLE) + [f"result {number}"] * (len(out) > 1)
            checks.append(check if check.ok else replace(check, detail=": ".join([*where, check.detail])))
        return next((check for check in checks if not check.ok), max(checks, key=lambda check: check.error))

    def _computed(self, vmfb: Path) -> dict[str, Computed]:
        """The module's results, or its failure, by set of inputs."""
        names = list(self.data.inputs)
        invocations = [self.data.invocation(name) for name in names]
        return dict(zip(names, self.device.check(vmfb, invocations, timeout=self.timeout), strict=True))

    def _outputs(self, computed: Computed) -> tuple[Array, ...] | Check:
        if computed.failure is not None:
            return Check(computed.failure, math.inf, computed.detail)
        outputs = self.data.problem.outputs
        if len(computed.arrays) != len(outputs):
            detail = f"{len(computed.arrays)} results came out, not {len(outputs)}"
            return Check("wrong-result", math.inf, detail)
        for out, output in zip(computed.arrays, outputs, strict=True):
            if out.size != math.prod(output.shape):
                return Check("wrong-result", math.inf, f"{out.size} elements came out, not {math.prod(output.shape)}")
            if out.dtype != output.element.numpy:
                return Check("wrong-result", math.inf, f"{out.dtype.name} came out, not {output.element.mlir}")
        pairs = zip(computed.arrays, outputs, strict=True)
        return tuple(out.reshape(output.shape) for out, output in pairs)


def too_large(problem: Problem) -> EnvironmentFailure:
    return EnvironmentFailure(f"{problem.bytes / 2**30:.1f} GiB of tensors do not fit in this machine's memory.")
