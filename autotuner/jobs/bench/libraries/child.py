"""The child of another library: it computes and times problems by it. The Python that has the library runs it.

    child.py CHILD_BASE.py LIBRARY.py THREADS

It needs numpy and the library. Of this package it has files by their paths: what every child has (the frames that it
speaks in, the warm-up), and the library's own part. Each request has one answer; `error` stands in the place of one,
and `refused` where the library does not compute what is asked.

    open     device                               its version
    prepare  task, inputs, folder                 how it is computed; what one call gives: type, shape and file of each
    time     repetitions, seconds, steady, sets   seconds of one execution in each repetition, which lasts so long;
                                                  after a warm-up; on so many copies of the inputs in turn

A library's file has a class `Library` of a device and a number of threads, with its `title` and `version` and a method
for each operation that it computes: `gemm`, `conv`, `attention`, `model`. Given a task and its inputs, such a method
says how it is computed; NotImplementedError is a refusal in words. What it does not say of its arrays is numpy's.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import time
from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np

Message = dict[str, Any]
Task = dict[str, Any]
Call = dict[str, Any]
"""`how` it is computed in a few words, `compute` with its `inputs`; `shown` brings an output into the problem's order
(it is not timed); `fixed` where copies of the inputs cannot be taken in turns."""
Inputs = tuple[Any, ...]
Compute = Callable[..., Any]
Timer = Callable[[], tuple[float, int]]
"""Some executions in a row: the seconds of all, and how many."""
ELEMENTS = {
    "f64": "float64",
    "f32": "float32",
    "f16": "float16",
    "i64": "int64",
    "i32": "int32",
    "i16": "int16",
    "i8": "int8",
    "i1": "bool",
}
"""MLIR's names of types, in numpy's words."""
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


class Arrays:
    """Common code of libraries on numpy's arrays."""

    def array(self, one: Message) -> Any:
        if one["element"] not in ELEMENTS:
            raise NotImplementedError(f"numpy, by which it is given its inputs, has no {one['element']}")
        return np.fromfile(one["file"], ELEMENTS[one["element"]]).reshape(one["shape"])

    def copy(self, array: Any) -> Any:
        return array.copy()

    def result(self, array: Any) -> tuple[str, bytes, list[int]]:
        """Its type in MLIR's words, its bytes and its shape."""
        names = {name: element for element, name in ELEMENTS.items()}
        return names.get(array.dtype.name, ""), np.ascontiguousarray(array).tobytes(), list(array.shape)

    def timer(self, call: Call, sets: list[Inputs], plain: Callable[[Compute, list[Inputs]], Timer]) -> Timer:
        """`plain` times call by call; a library may know better."""
        return plain(call["compute"], sets)


def one_by_one(compute: Compute, sets: list[Inputs]) -> Timer:
    """Call by call, on each of these inputs in turn."""
    turns = cycle(sets)

    def invoke() -> tuple[float, int]:
        inputs = next(turns)
        start = time.perf_counter()
        compute(*inputs)
        return time.perf_counter() - start, 1

    return invoke


class Server:
    """Answers requests, one after the other."""

    def __init__(self, library: Any, base: Any, threads: int) -> None:
        self._module, self._warm_up, self._threads = library, base.warm_up, threads
        self._library: Any = None
        self._call: Call | None = None
        self._sets: list[Inputs] = []
        self._timers: dict[int, Timer] = {}
        self._asks = {"open": self.open, "prepare": self.prepare, "time": self.time}

    def answer(self, request: Message) -> Message:
        try:
            return self._asks[request["ask"]](request)
        except NotImplementedError as refusal:
            return {"refused": str(refusal)}
        except Exception as error:  # whatever the library throws is what became of this problem
            return {"error": f"{type(error).__name__}: {error}"[:2000], "usable": False}

    def open(self, request: Message) -> Message:
        self._library = library = self._module.Library(request["device"], self._threads)
        return {"version": library.version}

    def prepare(self, request: Message) -> Message:
        self._call, self._sets, self._timers = None, [], {}  # memory is free before more is taken
        task = request["task"]
        make, read = self._made(task), self._own("array")
        found = {"shown": lambda out: out, "fixed": False, **make(task, [read(one) for one in request["inputs"]])}
        self._call, self._sets = found, [tuple(found["inputs"])]
        out = found["compute"](*self._sets[0])
        whole = list(out) if isinstance(out, (list, tuple)) else [out]
        results = []
        for number, one in enumerate(whole):
            element, data, shape = self._own("result")(found["shown"](one))
            if not element:
                raise NotImplementedError("a result has a type which is compared with nothing")
            file = Path(request["folder"]) / f"{number}.bin"
            file.write_bytes(data)
            results.append({"element": element, "shape": shape, "file": str(file)})
        return {"how": found["how"], "results": results}

    def time(self, request: Message) -> Message:
        """Calls until each repetition has lasted, after as long a warm-up as is wanted."""
        invoke, seconds = self._timer(request["sets"]), []
        self._warm_up(invoke, least=request["seconds"], steady=request["steady"])
        for _ in range(request["repetitions"]):
            spent, count = invoke()
            while spent < request["seconds"]:
                more, executions = invoke()
                spent, count = spent + more, count + executions
            seconds.append(spent / count)
        return {"seconds": seconds}

    def _made(self, task: Task) -> Callable[[Task, list[Any]], Call]:
        """What the library has for an operation."""
        title = self._library.title
        if task["op"] == "model" and task["format"] != "onnx":
            raise NotImplementedError(f"{title} is given models in ONNX only")
        if task.get("activation"):
            raise NotImplementedError(f"{title} is not asked for {task['activation']} here")
        make: Callable[[Task, list[Any]], Call] | None = getattr(self._library, task["op"], None)
        if make is None:
            raise NotImplementedError(f"{title} has no {task['op']} here")
        return make

    def _own(self, name: str) -> Callable[..., Any]:
        """What the library does with its arrays, or what is done with numpy's."""
        found: Callable[..., Any] = getattr(self._library, name, None) or getattr(Arrays(), name)
        return found

    def _timer(self, sets: int) -> Timer:
        call = self._call
        if call is None:
            raise ValueError("nothing is prepared")
        if sets > 1 and call["fixed"]:
            raise NotImplementedError("what is constant in its graph cannot be taken in turns")
        while len(self._sets) < sets:
            self._sets.append(tuple(map(self._own("copy"), self._sets[0])))
        if sets not in self._timers:
            self._timers[sets] = self._own("timer")(call, self._sets[:sets], one_by_one)
        return self._timers[sets]


def _loaded(path: str) -> Any:
    """A file as a module, whatever lies beside it."""
    spec = importlib.util.spec_from_file_location(f"own_{Path(path).stem}", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main() -> None:
    sys.path.append(sys.path.pop(0))  # the folder of this script: what is installed comes first
    base_file, library_file, threads = *sys.argv[1:3], int(sys.argv[3])
    os.environ.update(dict.fromkeys(_THREADS, str(threads)))  # before the library is imported, which reads it once
    base = _loaded(base_file)
    base.serve(lambda: Server(_loaded(library_file), base, threads).answer)


if __name__ == "__main__":
    main()
