"""`--input` of a problem: arrays of the user's own, held against what it takes before anything is compiled."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from autotuner.errors import UsageError
from autotuner.problems import Array, Operand, Problem
from autotuner.programs.inputs import described, holds_type, load_array


def problem_inputs(texts: Sequence[str], problem: Problem, *, seed: int) -> tuple[Array, ...]:
    """One array for each operand, from `@FILE.npy`, `SHAPExTYPE=VALUES` or `SHAPExTYPE` (seeded); empty without any."""
    operands = problem.operands[:-1]
    if not texts:
        return ()
    if len(texts) != len(operands):
        wanted = ", ".join(operand.text for operand in operands)
        raise UsageError(
            f"{problem.name} takes {len(operands)} inputs ({wanted}), not {len(texts)}.",
            remedy="Give --input once for each, in order.",
        )
    seeded = problem.inputs(seed)
    return tuple(
        _array(text, operand, seeded[i]) for i, (text, operand) in enumerate(zip(texts, operands, strict=True))
    )


def _array(text: str, operand: Operand, seeded: Array) -> Array:
    wanted: npt.DTypeLike = operand.element.numpy
    if text.startswith("@"):
        array = load_array(Path(text[1:]), f"--input {text}")
        same = holds_type(array, operand.element.name) and array.dtype.kind == np.dtype(wanted).kind
        if array.shape != operand.shape or not same:
            raise _misfit(text, operand.text, described(array))
        return _finite(np.ascontiguousarray(array).view(wanted), text)
    form, has_values, values = text.partition("=")
    if form.lower() != operand.text.lower():
        raise _misfit(text, operand.text, form or "nothing")
    if not has_values:
        return seeded
    if values.startswith("@"):
        return _finite(_raw(Path(values[1:]), text, operand), text)
    try:
        numbers = np.array([float(word) for word in values.replace(",", " ").split()])
    except ValueError as error:
        raise UsageError(f"--input {text[:80]}: {error}.", remedy="Give numbers, with spaces between.") from error
    count = math.prod(operand.shape)
    if numbers.size not in (1, count):
        raise UsageError(
            f"--input {text[:80]} has {numbers.size} values, not {count}.", remedy="Give all of them, or one for all."
        )
    return _finite(np.broadcast_to(numbers, (count,)).reshape(operand.shape).astype(wanted), text)


def _raw(path: Path, text: str, operand: Operand) -> Array:
    try:
        array: Array = np.fromfile(path, operand.element.numpy)
    except OSError as error:
        raise UsageError(f"--input {text}: {error.strerror}.", remedy="Is the path right?") from error
    if array.size != math.prod(operand.shape) or path.stat().st_size != operand.bytes:
        raise _misfit(text, f"{operand.bytes} bytes", f"{path.stat().st_size}")
    return array.reshape(operand.shape)


def _finite(array: Array, text: str) -> Array:
    if not np.isfinite(array.astype(np.float64)).all():
        raise UsageError(
            f"--input {text[:80]} has numbers that are not finite: nothing can be compared with what comes out.",
            remedy="Give finite numbers.",
        )
    return array


def _misfit(text: str, expected: str, found: str) -> UsageError:
    return UsageError(
        f"--input {text[:80]} does not fit: expected {expected}, found {found}.",
        remedy="Give the program's inputs in order, in their shapes and types.",
    )
