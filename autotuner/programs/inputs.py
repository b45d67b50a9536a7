"""Checks `--input` and `--expected` of a model against its function's signature, before it is compiled."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from autotuner.devices.device import Computed
from autotuner.errors import UsageError
from autotuner.problems import Array, Operand
from autotuner.problems.dtypes import element_type, known_type
from autotuner.programs.signature import Argument, Signature
from autotuner.system.parsing import SeveralArraysError, read_npy

_BETWEEN = re.compile(r"[\s,\[\]]+")
"""The separators of an input's values."""
_FORM = re.compile(r"(\d+x)*(\d*|(b?f|fp|float|u?int|i)\d\w*)", re.IGNORECASE)
"""The form before an input's values; another word there is its name."""
_NUMPY = ".npy"


def check_inputs(inputs: Sequence[str], signature: Signature, *, name: str) -> list[tuple[str, Operand | None]]:
    """Each input as the user gave it, else by the function's types; with the operand to fill where it has no values."""
    given = inputs
    if not given:
        lacking = [a.text for a in signature.arguments if a.dynamic]
        if lacking:
            raise UsageError(
                f"{name} takes {', '.join(lacking)}: these sizes are not known.",
                remedy="Give --input SHAPExTYPE (or =VALUES, or @FILE.npy) for each input, in order.",
            )
        given = tuple(a.text for a in signature.arguments)
    if len(given) != len(signature.arguments):
        wanted = ", ".join(a.text for a in signature.arguments) or "none"
        raise UsageError(
            f"{signature.function} takes {len(signature.arguments)} inputs ({wanted}), not {len(given)}.",
            remedy="Give --input once for each, in order.",
        )
    pairs = zip(given, signature.arguments, strict=True)
    return [(_as_bytes(text), _shaped(text, argument)) for text, argument in pairs]


def in_order(given: Sequence[str], names: Sequence[str]) -> Sequence[str]:
    """The inputs in the model's order, without names, where they are given as `NAME=SHAPExTYPE`."""
    pairs = [text.partition("=") for text in given]
    named = {name: form for name, equals, form in pairs if equals and "@" not in name and not _FORM.fullmatch(name)}
    if not named:
        return given
    if len(named) < len(given) or {*named} != {*names}:
        has = f"its inputs are {', '.join(names)}" if names else "its inputs have no names (only those of ONNX do)"
        remedy = f"Give --input {f'{names[0]}=' if names else ''}SHAPExTYPE once for each, in order."
        raise UsageError(f"--input {', '.join(named)}: {has}.", remedy=remedy)
    return [named[name] for name in names]


def _untyped(form: str) -> bool:
    """Whether a form has sizes alone: the model has the type."""
    return "x" in form and form.replace("x", "").isdigit()


def _as_bytes(text: str) -> str:
    """An i1 input as i8: IREE's tools read values of an i1 as hexadecimal digits of memory."""
    form, typed, values = text.partition("=")
    words = {word for word in _BETWEEN.split(values) if word}
    truths = typed and re.fullmatch(r"(\d+x)*i1", form) and words and words <= {"0", "1"}
    return f"{form.removesuffix('i1')}i8={values}" if truths else text


def input_file(text: str) -> Path | None:
    """The file that an input names, after its `@`."""
    _, named, path = text.partition("@")
    return Path(path) if named else None


def refuse_absent(text: str) -> None:
    """Refuses an input whose file does not exist."""
    path = input_file(text)
    if path is not None and not path.is_file():
        raise UsageError(f"--input {text}: there is no file {path}.", remedy="Check the path.")


def input_shapes(given: Sequence[str]) -> list[tuple[int, ...] | None]:
    """The shapes of the inputs as the user gave them; None where the text does not say."""
    shapes: list[tuple[int, ...] | None] = []
    for text in given:
        shape, found, path = text.partition("@")
        if found and not shape.strip("=") and path.endswith(".npy"):
            shapes.append(_npy_shape(Path(path)))
            continue
        form = shape.partition("=")[0]
        sizes = form.split("x")[: None if _untyped(form) else -1]
        shapes.append(tuple(map(int, sizes)) if all(s.isascii() and s.isdigit() for s in sizes) else None)
    return shapes


