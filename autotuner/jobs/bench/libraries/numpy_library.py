"""numpy: products of f32 by its BLAS, and attention made of them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from autotuner.jobs.bench.libraries.child import Message, Task

Arrays = tuple[Any, ...]


class Refusal(Exception):
    """numpy does not compute this."""


def refusal(task: Task) -> str:
    """Why numpy does not compute it; empty where it does."""
    if task["op"] == "model":
        return "numpy executes no models"
    if task["op"] not in ("gemm", "attention"):
        return f"numpy has no {task['op']}"
    if task.get("activation"):
        return f"numpy is not asked for {task['activation']} here"
    if task.get("norm"):
        return f"numpy is not asked for a norm ({task['norm']}) here"
    if task["dtype"] != "f32":
        return f"numpy's BLAS has no {task['dtype']}: f32 only"
    if task["result"] != "f32":
        return f"numpy's BLAS gives f32, not {task['result']}"
    return ""


class Library:
    """numpy on the processor."""

    name = "numpy"

    def __init__(self, device: str, threads: int) -> None:
        del device, threads  # its BLAS has read how many when it was imported
        self.version = f"{np.__version__} ({_blas()})"

    def prepare(self, task: Task, inputs: list[Message]) -> Prepared:
        if why := refusal(task):
            raise Refusal(why)
        arrays = tuple(np.fromfile(one["file"], np.float32).reshape(one["shape"]) for one in inputs)
        how, make = ("numpy.matmul", _product) if task["op"] == "gemm" else ("matmul, exp, matmul", _attention)
        return Prepared(how, arrays, make(task))


class Prepared:
    """A call on arrays, and copies of them."""

    def __init__(self, how: str, arrays: Arrays, call: Callable[..., Any]) -> None:
        self.how, self.elements, self._call = how, ["f32"], call
        self._sets = [arrays]
        self._turns: dict[int, Iterator[Arrays]] = {}

    def results(self) -> list[tuple[bytes, list[int]]]:
        out = np.ascontiguousarray(self._call(*self._sets[0]))
        return [(out.tobytes(), list(out.shape))]

    def invoke(self, sets: int) -> tuple[float, int]:
        arrays = next(self._turn(sets))
        start = time.perf_counter()
        self._call(*arrays)
        return time.perf_counter() - start, 1

    def _turn(self, sets: int) -> Iterator[Arrays]:
        while len(self._sets) < sets:
            self._sets.append(tuple(array.copy() for array in self._sets[0]))
        return self._turns.setdefault(sets, cycle(self._sets[:sets]))


def _product(task: Task) -> Callable[..., Any]:
    out: Any = None

    def multiply(a: Any, b: Any, *more: Any) -> Any:
        nonlocal out
        left = a.swapaxes(-1, -2) if task["layout"][0] == "t" else a
        right = b.swapaxes(-1, -2) if task["layout"][1] == "t" else b
        out = np.matmul(left, right, out=out)
        for added in more:
            np.add(out, added, out=out)
        if task["low"] is not None or task["high"] is not None:
            np.clip(out, task["low"], task["high"], out=out)
        return out

    return multiply


def _attention(task: Task) -> Callable[..., Any]:
    scale = np.float32(1 / math.sqrt(task["width"]))
    hidden = ~np.tri(task["queries"], task["keys"], dtype=bool) if task["causal"] else None

    def attend(query: Any, key: Any, value: Any) -> Any:
        scores = query @ key.swapaxes(-1, -2)
        scores *= scale
        if hidden is not None:
            scores[..., hidden] = -np.inf
        scores -= scores.max(axis=-1, keepdims=True)
        np.exp(scores, out=scores)
        scores /= scores.sum(axis=-1, keepdims=True)
        return scores @ value

    return attend


def _blas() -> str:
    """Which library multiplies, as numpy was built with it."""
    config: Any = np.show_config(mode="dicts")
    blas = config.get("Build Dependencies", {}).get("blas", {})
    return f"{blas.get('name', 'its BLAS')} {blas.get('version', '')}".strip()
