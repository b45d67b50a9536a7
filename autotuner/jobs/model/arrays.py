"""Arrays of the user's own, from .npy files."""

from __future__ import annotations

from pathlib import Path

from autotuner.errors import UsageError
from autotuner.problems import Array
from autotuner.system.parsing import SeveralArraysError, read_npy


def load_array(path: Path, said: str) -> Array:
    """The array of an .npy file, not read before its shape is known to fit; `said` is what the user wrote."""
    try:
        return read_npy(path, mapped=True)
    except OSError as error:
        raise UsageError(f"{said}: {error.strerror or error}.", remedy="Is the path right?") from error
    except SeveralArraysError as error:
        raise UsageError(f"{said} holds several arrays.", remedy="Write each with numpy.save.") from error
    except ValueError as error:
        raise UsageError(f"{said} is no .npy file of numbers.", remedy="Write it with numpy.save.") from error


def described(array: Array) -> str:
    """`1x1000xfloat32`."""
    return "x".join([*map(str, array.shape), str(array.dtype)])
