"""Locks around Python's parser and the readers that use it: one thread at a time.

CPython 3.11 may raise SystemError where two threads parse at once.
"""

from __future__ import annotations

import ast
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from autotuner.errors import EnvironmentFailure

_PARSING = Lock()


def parsed(text: str | bytes, *, mode: str = "exec") -> Any:
    """`ast.parse`, locked."""
    with _PARSING:
        return ast.parse(text, mode=mode)


class SeveralArraysError(ValueError):
    """An archive of arrays (.npz) where one array is asked for."""


def read_npy(path: Path | str, *, mapped: bool = False) -> npt.NDArray[Any]:
    """A .npy file, without pickles; `mapped`: what is not looked at is not read.

    OSError where it cannot be read, ValueError where it is none.
    """
    try:
        with _PARSING:
            array = np.load(path, mmap_mode="r" if mapped else None, allow_pickle=False)
    except (OSError, ValueError):
        raise
    except EOFError as error:
        raise ValueError(f"{path} is empty") from error
    except Exception as error:  # of a damaged header numpy raises whatever its tokenizer does
        raise ValueError(f"{path} holds no array") from error
    if isinstance(array, np.ndarray):
        return array
    array.close()
    raise SeveralArraysError(f"{path} holds several arrays")


def write_raw(array: npt.NDArray[Any], path: Path) -> None:
    """Writes the bytes of an array. numpy's `tofile` does not say why it fails."""
    try:
        with path.open("wb") as file:
            file.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    except OSError as error:
        raise EnvironmentFailure(
            f"cannot write {path}: {error.strerror or error}.", remedy="Free some space or choose another --workspace."
        ) from error