def _npy_shape(path: Path) -> tuple[int, ...] | None:
    try:
        return tuple(read_npy(path, mapped=True).shape)
    except (OSError, ValueError):
        return None  # the tools that run the model will say what is wrong with it


def _shaped(text: str, argument: Argument) -> Operand | None:
    """The operand that `1x3x224x224xf32` means; None: the text has values."""
    refuse_absent(text)
    if text.startswith("@"):
        _fit_array(text, Path(text[1:]), argument)
        return None
    form, valued, _ = text.partition("=")
    if not valued and argument.shape is None and _is_number(text):
        return None
    if argument.shape and not valued and _untyped(form):
        form = f"{form}x{argument.element}"
    *sizes, element = form.lower().split("x")
    exact = next((name for name in (element, argument.element) if name.lower() == element and known_type(name)), None)
    if exact is None or not all(size.isascii() and size.isdigit() for size in sizes):
        raise UsageError(
            f"--input {text} is not SHAPExTYPE.", remedy="Such as 1x3x224x224xf32, 1x3xf32=1 2 3 or @image.npy."
        )
    shape, given = tuple(map(int, sizes)), element_type(exact)
    _fit(text, shape, argument)
    if argument.read and known_type(argument.element):
        # Whole numbers of one width may stand for each other: a sign is not looked at, and a truth value is a byte.
        wanted = element_type(argument.element)
        whole = not (given.is_float or wanted.is_float)
        _refuse(given != wanted and not (whole and max(8, given.bits) == max(8, wanted.bits)), text, exact, argument)
    return None if valued else Operand(shape, given)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _fit(text: str, shape: tuple[int, ...], argument: Argument) -> None:
    wanted = argument.shape
    if wanted is None or not argument.read:
        return
    if len(shape) != len(wanted) or any(b not in (None, a) for a, b in zip(shape, wanted, strict=True)):
        raise UsageError(
            f"--input {text} does not fit the input, which is {argument.text}.",
            remedy="Give the sizes that the model takes.",
        )


def _refuse(wrong: bool, text: str, found: str, argument: Argument) -> None:
    """Refuses a type that is not the input's."""
    if wrong:
        raise UsageError(
            f"--input {text} is {found}, and the input is {argument.text}.",
            remedy="Give the type that the model takes; IREE makes f32 of f64.",
        )


def _fit_array(text: str, path: Path, argument: Argument) -> None:
    """Checks an input's .npy file against its argument; IREE's tools recognise it by the file's suffix."""
    if path.suffix != _NUMPY:
        raise UsageError(f"--input {text}: {path.name} is no .npy file.", remedy="Give SHAPExTYPE=@FILE, or @FILE.npy.")
    array = load_array(path, f"--input {text}")
    _fit(text, array.shape, argument)
    checked = argument.read and known_type(argument.element)
    _refuse(checked and not holds_type(array, argument.element), text, described(array), argument)


def holds_type(array: Array, element: str) -> bool:
    """Whether an array has an element type, to IREE's tools: for integers only the width counts.

    numpy's files have no bfloat16 and no 8-bit floats: as many bytes of no type are meant for them.
    """
    found, wanted = array.dtype, np.dtype(element_type(element).numpy)
    if found == wanted:
        return True
    untyped = found.kind == wanted.kind == "V"
    whole = found.isnative and {found.kind, wanted.kind} <= set("iub")
    return (untyped or whole) and found.itemsize == wanted.itemsize


