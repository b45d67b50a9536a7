"""Other libraries, each in a process of its own: started once for a command, and again after it is gone.

Who is not there is left out by name, or is an error where the user has named it.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from autotuner.devices import child_base
from autotuner.devices.child_base import Message
from autotuner.devices.conditions import Conditions, DeviceState
from autotuner.devices.connection import Connection, Lost, Refused
from autotuner.devices.device import Computed, Timing
from autotuner.devices.sampling import Rotation, Sampler, open_sampler, sizes_of
from autotuner.errors import AutotuneError, EnvironmentFailure
from autotuner.iree.compile import FailureClass
from autotuner.iree.run import CacheState
from autotuner.jobs.bench.backends import (
    HIPBLASLT,
    HIPBLASLT_BENCH,
    HIPBLASLT_INSTALL,
    IREE,
    LIBRARIES,
    TUNED,
    Chosen,
    LeftOut,
    Library,
)
from autotuner.jobs.bench.given import Given
from autotuner.jobs.bench.hipblaslt import Hipblaslt
from autotuner.jobs.bench.result import UNSUPPORTED
from autotuner.jobs.bench.sides import Backend, Manner, NoSideError
from autotuner.problems.dtypes import element_type
from autotuner.store.rows import Kind
from autotuner.system import process
from autotuner.system.process import last_line
from autotuner.system.settings import usable_cores
from autotuner.targets import Target
from autotuner.tuning.session import Session

CHILD = Path(__file__).with_name("libraries") / "child.py"
PREPARE_SECONDS = 180.0
"""A library may compile or choose a kernel when it first sees a problem."""
_ABSENT = "No module named"
_ROCM = "/opt/rocm/bin"


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
    rotation: Callable[[int], Rotation]
    """Over how many copies of so many bytes a cold timing goes."""
    _again: Message | None = field(default=None, repr=False)
    """What a new process is asked at first: what the lost one had prepared."""

    def __post_init__(self) -> None:
        self.connection.on_open = self._prepare_again

    kind: ClassVar[Kind] = "library"

    @property
    def version(self) -> str:
        return str(self.connection.opened.get("version", ""))

    def open(self) -> None:
        """Starts it; EnvironmentFailure with the line that brings the library where it is not installed."""
        self.connection.open()
        self._halt()

    def close(self) -> None:
        self.connection.close()

    def prepare(self, given: Given, manner: Manner) -> LibrarySide:
        manner.device.lend(busy=False)
        self._again = None
        request = {"ask": "prepare", "task": given.task, "inputs": [one.to_json() for one in given.tensors]}
        try:
            answer = self._ask(request, timeout=PREPARE_SECONDS)
        except (Lost, Refused) as error:
            raise NoSideError(_failure(error), str(error)) from error
        if "refused" in answer:
            raise NoSideError(UNSUPPORTED, str(answer["refused"]))
        self._again = request
        footprint = sum(one.file.stat().st_size for one in given.tensors)
        return LibrarySide(self, manner, answer["how"], tuple(answer["elements"]), self.rotation(footprint))

    def results(self, elements: tuple[str, ...], *, timeout: float) -> Computed:
        try:
            answer = self._ask({"ask": "call", "folder": str(self.folder)}, timeout=timeout)
        except (Lost, Refused) as error:
            return Computed(failure=_failure(error), detail=str(error))
        pairs = zip(answer["results"], elements, strict=True)
        return Computed(tuple(self._array(one, element) for one, element in pairs))

    def time(self, manner: Manner, *, repetitions: int, sets: int = 1) -> Timing:
        """On so many copies of the inputs in turn."""
        cache: CacheState = "warm" if sets == 1 else "cold"
        steady = dict(child_base.STEADY) if manner.steady else None
        asked: Message = {"ask": "time", "repetitions": repetitions, "seconds": manner.seconds, "warm": manner.seconds}
        asked |= {"steady": steady, "sets": sets}
        before = self.sampler()
        try:
            answer = self._ask(asked, timeout=manner.timeout)
        except (Lost, Refused) as error:
            return Timing((), _failure(error), str(error))
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


@dataclass(frozen=True)
class LibrarySide:
    """What a library has prepared."""

    process: LibraryProcess
    manner: Manner
    how: str
    elements: tuple[str, ...]
    rotation: Rotation
    """Over how many copies of the inputs a cold timing goes."""

    def answer(self) -> Computed:
        return self.process.results(self.elements, timeout=self.manner.timeout)

    def time(self, *, repetitions: int) -> Timing:
        self.manner.lend()
        return self.process.time(self.manner, repetitions=repetitions)

    def time_cold(self, warm_us: float) -> Timing | None:
        del warm_us
        if not self.rotation.exceeds:
            return None
        self.manner.lend()
        sets = max(2, self.rotation.sets)
        found = self.process.time(self.manner, repetitions=1, sets=sets)
        return found if found.ok else None


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
    rotation = sizes_of(device).rotation
    opened = LibraryProcess(library, connection, folder, sampler, state, halted=on_host, rotation=rotation)
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


def _failure(error: Lost | Refused) -> FailureClass:
    return error.failure if isinstance(error, Lost) else "run-error"


# --- who takes part ---------------------------------------------------------------------------------------------------


@dataclass
class Libraries:
    """The libraries that take part, in their processes, and the backends that do not."""

    there: dict[str, Backend] = field(default_factory=dict)
    left_out: tuple[LeftOut, ...] = ()

    def timed_of(self, chosen: Chosen) -> int:
        """How many of the chosen backends take part."""
        return len(chosen.names) - len(self.left_out)

    @classmethod
    @contextmanager
    def open(cls, chosen: Chosen, target: Target, session: Session) -> Iterator[Libraries]:
        """One that the user has named and that is not there is an error."""
        found = cls()
        with ExitStack() as stack:
            folder = stack.enter_context(session.builder.cache.scratch())
            for name in (name for name in chosen.names if name not in (IREE, TUNED)):
                session.reporter.stage(f"opening {name}")
                try:
                    if name == HIPBLASLT:
                        found.there[name] = _hipblaslt(target, session)
                        continue
                    opening = open_library(
                        _library(name, target),
                        python=chosen.python(name),
                        device=session.device,
                        on_host=target.backend.on_host,
                        folder=folder / name,
                        sampler=open_sampler(session.device),
                        state="sustained",
                    )
                    found.there[name] = stack.enter_context(opening)
                except EnvironmentFailure as error:
                    if chosen.named:
                        raise
                    found.left_out += (_left_out(name, error),)
            yield found


def _library(name: str, target: Target) -> Library:
    """The library, where it can run at all."""
    library = LIBRARIES[name]
    if why := library.objection(target):
        raise EnvironmentFailure(f"{why}.", remedy="Leave it out of --backends.")
    return library


def _hipblaslt(target: Target, session: Session) -> Hipblaslt:
    """AMD's own program, where ROCm has brought it."""
    if HIPBLASLT not in target.backend.libraries:
        raise EnvironmentFailure(
            f"{HIPBLASLT} computes on AMD GPUs, and the target is {target.name}.", remedy="Leave it out of --backends."
        )
    program = shutil.which(HIPBLASLT_BENCH) or shutil.which(HIPBLASLT_BENCH, path=_ROCM)
    if program is None:
        raise EnvironmentFailure(f"there is no {HIPBLASLT_BENCH} here.", remedy=f"Run: {HIPBLASLT_INSTALL}.")
    return Hipblaslt(Path(program), session.device, "sustained", open_sampler(session.device))


def _left_out(name: str, error: EnvironmentFailure) -> LeftOut:
    """By its name, with the line that would bring it where that is what is missing."""
    lines = {HIPBLASLT: HIPBLASLT_INSTALL, **{one.name: one.install for one in LIBRARIES.values()}}
    missing = "not installed" in error.message or "there is no" in error.message
    reason = error.message.rstrip(".")
    known = f"it {reason.removeprefix(name).lstrip()}" if reason.startswith(f"{name} ") else reason
    return LeftOut(name, known, lines[name] if missing else "")
