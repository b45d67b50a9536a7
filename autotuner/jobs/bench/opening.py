"""The libraries that take part, each in its process; who is not there is left out by name, or is an error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from autotuner.devices.sampling import open_sampler
from autotuner.errors import EnvironmentFailure, UsageError
from autotuner.jobs.ab.arms import Arm
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
    hipblaslt_bench,
)
from autotuner.jobs.bench.library import LibraryProcess, open_library
from autotuner.jobs.bench.tuned import SpecFolder
from autotuner.targets import Target
from autotuner.tuning.options import Options
from autotuner.tuning.session import Session

BLOCKS, MOST_BLOCKS = 6, 1000
"""The fewest that give a median an interval of 95 %; and the most that can be meant."""


@dataclass(frozen=True)
class Terms:
    """How a user wants things compared, whatever they are."""

    chosen: Chosen = field(default_factory=Chosen)
    arm: Arm | SpecFolder | None = None
    """What `tuned` is made of; None: the last that won in the workspace."""
    blocks: int = BLOCKS
    csv: Path | None = None
    onnx: Path | None = None
    """The model as other libraries take it, where IREE is given another file."""

    def __post_init__(self) -> None:
        if self.onnx is not None and not (self.onnx.suffix == ".onnx" and self.onnx.is_file()):
            raise UsageError(f"--onnx {self.onnx} is no ONNX file.", remedy="Name the model's .onnx file.")
        if not 1 <= self.blocks <= MOST_BLOCKS:
            raise UsageError(
                f"--blocks {self.blocks} is not between 1 and {MOST_BLOCKS}.", remedy=f"{BLOCKS} is the default."
            )


@dataclass
class Libraries:
    """The libraries that take part, in their processes, and the backends that do not."""

    there: dict[str, LibraryProcess] = field(default_factory=dict)
    hipblaslt: Path | None = None
    """AMD's own program."""
    left_out: tuple[LeftOut, ...] = ()

    def timed_of(self, chosen: Chosen) -> int:
        """How many of the chosen backends take part."""
        return len(chosen.names) - len(self.left_out)

    @classmethod
    @contextmanager
    def open(cls, chosen: Chosen, target: Target, options: Options, session: Session) -> Iterator[Libraries]:
        """One that the user has named and that is not there is an error."""
        found = cls()
        with ExitStack() as stack:
            folder = stack.enter_context(session.builder.cache.scratch())
            for name in (name for name in chosen.names if name not in (IREE, TUNED)):
                session.reporter.stage(f"opening {name}")
                try:
                    if name == HIPBLASLT:
                        found.hipblaslt = _hipblaslt(target)
                        continue
                    opening = open_library(
                        _library(name, target),
                        python=chosen.python(name),
                        device=session.device,
                        on_host=target.backend.on_host,
                        folder=folder / name,
                        sampler=open_sampler(session.device),
                        state=options.state,
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


def _hipblaslt(target: Target) -> Path:
    if HIPBLASLT not in target.backend.libraries:
        raise EnvironmentFailure(
            f"{HIPBLASLT} computes on AMD GPUs, and the target is {target.name}.", remedy="Leave it out of --backends."
        )
    if (program := hipblaslt_bench()) is None:
        raise EnvironmentFailure(f"there is no {HIPBLASLT_BENCH} here.", remedy=f"Run: {HIPBLASLT_INSTALL}.")
    return program


def _left_out(name: str, error: EnvironmentFailure) -> LeftOut:
    """By its name, with the line that would bring it where that is what is missing."""
    lines = {HIPBLASLT: HIPBLASLT_INSTALL, **{one.name: one.install for one in LIBRARIES.values()}}
    missing = "not installed" in error.message or "there is no" in error.message
    reason = error.message.rstrip(".")
    known = f"it {reason.removeprefix(name).lstrip()}" if reason.startswith(f"{name} ") else reason
    return LeftOut(name, known, lines[name] if missing else "")
