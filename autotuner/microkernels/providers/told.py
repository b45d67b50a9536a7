"""What sources for GPUs are told of a problem beside its sizes: layout, epilogue, and the types of its buffers."""

from __future__ import annotations

from autotuner.microkernels.declared import PROBLEM, Buffer
from autotuner.microkernels.providers.c import problem_macros
from autotuner.problems import Operation, Problem

ELEMENTS = ("f32", "f16", "bf16", "i8", "i32", "f8E4M3FN", "f8E4M3FNUZ")


def told(problem: Problem) -> dict[str, int]:
    """Its layout and its epilogue, also where there is none, by names in small letters."""
    epilogue = problem.epilogue.numbers() if isinstance(problem, Operation) else {}
    return {name.lower(): value for name, value in {**epilogue, **problem_macros(problem)}.items()}


def element_of(buffer: Buffer, problem: Problem) -> str:
    """What is in this buffer."""
    if buffer.element != PROBLEM:
        return buffer.element
    names = problem.operand_names if isinstance(problem, Operation) else ()
    return problem.operands[names.index(buffer.operand)].element.name