def load_array(path: Path, said: str) -> Array:
    """The array of an .npy file, not read before its shape is known to fit; `said` is what the user wrote."""
    try:
        return read_npy(path, mapped=True)
    except OSError as error:
        raise UsageError(f"{said}: {error.strerror or error}.", remedy="Check the path.") from error
    except SeveralArraysError as error:
        raise UsageError(f"{said} holds several arrays.", remedy="Write each with numpy.save.") from error
    except ValueError as error:
        raise UsageError(f"{said} is no .npy file of numbers.", remedy="Write it with numpy.save.") from error


def described(array: Array) -> str:
    """`1x1000xfloat32`."""
    return "x".join([*map(str, array.shape), str(array.dtype)])


def load_expected(paths: Sequence[Path], signature: Signature) -> tuple[Array, ...]:
    """One array for each result, in order; none where none is given. What does not fit is refused."""
    if not paths:
        return ()
    results = list(zip(signature.results, signature.shapes, strict=True))
    if len(paths) != len(results):
        wanted = ", ".join(_result(element, shape) for element, shape in results)
        raise UsageError(
            f"{signature.function} has {len(results)} results ({wanted}), not {len(paths)}.",
            remedy="Give --expected once for each, in order.",
        )
    found = []
    for path, (element, shape) in zip(paths, results, strict=True):
        array = load_array(path, f"--expected {path}")
        sizes = zip(array.shape, shape, strict=False)
        fits = len(array.shape) == len(shape) and all(wanted in (None, size) for size, wanted in sizes)
        if not fits or not _fits(array, element):
            raise _misfit(str(path), _result(element, shape), described(array))
        found.append(_signed(array, element))
    for path, array in zip(paths, found, strict=True):
        if not np.isfinite(array.astype(np.float64)).all():
            raise UsageError(
                f"--expected {path} has numbers that are not finite: nothing can be compared with them.",
                remedy="Give finite numbers, and --input with the values that they come from.",
            )
    return tuple(found)


def shaped_like(expected: Sequence[Array], computed: Computed) -> Computed:
    """The expected arrays, checked against the shapes that a module computed."""
    pairs = list(zip(expected, computed.arrays, strict=True))
    for number, (array, one) in enumerate(pairs):
        # What numpy has no type for comes without its shape.
        same = array.shape == one.shape or (one.ndim == 1 and array.size == one.size)
        if not same:
            raise _misfit(f"number {number + 1}", "x".join(map(str, one.shape)), described(array))
    return Computed(tuple(array.reshape(one.shape) for array, one in pairs))


def wider(expected: Sequence[Array], signature: Signature) -> bool:
    """Whether some arrays have a wider type than the model's: their weights were not rounded."""
    return any(
        array.dtype.itemsize > np.dtype(element_type(element).numpy).itemsize
        for array, element in zip(expected, signature.results, strict=False)
        if known_type(element) and element_type(element).is_float
    )


def _fits(array: Array, element: str) -> bool:
    """Whether an array fits an element type: integers by width, as IREE's have no sign; floats by the type or a wider
    one."""
    if not known_type(element):
        return array.dtype.kind in "fiub"
    wanted = np.dtype(element_type(element).numpy)
    if element_type(element).is_float:
        return array.dtype == wanted or (array.dtype.kind == "f" and array.dtype.itemsize >= wanted.itemsize)
    return holds_type(array, element)


def _signed(array: Array, element: str) -> Array:
    """Unsigned integers as the signed ones of the same bits, as IREE returns them."""
    if array.dtype.kind not in "iub" or not known_type(element):
        return array
    wanted = np.dtype(element_type(element).numpy)
    return array.view(wanted) if array.dtype.itemsize == wanted.itemsize else array


def _result(element: str, shape: Sequence[int | None]) -> str:
    return "x".join([*("?" if size is None else str(size) for size in shape), element])


def _misfit(what: str, wanted: str, found: str) -> UsageError:
    return UsageError(
        f"--expected {what} does not fit: the result is {wanted}, and the file has {found}.",
        remedy="Give the outputs in order, in their shapes, floats in the result's type or a wider one.",
    )
