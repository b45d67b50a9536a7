"""The parent's side of another library's process: started once for a command, and again after it is gone."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from autotuner.devices import child_base
from autotuner.devices.child_base import Message
from autotuner.devices.conditions import Conditions, DeviceState
from autotuner.devices.connection import Connection, Lost, Refused
from autotuner.devices.device import Computed, Timing
from autotuner.devices.resident import Tensor
from autotuner.devices.sampling import Sampler
from autotuner.errors import AutotuneError, EnvironmentFailure
from autotuner.iree.benchmark import CacheState
from autotuner.jobs.bench.backends import Library
from autotuner.jobs.bench.tasks import Task
from autotuner.problems.dtypes import element_type
from autotuner.system import process
from autotuner.system.process import last_line
from autotuner.system.settings import usable_cores

CHILD = Path(__file__).with_name("libraries") / "child.py"
PREPARE_SECONDS = 180.0
"""A library may compile or choose a kernel when it first sees a problem."""
_ABSENT = "No module named"


@dataclass(frozen=True)
class Ready:
    """A problem as a library computes it."""

    how: str
    elements: tuple[str, ...]
    """The type of each result."""


@dataclass(frozen=True)
class Plan:
    """How long a library times."""

    seconds: float
    """A repetition."""
    warm: float
    """The warm-up before."""
    steady: bool
    """The warm-up goes on until the device is in a lasting state."""
    pause: float
    """Idle before each repetition."""
    timeout: float
    waited: bool = False
    """One call at a time, by the host's clock."""


@dataclass(eq=False)
class LibraryProcess:
    """One library in its Python."""

    library: Library
    connection: Connection
    folder: Path
    """Where results are written."""
    sampler: Sampler
    state: DeviceState
    halted: bool
    """Between requests it is stopped: its idle threads would take the cores that others are timed on."""
    _again: Message | None = field(default=None, repr=False)
    """What a new process is asked at first: what the lost one had prepared."""

    def __post_init__(self) -> None:
        self.connection.on_open = self._prepare_again

    @property
    def name(self) -> str:
        return self.library.name

    @property
    def version(self) -> str:
        return str(self.connection.opened.get("version", ""))

    def open(self) -> None:
        """Starts it; EnvironmentFailure with the line that brings the library where it is not installed."""
        self.connection.open()
        self._halt()

    def close(self) -> None:
        self.connection.close()

    def prepare(self, task: Task, inputs: Sequence[Tensor]) -> Ready | Computed | str:
        """How it computes this; why it does not, in words; or how it failed."""
        self._again = None
        request = {"ask": "prepare", "task": task, "inputs": [one.to_json() for one in inputs]}
        try:
            answer = self._ask(request, timeout=PREPARE_SECONDS)
        except (Lost, Refused) as error:
            return _failed(error)
        if "refused" in answer:
            return str(answer["refused"])
        self._again = request
        return Ready(answer["how"], tuple(answer["elements"]))

    def results(self, ready: Ready, *, timeout: float) -> Computed:
        try:
            answer = self._ask({"ask": "call", "folder": str(self.folder)}, timeout=timeout)
        except (Lost, Refused) as error:
            return _failed(error)
        pairs = zip(answer["results"], ready.elements, strict=True)
        return Computed(tuple(self._array(one, element) for one, element in pairs))

    def time(self, plan: Plan, *, repetitions: int, sets: int = 1) -> Timing:
        cache: CacheState = "warm" if sets == 1 else "cold"
        asked = {"ask": "time", "repetitions": repetitions, "seconds": plan.seconds, "warm": plan.warm}
        asked |= {"waited": plan.waited}
        before = self.sampler()
        try:
            steady = dict(child_base.STEADY) if plan.steady else None
            answer = self._ask({**asked, "steady": steady, "pause": plan.pause, "sets": sets}, timeout=plan.timeout)
        except (Lost, Refused) as error:
            failed = _failed(error)
            return Timing((), failed.failure, failed.detail)
        if "refused" in answer:
            return Timing((), "run-error", answer["refused"])
        conditions = Conditions(self.state, cache, before, self.sampler())
        return Timing(tuple(seconds * 1e6 for seconds in answer["seconds"]), conditions=conditions)

    def _ask(self, request: Message, *, timeout: float) -> Message:
        if self.connection.pid is not None:
            process.go_on(self.connection.pid)
        try:
            return self.connection.ask(request, timeout=timeout)
        finally:
            self._halt()

    def _halt(self) -> None:
        if self.halted and self.connection.pid is not None:
            process.halt(self.connection.pid)

    def _prepare_again(self) -> None:
        if self._again is not None:
            self.connection.ask(self._again, timeout=PREPARE_SECONDS)

    def _array(self, result: Message, element: str) -> Any:
        kind = np.dtype(element_type(element).numpy)
        file = self.folder / f"{result['digest']}.bin"
        if not math.prod(result["shape"]):
            return np.empty(result["shape"], kind)
        return np.fromfile(file, np.uint8).view(kind).reshape(result["shape"])


@contextmanager
def open_library(
    library: Library, *, python: Path, device: str, on_host: bool, folder: Path, sampler: Sampler, state: DeviceState
) -> Iterator[LibraryProcess]:
    """A library's process, ended with the command. It has as many threads as there are cores."""
    folder.mkdir(parents=True, exist_ok=True)
    command = (python, CHILD, child_base.__file__, library.script, str(usable_cores()))
    missing = _missing(library, python)
    log = folder / f"{library.name}.txt"
    connection = Connection("cpu" if on_host else torch_device(device), log, command, missing=missing)
    opened = LibraryProcess(library, connection, folder, sampler, state, halted=on_host)
    try:
        opened.open()
        yield opened
    finally:
        opened.close()


def torch_device(uri: str) -> str:
    """A GPU in the words of torch, for which AMD's too are `cuda`."""
    which = uri.partition("://")[2].partition("?")[0]
    return f"cuda:{which}" if which.isdecimal() else "cuda:0"


def _missing(library: Library, python: Path) -> Callable[[str, str], AutotuneError]:
    def missing(device: str, why: str) -> AutotuneError:
        if _ABSENT in why:
            install = library.install.removeprefix("pip ")
            return EnvironmentFailure(
                f"{library.name} is not installed in {python} ({last_line(why)}).",
                remedy=f"Run: {python} -m pip {install}; or name another by --python {library.name}=PYTHON.",
            )
        return EnvironmentFailure(
            f"{library.name} does not start on {device} in {python}: {last_line(why)}.",
            remedy=f"Leave it out of --backends, or name another by --python {library.name}=PYTHON.",
        )

    return missing


def _failed(error: Lost | Refused) -> Computed:
    if isinstance(error, Lost):
        return Computed(failure=error.failure, detail=str(error))
    return Computed(failure="run-error", detail=str(error))
