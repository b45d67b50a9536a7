"""The inputs of all backends of a comparison, as files, and the right answer."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from autotuner.devices.device import Computed
from autotuner.devices.resident import Tensor, read_call
from autotuner.errors import NoCandidateError
from autotuner.iree.run import Invocation
from autotuner.measure.check import RANDOM, Check, Data, compare, too_large
from autotuner.problems import Gemm, Problem
from autotuner.problems.accuracy import last_rounding
from autotuner.problems.conv import Conv
from autotuner.programs.program import ModelProgram

Task = dict[str, Any]
"""A problem in plain words and numbers, as the script of another library reads it."""


def task_of(problem: Problem) -> Task:
    """What is computed, of which types, with which result."""
    task: Task = {name: value for name, value in asdict(problem).items() if name != "epilogue"}  # type: ignore[call-overload]
    if isinstance(problem, Conv):
        task |= {"depthwise": problem.depthwise, "channels_last": problem.channels_last}
    if isinstance(problem, Gemm | Conv):
        own = problem.epilogue
        task |= {"added": list(own.operands), "low": own.low, "high": own.high}
        task |= {"activation": own.activation}
    shared = isinstance(problem, Gemm) and problem.scaling is not None  # no library has these yet
    dtype = f"scaled {problem.types[0]}" if shared else problem.operands[0].element.mlir
    types = {"dtype": dtype, "acc": problem.types[1], "result": problem.output.element.mlir}
    return {**task, "op": problem.op, **types, "allow": problem.allow}


@dataclass(frozen=True)
class Given:
    """One problem or model."""

    task: Task
    """What is computed, for the scripts of other libraries."""
    invocation: Invocation
    tensors: tuple[Tensor, ...]
    elements: tuple[str, ...]
    """The types of what must come out."""
    right: Callable[[Computed, Sequence[str]], Check] = field(repr=False)
    """Is an answer of these types right?"""
    repeated: bool = True
    """Its dispatches may be repeated for timing, and its inputs taken in turns for a cold cache."""

    def check(self, computed: Computed, elements: Sequence[str]) -> Check:
        if computed.failure is not None:
            return Check(computed.failure, math.inf, computed.detail)
        if len(computed.arrays) != len(self.elements):
            count = f"{len(computed.arrays)} outputs came out, not {len(self.elements)}"
            return Check("wrong-result", math.inf, count)
        return self.right(computed, elements)


def given_problem(problem: Problem, folder: Path, *, seed: int) -> Given:
    """A problem, with a reference; a result of a narrower type may be off by its last rounding too."""
    try:
        data = Data.write(problem, folder, seed=seed)
        inputs = data.inputs[RANDOM]
        reference = problem.reference(inputs)
    except MemoryError as error:
        raise too_large(problem) from error
    if reference is None:
        raise NoCandidateError(f"{problem.name} has no reference to compare with.")
    bound, wanted = problem.bound(inputs, reference), problem.output.element.mlir

    def right(computed: Computed, elements: Sequence[str]) -> Check:
        (out,), (element,) = computed.arrays, elements
        if out.size != reference.size:
            return Check("wrong-result", math.inf, f"{out.size} elements came out, not {reference.size}")
        more = 0.0 if element == wanted else last_rounding(reference, element)
        return compare(out.reshape(reference.shape), reference, replace(bound, slack=bound.slack + more))

    paths = zip(data.paths(RANDOM), problem.operands[: -problem.results], strict=False)
    tensors = tuple(Tensor(str(path), operand.shape, operand.element.mlir) for path, operand in paths)
    return Given(task_of(problem), data.invocation(), tensors, (wanted,), right)


def given_model(program: ModelProgram, path: Path, folder: Path) -> Given:
    """A model: the first backend's outputs are what the others are compared with; the arbiter says who is right.

    `path` is the model as other libraries take it: in ONNX.
    """
    folder.mkdir(parents=True, exist_ok=True)
    call = read_call(program.call, folder)
    asked = [program.arbiter.begin]

    def right(computed: Computed, elements: Sequence[str]) -> Check:
        del elements  # their sizes and values are compared
        return (asked.pop() if asked else program.arbiter.check)(computed)

    task = {"op": "model", "path": str(path.absolute()), "format": path.suffix.removeprefix(".")}
    inputs = call.inputs if call is not None else ()
    return Given(task, program.call, inputs, program.call.results, right, repeated=False)
