"""`--expected`: the outputs that a model must give, from the framework that made it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from autotuner.devices.device import Computed
from autotuner.errors import UsageError
from autotuner.jobs.model.arrays import described, load_array
from autotuner.jobs.model.inputs import holds_type
from autotuner.jobs.model.signature import Signature
from autotuner.problems import Array
from autotuner.problems.dtypes import element_type, known_type


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
    """The same, in the shapes of what a module computed: sizes that were not known before must fit now."""
    pairs = list(zip(expected, computed.arrays, strict=True))
    for number, (array, one) in enumerate(pairs):
        # What numpy has no type for comes without its shape.
        same = array.shape == one.shape or (one.ndim == 1 and array.size == one.size)
        if not same:
            raise _misfit(f"number {number + 1}", "x".join(map(str, one.shape)), described(array))
    return Computed(tuple(array.reshape(one.shape) for array, one in pairs))


def wider(expected: Sequence[Array], signature: Signature) -> bool:
    """Some come from a model of a wider type than this one's: its weights were not rounded."""
    return any(
        array.dtype.itemsize > np.dtype(element_type(element).numpy).itemsize
        for array, element in zip(expected, signature.results, strict=False)
        if known_type(element) and element_type(element).is_float
    )


def _fits(array: Array, element: str) -> bool:
    """Whole numbers of their width, as IREE's have no sign; floats in their type or in a wider one."""
    if not known_type(element):
        return array.dtype.kind in "fiub"
    wanted = np.dtype(element_type(element).numpy)
    if element_type(element).is_float:
        return array.dtype == wanted or (array.dtype.kind == "f" and array.dtype.itemsize >= wanted.itemsize)
    return holds_type(array, element)


def _signed(array: Array, element: str) -> Array:
    """A framework's unsigned numbers as IREE gives them back: the same bits."""
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
