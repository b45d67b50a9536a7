"""`--input`: arrays of the user's own, held against what the program takes before anything is compiled."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from autotuner.errors import UsageError
from autotuner.jobs.model.arrays import described, load_array
from autotuner.jobs.model.signature import Argument
from autotuner.problems import Array, Operand, Problem
from autotuner.problems.dtypes import element_type, known_type


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


def model_inputs(texts: Sequence[str], arguments: Sequence[Argument]) -> tuple[str, ...]:
    """The same words with the files' full paths; files that do not fit are refused."""
    checked = []
    for number, text in enumerate(texts):
        argument = arguments[number] if number < len(arguments) else None
        if text.startswith("@"):
            path = Path(text[1:]).absolute()
            array = load_array(path, f"--input {text}")
            if argument is not None and argument.shape is not None and known_type(argument.element):
                sizes = zip(array.shape, argument.shape, strict=False)
                same = len(array.shape) == len(argument.shape) and all(b in (None, a) for a, b in sizes)
                if not same or not _has_type(array.dtype, element_type(argument.element).numpy):
                    raise _misfit(text, argument.text, described(array))
            checked.append(f"@{path}")
            continue
        form, is_file, file = text.partition("=@")
        if is_file and not Path(file).is_file():
            raise UsageError(f"--input {text}: there is no file {file}.", remedy="Is the path right?")
        checked.append(f"{form}=@{Path(file).absolute()}" if is_file else text)
    return tuple(checked)


def _array(text: str, operand: Operand, seeded: Array) -> Array:
    wanted: npt.DTypeLike = operand.element.numpy
    if text.startswith("@"):
        array = load_array(Path(text[1:]), f"--input {text}")
        if array.shape != operand.shape or not _has_type(array.dtype, wanted):
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


def _has_type(found: np.dtype[np.generic], wanted: npt.DTypeLike) -> bool:
    """numpy's files have no bfloat16 and no 8-bit floats: as many bytes of no type are meant for them."""
    kind = np.dtype(wanted)
    return found == kind or (found.kind == kind.kind == "V" and found.itemsize == kind.itemsize)


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
