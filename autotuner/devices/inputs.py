"""Inputs in the words of IREE's tools, as files of bytes with shape and type: what a device that stays open takes."""

from __future__ import annotations

import hashlib
import math
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from autotuner.iree.run import Invocation
from autotuner.problems import Array
from autotuner.problems.dtypes import ElementType, element_type, known_type
from autotuner.system.parsing import read_npy

_TYPED = re.compile(r"((?:\d+x)*)([a-zA-Z]\w*)")
_BETWEEN = re.compile(r"[\s,\[\]]+")
_IN_NUMPY = ("f64", "f32", "f16", "i64", "i32", "i16", "i8", "i1")
_MOST_VALUES = 1 << 20
"""More than that belongs in a file."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """One input."""

    file: Path
    shape: tuple[int, ...]
    element: str
    buffer: bool = False
    """It is passed as a bare buffer, without its shape and type."""

    def to_json(self) -> dict[str, Any]:
        return {"file": str(self.file), "shape": list(self.shape), "element": self.element, "buffer": self.buffer}


@dataclass(frozen=True, slots=True)
class Call:
    """An invocation that has no words left which only IREE's tools understand."""

    function: str
    inputs: tuple[Tensor, ...]
    parameters: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        inputs = [one.to_json() for one in self.inputs]
        return {"function": self.function, "inputs": inputs, "parameters": list(self.parameters)}


def read_call(invocation: Invocation, folder: Path) -> Call | None:
    """The call that an invocation names; values that stand in it are written to the folder.

    None where it says what only IREE's tools read: scalars, values of rare types, archives.
    """
    if not all(map(known_type, invocation.results)):
        return None
    inputs = [_tensor(text, folder) for text in invocation.inputs]
    found = tuple(one for one in inputs if one is not None)
    if len(found) < len(inputs) or any(Path(text).suffix == ".safetensors" for text in invocation.parameters):
        return None
    return Call(invocation.function, found, invocation.parameters)


def _tensor(text: str, folder: Path) -> Tensor | None:
    if text.startswith("&"):
        stored = _tensor(text[1:], folder)
        return replace(stored, buffer=True) if stored else None
    words, equals, value = text.partition("=")
    if text.startswith("@"):
        return _numpy_file(Path(text[1:]), folder)
    typed = _TYPED.fullmatch(words)
    if typed is None or not known_type(typed[2]) or not typed[1]:
        return None
    shape, element = tuple(int(size) for size in typed[1].split("x")[:-1]), element_type(typed[2])
    if not value.startswith("@"):
        return _values(value if equals else "0", shape, element, folder)
    file = Path(value[1:])
    wanted = math.prod(shape) * element.bytes
    fits = file.suffix != ".npy" and file.is_file() and file.stat().st_size == wanted
    return Tensor(file, shape, element.mlir) if fits else None


def _numpy_file(path: Path, folder: Path) -> Tensor | None:
    try:
        array = read_npy(path)
    except (OSError, ValueError):
        return None
    names = {np.dtype(element_type(name).numpy): name for name in _IN_NUMPY}
    if array.dtype not in names:
        return None
    return _written(array, names[array.dtype], folder)


def _values(text: str, shape: tuple[int, ...], element: ElementType, folder: Path) -> Tensor | None:
    words, size = [word for word in _BETWEEN.split(text) if word], math.prod(shape)
    if len(words) not in (1, size) or len(words) > _MOST_VALUES:
        return None
    try:
        numbers = [float(word) if element.is_float else int(word) for word in words]
        array = np.asarray(numbers).astype(element.numpy)
    except (ValueError, OverflowError):
        return None
    if not element.is_float and array.astype(object).tolist() != numbers:
        return None
    whole = array.reshape(shape) if array.size == size else np.full(shape, array[0], array.dtype)
    return _written(whole, element.mlir, folder)


def _written(array: Array, element: str, folder: Path) -> Tensor:
    data = np.ascontiguousarray(array).tobytes()
    file = folder / f"{hashlib.sha256(data).hexdigest()}.bin"
    if not file.exists():
        file.write_bytes(data)
    return Tensor(file, array.shape, element)
