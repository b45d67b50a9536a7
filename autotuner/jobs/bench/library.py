"""Other libraries, each in a process of its own: started once for a command, and again after it is gone.

A missing library is left out by name, or is an error where the user has named it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from autotuner.devices import child_base
from autotuner.devices.child_base import Message
from autotuner.devices.conditions import Conditions
from autotuner.devices.connection import OPEN_SECONDS, Connection, RequestFailed
from autotuner.devices.device import Computed, Timing
from autotuner.devices.sampling import open_sampler, sampled, sizes_of
from autotuner.errors import AutotuneError, EnvironmentFailure
from autotuner.jobs.bench.backends import LIBRARIES, LeftOut, Library, Terms
from autotuner.jobs.bench.given import Given
from autotuner.jobs.bench.result import UNSUPPORTED
from autotuner.jobs.bench.sides import Backend, Manner, NoSideError, Side
from autotuner.problems.dtypes import element_type
from autotuner.system import process
from autotuner.system.process import last_line
from autotuner.system.settings import usable_cores
from autotuner.targets import Target
from autotuner.tuning.session import Session

CHILD = Path(__file__).with_name("libraries") / "child.py"
_ABSENT = "No module named"


@dataclass(eq=False)
class LibraryProcess:
    """One library in its Python."""

    connection: Connection
    folder: Path
    """Where results are written."""
    device: str
    halted: bool
    """Between requests it is stopped: its idle threads would take the cores that others are timed on."""

    _prepared: Message | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        self.connection.on_open = self._prepare_again

    def _prepare_again(self) -> None:
        """A new process is asked at first what the lost one had prepared."""
        if self._prepared is not None:
            self.connection.ask(self._prepared, timeout=OPEN_SECONDS)

    @property
    def version(self) -> str:
        return str(self.connection.opened.get("version", ""))

    def prepare(self, given: Given, manner: Manner) -> Side:
        """It may compile or choose a kernel when it first sees a problem: that takes as long as to open a device."""
        manner.device.lend(busy=False)
        self._prepared = None
        inputs = [asdict(one) for one in given.tensors]
        request = {"ask": "prepare", "task": given.task, "inputs": inputs, "folder": str(self.folder)}
        answer = self.ask(request, timeout=OPEN_SECONDS)
        self._prepared = request
        footprint = sum(one.bytes for one in given.tensors)
        rotation = sizes_of(self.device).rotation(footprint)
        sets = max(2, rotation.sets) if rotation.exceeds else 0
        elements = tuple(one["element"] for one in answer["results"])
        computed = Computed(tuple(map(_array, answer["results"])))

        def timed_cold(_: float) -> Timing | None:
            found = self.timed(manner, 1, sets=sets) if sets else None
            return found if found is not None and found.ok else None

        return Side(answer["how"], elements, computed, partial(self.timed, manner), timed_cold)

    def timed(self, manner: Manner, repetitions: int, *, sets: int = 1) -> Timing:
        """On this many copies of the inputs in turn, in the state in which all are timed."""
        manner.device.lend(busy=True)
        steady = None if manner.on_host else dict(child_base.STEADY)
        asked = {"ask": "time", "repetitions": repetitions, "seconds": manner.seconds, "steady": steady, "sets": sets}

        def timed() -> Timing:
            try:
                seconds = self.ask(asked, timeout=manner.timeout)["seconds"]
            except NoSideError as error:
                return Timing((), "run-timeout" if error.failure == "run-timeout" else "run-error", error.detail)
            return Timing(tuple(one * 1e6 for one in seconds))

        conditions = Conditions("sustained", "warm" if sets == 1 else "cold")
        return sampled(timed, open_sampler(self.device), conditions)

    def ask(self, request: Message, *, timeout: float) -> Message:
        """The answer; NoSideError where there is none, or it is a refusal."""
        if self.connection.pid is not None:
            process.go_on(self.connection.pid)
        try:
            answer = self.connection.ask(request, timeout=timeout)
        except RequestFailed as error:
            raise NoSideError(error.failure, str(error)) from error
        finally:
            self.halt()
        if "refused" in answer:
            raise NoSideError(UNSUPPORTED, str(answer["refused"]))
        return answer

    def halt(self) -> None:
        if self.halted and self.connection.pid is not None:
            process.halt(self.connection.pid)


def _array(result: Message) -> Any:
    kind = np.dtype(element_type(result["element"]).numpy)
    if not math.prod(result["shape"]):
        return np.empty(result["shape"], kind)
    return np.fromfile(result["file"], np.uint8).view(kind).reshape(result["shape"])


@contextmanager
def open_library(
    library: Library, *, python: Path, device: str, on_host: bool, folder: Path
) -> Iterator[LibraryProcess]:
    """A library's process, ended with the command. It has as many threads as there are cores.

    EnvironmentFailure has the line that brings the library where it is not installed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    command = (python, CHILD, child_base.__file__, library.script, str(usable_cores()))
    log, where = folder / f"{library.name}.txt", "cpu" if on_host else torch_device(device)
    connection = Connection(where, log, command, missing=_missing(library, python))
    opened = LibraryProcess(connection, folder, device, halted=on_host)
    try:
        connection.open()
        opened.halt()
        yield opened
    finally:
        connection.close()


def torch_device(uri: str) -> str:
    """A GPU in the words of torch, for which AMD's too are `cuda`."""
    which = uri.partition("://")[2].partition("?")[0]
    return f"cuda:{which}" if which.isdecimal() else "cuda:0"


def _missing(library: Library, python: Path) -> Callable[[str, str], AutotuneError]:
    def missing(device: str, why: str) -> AutotuneError:
        other = f"name another by --python {library.name}=PYTHON."
        if _ABSENT in why:
            install = library.install.removeprefix("pip ")
            said = f"{library.name} is not installed in {python}: {last_line(why)}."
            return EnvironmentFailure(said, remedy=f"Run: {python} -m pip {install}; or {other}")
        said = f"{library.name} does not start on {device} in {python}: {last_line(why)}."
        return EnvironmentFailure(said, remedy=f"Leave it out of --backends, or {other}")

    return missing


# --- who takes part ---------------------------------------------------------------------------------------------------


@dataclass
class Libraries:
    """The libraries that take part, in their processes, and the backends that do not."""

    there: dict[str, Backend] = field(default_factory=dict)
    left_out: tuple[LeftOut, ...] = ()

    @classmethod
    @contextmanager
    def open(cls, terms: Terms, target: Target, session: Session) -> Iterator[Libraries]:
        """One that the user has named and that is not there is an error."""
        found, on_host = cls(), target.backend.on_host
        with ExitStack() as stack:
            folder = stack.enter_context(session.builder.cache.scratch())
            for library in (LIBRARIES[name] for name in terms.names if name in LIBRARIES):
                name, why = library.name, library.objection(target)
                session.reporter.stage(f"opening {name}")
                try:
                    if why:
                        raise EnvironmentFailure(f"{why}.", remedy="Leave it out of --backends.")
                    opening = open_library(
                        library,
                        python=terms.python(name),
                        device=session.device,
                        on_host=on_host,
                        folder=folder / name,
                    )
                    found.there[name] = stack.enter_context(opening)
                except EnvironmentFailure as error:
                    if terms.named:
                        raise
                    install = library.install if "not installed" in error.message else ""
                    found.left_out += (LeftOut(name, error.message.rstrip("."), install),)
            yield found
