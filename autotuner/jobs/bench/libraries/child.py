"""The child of another library: it computes and times problems by it. The Python that has the library runs it.

    child.py CHILD_BASE.py LIBRARY.py THREADS

It needs numpy and the library. Of this package it has files by their paths: what every child has (the frames that it
speaks in, the warm-up), and the library's own part. Each request has one answer; `error` stands in the place of one,
and `refused` where the library does not compute what is asked.

    open     device                               its name and version
    prepare  task, inputs                         how it is computed, and in which type the result comes
    call     folder                               one call; a result goes to the file of its digest in the folder
    time     repetitions, seconds, warm, steady,  seconds of one execution in each repetition, which lasts so long;
             sets                                 after a warm-up; on so many copies of the inputs in turn
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
from pathlib import Path
from typing import Any, Protocol

Message = dict[str, Any]
Task = dict[str, Any]
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


class Refusal(Exception):
    """The library does not compute this."""


class Prepared(Protocol):
    """A problem that is ready to be computed."""

    how: str
    """By which of the library's functions, in a few words."""
    elements: list[str]
    """The type of each result, in MLIR's words."""

    def results(self) -> list[tuple[bytes, list[int]]]:
        """Computes once: each result's bytes and shape."""

    def invoke(self, sets: int) -> tuple[float, int]:
        """Some executions in a row, on so many copies of the inputs in turn: the seconds of all, and how many."""


class Library(Protocol):
    """What a library's own file has by this name; it is made with the device and the number of threads."""

    name: str
    version: str

    def __init__(self, device: str, threads: int) -> None: ...

    def prepare(self, task: Task, inputs: list[Message]) -> Prepared:
        """Raises the Refusal that it is given as `refusal` where it does not compute this."""


class Server:
    """Answers requests, one after the other."""

    def __init__(self, library: Any, base: Any, threads: int) -> None:
        self._module, self._warm_up, self._threads = library, base.warm_up, threads
        self._library: Library | None = None
        self._prepared: Prepared | None = None
        self._asks = {"open": self.open, "prepare": self.prepare, "call": self.call, "time": self.time}

    def answer(self, request: Message) -> Message:
        try:
            return self._asks[request["ask"]](request)
        except self._module.Refusal as refusal:
            return {"refused": str(refusal)}
        except Exception as error:  # whatever the library throws is what became of this problem
            return {"error": f"{type(error).__name__}: {error}"[:2000], "usable": False}

    def open(self, request: Message) -> Message:
        try:
            self._library = library = self._module.Library(request["device"], self._threads)
        except ImportError as error:
            return {"error": str(error), "absent": error.name or "", "usable": False}
        return {"name": library.name, "version": library.version, "threads": self._threads}

    def prepare(self, request: Message) -> Message:
        self._prepared = None  # its memory is free before more is taken
        if self._library is None:
            raise ValueError("no device is open")
        self._prepared = found = self._library.prepare(request["task"], request["inputs"])
        return {"how": found.how, "elements": found.elements}

    def call(self, request: Message) -> Message:
        return {"results": [_written(data, shape, Path(request["folder"])) for data, shape in self._ready.results()]}

    def time(self, request: Message) -> Message:
        """Calls until each repetition has lasted, after as long a warm-up as is wanted."""
        prepared, sets, seconds = self._ready, request["sets"], []

        def invoke() -> tuple[float, int]:
            return prepared.invoke(sets)

        self._warm_up(invoke, least=request["warm"], steady=request["steady"])
        for _ in range(request["repetitions"]):
            spent, count = invoke()
            while spent < request["seconds"]:
                more, executions = invoke()
                spent, count = spent + more, count + executions
            seconds.append(spent / count)
        return {"seconds": seconds}

    @property
    def _ready(self) -> Prepared:
        if self._prepared is None:
            raise ValueError("nothing is prepared")
        return self._prepared


def _written(data: bytes, shape: list[int], folder: Path) -> Message:
    """A result in the file of its digest, unless the same lies there."""
    digest = hashlib.sha256(data).hexdigest()
    file = folder / f"{digest}.bin"
    if not file.exists():
        file.write_bytes(data)
    return {"digest": digest, "shape": shape}


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
