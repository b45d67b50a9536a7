"""The libraries that take part, each in its process; who is not there is left out by name, or is an error."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from autotuner.devices.sampling import open_sampler
from autotuner.errors import EnvironmentFailure, UsageError
from autotuner.jobs.ab.arms import Arm
from autotuner.jobs.bench.backends import HIPBLASLT, IREE, LIBRARIES, TUNED, Chosen, LeftOut, Library
from autotuner.jobs.bench.library import LibraryProcess, open_library
from autotuner.targets import Target
from autotuner.tuning.options import Options
from autotuner.tuning.session import Session

BLOCKS, MOST_BLOCKS = 6, 1000
"""The fewest that give a median an interval of 95 %; and the most that can be meant."""


@dataclass(frozen=True)
class Terms:
    """How a user wants things compared, whatever they are."""

    chosen: Chosen = field(default_factory=Chosen)
    arm: Arm | None = None
    """What `tuned` is made of; None: the last that won in the workspace."""
    blocks: int = BLOCKS
    csv: Path | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.blocks <= MOST_BLOCKS:
            raise UsageError(
                f"--blocks {self.blocks} is not between 1 and {MOST_BLOCKS}.", remedy=f"{BLOCKS} is the default."
            )


@dataclass(frozen=True)
class Libraries:
    """The libraries that take part, in their processes, and the backends that do not."""

    there: Mapping[str, LibraryProcess]
    left_out: tuple[LeftOut, ...]

    @classmethod
    @contextmanager
    def open(cls, chosen: Chosen, target: Target, options: Options, session: Session) -> Iterator[Libraries]:
        """One that the user has named and that is not there is an error."""
        there: dict[str, LibraryProcess] = {}
        left_out: list[LeftOut] = []
        sampler = open_sampler(session.device)
        with ExitStack() as stack:
            folder = stack.enter_context(session.builder.cache.scratch())
            for name in chosen.names:
                if name in (IREE, TUNED):
                    continue
                session.reporter.stage(f"opening {name}")
                try:
                    library = _library(name, target)
                    opening = open_library(
                        library,
                        python=chosen.python(name),
                        device=session.device,
                        on_host=target.backend.on_host,
                        folder=folder / name,
                        sampler=sampler,
                        state=options.state,
                    )
                    there[name] = stack.enter_context(opening)
                except EnvironmentFailure as error:
                    if chosen.named:
                        raise
                    install = LIBRARIES[name].install if name in LIBRARIES and "not installed" in str(error) else ""
                    left_out.append(LeftOut(name, error.message.rstrip("."), install))
            yield cls(there, tuple(left_out))


def _library(name: str, target: Target) -> Library:
    """The library, where it can run at all."""
    if name == HIPBLASLT:
        raise EnvironmentFailure(
            f"{name} computes on AMD GPUs, and the target is {target.name}.", remedy="Leave it out."
        )
    library = LIBRARIES[name]
    if why := library.objection(target):
        raise EnvironmentFailure(f"{why}.", remedy="Leave it out of --backends.")
    return library
