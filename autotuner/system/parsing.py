"""Python's own parser, and numpy's files, whose head it reads: one thread at a time.

CPython 3.11 may raise SystemError where two threads parse at once.
"""

from __future__ import annotations

import ast
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

_PARSING = Lock()


def parsed(text: str | bytes, *, mode: str = "exec") -> Any:
    """As `ast.parse` has it."""
    with _PARSING:
        return ast.parse(text, mode=mode)


def read_npy(path: Path | str, *, mapped: bool = False) -> npt.NDArray[Any]:
    """A .npy file, without pickles; `mapped`: what is not looked at is not read."""
    with _PARSING:
        return np.asanyarray(np.load(path, mmap_mode="r" if mapped else None, allow_pickle=False))
