"""What all steps of a model's run share."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from autotuner.carriers.outputs import MODEL, Outputs, files_in
from autotuner.errors import NoCandidateError, UsageError
from autotuner.iree.compile import CompilerRefusal, first_error
from autotuner.iree.mlir import resources
from autotuner.jobs.model.dispatch import flops
from autotuner.jobs.model.extract import Flow, Group, Piece, by_name, group, read_flow, read_roots
from autotuner.jobs.model.program import Program, ProgramBuild, ProgramBuilder, input_shapes, program_name
from autotuner.problems import OPERATIONS
from autotuner.problems.accuracy import Precision
from autotuner.space.table import Config
from autotuner.store.rows import Kind
from autotuner.system.names import checked_name
from autotuner.system.progress import Clock
from autotuner.system.workspace import Workspace
from autotuner.targets import NO_DEVICE, Route, Target
from autotuner.tuning.options import Options
from autotuner.tuning.session import Session, clocked

BUDGET_FACTOR = 3.0
"""A model's budget, unless one is given, over that of a single problem."""
KINDS: Mapping[str, str] = {operation.kind: name for name, operation in OPERATIONS.items()}
"""What the kinds of root operations are called on the command line."""
_ROOT = "--iree-codegen-add-tuner-attributes"


@dataclass(frozen=True)
class Model:
    """What a user asks: which model, called how, on which routes, how much of it."""

    path: Path
    function: str | None = None
    inputs: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    routes: tuple[str, ...] = ()
    top: int | None = None
    min_share: float = 1.0
    """Per cent."""
    tolerance: float | None = None
    trust: bool = False
    """Compile it whatever is in it."""
    allow: Precision = ""

    def __post_init__(self) -> None:
        if self.top is not None and self.top < 1:
            raise UsageError(f"--top {self.top} is not positive.", remedy="Give --top 1 or more.")
        if not 0 <= self.min_share <= 100:
            raise UsageError(f"--min-share {self.min_share:g} is no percentage.", remedy="Give 0 to 100.")
        if self.tolerance is not None and not 0 <= self.tolerance < math.inf:
            raise UsageError(f"--tolerance {self.tolerance:g} is no relative error.", remedy="Give 0 or more.")
        for route in self.routes:
            checked_name(route.partition("=")[0].strip(), what="a route")

    def files(self, target: Target) -> Iterator[Path]:
        """What is read for it, as far as the command names it."""
        yield self.path
        yield from files_in([*self.inputs, *self.parameters, *target.user_flags, *self.routes])


@dataclass(frozen=True)
class Anatomy:
    """A model on one route: its dispatches, those with the same root together."""

    flow: Flow
    groups: tuple[Group, ...]
    others: tuple[Piece, ...]
    configured: Mapping[str, str] = field(repr=False)
    """The configured executables by name."""

    @property
    def flops(self) -> int:
        return sum(flops(g.root) * g.calls for g in self.groups)


@dataclass
class Context:
    """The run: what it works on, and what it writes down as it goes."""

    model: Model
    program: Program
    target: Target
    options: Options
    session: Session
    builder: ProgramBuilder
    run: str = ""
    timing_seconds: float = 0.2
    """What one timing of a whole model costs in wall time, the process included."""
    notes: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(("space", "build", "time", "search"), 0.0))
    _ordinal: int = 0

    @cached_property
    def clock(self) -> Clock:
        return Clock(self.options.budget or BUDGET_FACTOR * self.options.effort.budget)

    @property
    def timed(self) -> bool:
        return self.session.device != NO_DEVICE

    @property
    def folder(self) -> Path:
        return self.session.workspace.run_folder(self.run)

    @property
    def compile_timeout(self) -> float:
        """A model may take as long as there is time."""
        return max(self.options.effort.compile_timeout, self.clock.budget)

    @property
    def run_timeout(self) -> float:
        return 10 * self.options.effort.run_timeout

    @property
    def files(self) -> Outputs:
        return model_outputs(self.model, self.target, self.options, self.session.workspace)

    def flags(self, route: Route) -> list[str]:
        return [*self.target.compile_flags, *route.flags]

    def stage(self, text: str) -> None:
        self.session.reporter.stage(text)

    def note(self, text: str) -> None:
        self.notes.append(text)
        self.session.reporter.note(text)

    def clocked(self, what: str) -> AbstractContextManager[None]:
        return clocked(self.seconds, what)

    def row(self, kind: Kind, route: Route) -> int:
        """A row for a whole model that is about to be tried."""
        row = self.session.store.add_candidate(
            self.run, ordinal=self._ordinal, config=Config(()), kind=kind, route=route.name
        )
        self._ordinal += 1
        return row

    def record_build(self, row: int, build: ProgramBuild, flags: list[str]) -> None:
        self.session.store.record_build(
            row,
            seconds=build.seconds,
            cached=False,
            binary=build.binary,
            applied=0,
            command=self.builder.command(flags, vmfb=build.vmfb),
            vmfb=str(build.vmfb),
        )

    def anatomy(self, route: Route) -> Anatomy:
        """Asks the compiler what it makes of the model on this route."""
        with self.clocked("space"):
            return read_anatomy(
                self.builder, self.model, self.flags(route), target=self.target.name, timeout=self.compile_timeout
            )


def model_outputs(model: Model, target: Target, options: Options, workspace: Workspace) -> Outputs:
    """Where the tuned model's files go."""
    default = workspace.specs / f"{program_name(model.path)}-{target.name}.mlir"
    return Outputs.at(options.output or default, workspace, MODEL)


def read_anatomy(
    builder: ProgramBuilder, model: Model, flags: Sequence[str], *, target: str, timeout: float
) -> Anatomy:
    """The model's dispatches, from the compiler."""
    try:
        text = builder.flow(flags, timeout=timeout)
        configured = builder.configured([*flags, _ROOT], timeout=timeout)
    except CompilerRefusal as refusal:
        raise NoCandidateError(
            f"iree-compile cannot compile {builder.program.name} for {target}: {first_error(refusal.stderr)}",
            remedy="Check the model, --flag and --target.",
        ) from refusal
    flow = read_flow(text, function=model.function, shapes=input_shapes(model.inputs))
    groups, others = group(flow.pieces, read_roots(configured))
    return Anatomy(flow, groups, others, by_name(one + resources(text) for one in configured))
