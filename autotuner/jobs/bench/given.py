"""What all backends of a comparison are given: the inputs, as files, and the answer that each must come to."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Protocol

from autotuner.devices.device import Computed
from autotuner.devices.resident import Tensor, read_call
from autotuner.errors import NoCandidateError
from autotuner.iree.run import Invocation
from autotuner.measure.check import RANDOM, Check, Data, Expected, compare
from autotuner.problems import Attention, Conv, Gemm, Problem
from autotuner.problems.accuracy import last_rounding
from autotuner.programs.program import ModelProgram

Task = dict[str, Any]
"""A problem in plain words and numbers, as the script of another library reads it."""
_CONV = ("n", "h", "w", "c", "kh", "kw", "f", "groups", "depthwise", "channels_last")
_PAIRS = ("stride", "dilation", "pad")
_ATTENTION = ("batch", "heads", "queries", "keys", "width", "causal")


def task_of(problem: Problem) -> Task:
    """What is computed, of which types, with which result."""
    return {
        "op": problem.op,
        "dtype": problem.operands[0].element.mlir,
        "acc": problem.types[1],
        "result": problem.output.element.mlir,
        "allow": problem.allow,
        **_own(problem),
    }


def _own(problem: Problem) -> Task:
    match problem:
        case Gemm():
            sizes = {"m": problem.m, "n": problem.n, "k": problem.k, "batch": problem.batch}
            return {**sizes, "layout": problem.layout, **_epilogue(problem)}
        case Conv():
            pairs = {name: list(getattr(problem, name)) for name in _PAIRS}
            return {**{name: getattr(problem, name) for name in _CONV}, **pairs, **_epilogue(problem)}
        case Attention():
            return {name: getattr(problem, name) for name in _ATTENTION}
        case _:
            return {}


def _epilogue(problem: Gemm | Conv) -> Task:
    own = problem.epilogue
    done = {"low": own.low, "high": own.high, "activation": own.activation, "norm": own.norm}
    return {"added": list(own.operands), **done}


class Given(Protocol):
    """One problem or model."""

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
            return Check("wrong-result", math.inf, f"{out.size} elements came out, not {right.reference.size}")
        bound = right.bound
        if element != self.elements[0]:
            bound = replace(bound, slack=bound.slack + last_rounding(right.reference, element))
        return compare(out.reshape(right.reference.shape), right.reference, bound)


@dataclass
class ModelGiven:
    """A model: the first backend's outputs are what the others are compared with; the arbiter says who is right."""

    program: ModelProgram
    described: Mapping[str, Any]
    path: Path
    """As other libraries take it: in ONNX."""
    tensors: tuple[Tensor, ...]
    _begun: bool = False

    repeated: ClassVar[bool] = False

    @classmethod
    def make(cls, program: ModelProgram, described: Mapping[str, Any], path: Path, folder: Path) -> ModelGiven:
        folder.mkdir(parents=True, exist_ok=True)
        call = read_call(program.call, folder)
        return cls(program, described, path, call.inputs if call is not None else ())

    @property
    def task(self) -> Task:
        return {"op": "model", "path": str(self.path.absolute()), "format": self.path.suffix.removeprefix(".")}

    @property
    def invocation(self) -> Invocation:
        return self.program.call

    @property
    def elements(self) -> tuple[str, ...]:
        return self.program.call.results

    def check(self, computed: Computed, elements: Sequence[str]) -> Check:
        del elements  # their sizes and values are compared
        if computed.failure is not None:
            return Check(computed.failure, math.inf, computed.detail)
        if len(computed.arrays) != len(self.elements):
            count = f"{len(computed.arrays)} outputs came out, not {len(self.elements)}"
            return Check("wrong-result", math.inf, count)
        ask = self.program.arbiter.check if self._begun else self.program.arbiter.begin
        self._begun = True
        return ask(computed)
