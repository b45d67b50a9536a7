"""What all steps of a model's run share."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from autotuner.carriers.outputs import MODEL, Outputs, files_in
from autotuner.errors import NoCandidateError, UsageError
from autotuner.iree.benchmark import DispatchTime
from autotuner.iree.compile import FLOW, PREPROCESSED, Compiled, first_error, shell_line
from autotuner.iree.mlir import by_name, resources
from autotuner.iree.run import Invocation
from autotuner.iree.tools import Tools
from autotuner.jobs.model.dispatch import group_flops
from autotuner.jobs.model.extract import Flow, FlowDispatch, Group, group, read_flow, read_roots
from autotuner.jobs.model.inputs import input_shapes
from autotuner.jobs.model.program import Program, ProgramBuilder, program_name
from autotuner.jobs.model.stages import Stages
from autotuner.problems import OPERATIONS
from autotuner.problems.accuracy import Precision
from autotuner.store.rows import BuildRow, Kind
from autotuner.system import machine
from autotuner.system.names import checked_name
from autotuner.system.progress import Clock
from autotuner.system.workspace import Workspace
from autotuner.targets import Route, Target
from autotuner.tuning.options import Options
from autotuner.tuning.result import RunFacts
from autotuner.tuning.run import Run
from autotuner.tuning.session import Session

BUDGET_FACTOR = 3.0
"""A model's budget, unless one is given, over that of a single problem."""
KINDS: Mapping[str, str] = {operation.kind: name for name, operation in OPERATIONS.items()}
"""What the kinds of root operations are called on the command line."""


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
    expected: tuple[Path, ...] = ()
    """The outputs that it must give, one file for each."""

    def __post_init__(self) -> None:
        if self.top is not None and self.top < 1:
            raise UsageError(f"--top {self.top} is not positive.", remedy="Give --top 1 or more.")
        if not 0 <= self.min_share <= 100:
            raise UsageError(f"--min-share {self.min_share:g} is no percentage.", remedy="Give 0 to 100.")
        if self.tolerance is not None and not 0 <= self.tolerance < math.inf:
            raise UsageError(f"--tolerance {self.tolerance:g} is no relative error.", remedy="Give 0 or more.")
        for route in self.routes:
            checked_name(route.partition("=")[0].strip(), what="a route")

    @property
    def name(self) -> str:
        return program_name(self.path, self.function)

    def describe(self, program: Program, *, flops: int) -> dict[str, object]:
        """The program, and what is accepted of its results."""
        return program.describe(flops=flops) | ({"allow_precision": self.allow} if self.allow else {})

    def opened(self, *, folder: Path, tools: Tools) -> Program:
        """The program, called as the user says; what is imported goes into `folder`."""
        found = Program.open(self.path, folder=folder, tools=tools, trust=self.trust)
        return found.called(function=self.function, inputs=self.inputs, parameters=self.parameters)

    def opened_in(self, session: Session) -> Program:
        """The same in a session's workspace."""
        return self.opened(folder=session.workspace.candidates / "models", tools=session.tools)

    def leaves_out(self, share: float, *, chosen: int) -> str:
        """Why no search is wanted for what has this share of the time, after so many; empty where one is."""
        if self.top is None:
            return f"less than {self.min_share:g} % of the time (--min-share)" if 100 * share < self.min_share else ""
        return f"not among the first {self.top} (--top)" if chosen >= self.top else ""

    def files(self, target: Target) -> Iterator[Path]:
        """What is read for it, as far as the command names it."""
        yield self.path
        yield from self.expected
        yield from files_in([*self.inputs, *self.parameters, *target.user_flags, *self.routes])


@dataclass(frozen=True)
class ModelStructure:
    """A model on one route: its dispatches, those with the same root together."""

    flow: Flow
    groups: tuple[Group, ...]
    others: tuple[FlowDispatch, ...]
    configured: Mapping[str, str] = field(repr=False)
    """The configured executables by name."""
    preprocessed: str = field(default="", repr=False)
    """The program as it goes into IREE's own pipelines: what a microkernel's spec is matched with."""

    @property
    def ops(self) -> set[str]:
        """The operations that take its time, as the command line calls them."""
        return {KINDS[group.root.kind] for group in self.groups}

    @property
    def head_widths(self) -> list[int]:
        """Of queries and keys of its attentions."""
        return [math.prod(g.root.sizes("k1")) for g in self.groups if g.root.kind == "attention"]

    @property
    def flops(self) -> int:
        return sum(map(group_flops, self.groups))


@dataclass(frozen=True)
class Ahead:
    """A compile of a route that began before the routes were chosen."""

    build: Future[Compiled]
    began: float
    """As `time.monotonic()` counts."""


@dataclass
class Context:
    """What all steps of the run work on."""

    model: Model
    program: Program
    builder: ProgramBuilder
    run: Run
    timing_seconds: float = 0.2
    """What one timing of a whole model costs in wall time, the process included."""
    isolated_seconds: float = 0.2
    """What one costs in a process of its own, as a confirmation takes it."""
    call: Invocation | None = None
    """How the model is called, once that is known."""
    ahead: dict[Route, Ahead] = field(default_factory=dict)
    """Routes that are compiled already, or are about to be."""
    read: dict[Path, Mapping[str, DispatchTime]] = field(default_factory=dict)
    """What the runtime's statistics said last of each module that was asked about."""
    default_us: dict[str, float] = field(default_factory=dict)
    """What the default takes as a whole, by device, where several have timed it."""

    @property
    def target(self) -> Target:
        return self.run.target

    @property
    def options(self) -> Options:
        return self.run.options

    @property
    def session(self) -> Session:
        return self.run.session

    @property
    def clock(self) -> Clock:
        return self.run.clock

    @property
    def timed(self) -> bool:
        return self.run.timed

    @property
    def crowding(self) -> float:
        """How many times longer all takes than on an idle machine; of a cluster's nobody asks."""
        return machine.crowding() if self.options.cluster is None else 1.0

    @property
    def folder(self) -> Path:
        return self.run.folder

    @property
    def stages(self) -> Stages:
        """What of the time comes before dispatches are tuned. Only IREE's drivers for processors keep statistics."""
        return Stages(self.clock.budget, alone=not self.target.backend.on_host)

    @property
    def compile_timeout(self) -> float:
        return compile_timeout(self.options, self.clock)

    @property
    def run_timeout(self) -> float:
        return run_timeout(self.options)

    @property
    def files(self) -> Outputs:
        return model_outputs(self.model, self.target, self.options, self.session.workspace)

    def flags(self, route: Route) -> list[str]:
        return [*self.target.compile_flags, *route.flags]

    def facts(self) -> RunFacts:
        """What the result says of the run. Whole models are judged warm, also where dispatches are searched cold."""
        facts, us = self.run.facts(), self.default_us
        facts["devices"] = tuple({**one, "default_us": us.get(one["device"])} for one in facts["devices"])
        timing = facts["timing"]
        if timing is None:
            return facts
        return {**facts, "timing": {**timing, "cache": "warm", "search_cache": timing["cache"]}}

    def stage(self, text: str) -> None:
        self.run.account.stage(text)

    def note(self, text: str) -> None:
        self.run.account.note(text)

    def clocked(self, what: str) -> AbstractContextManager[None]:
        return self.run.account.clocked(what)

    def row(self, kind: Kind, route: Route) -> int:
        """A row for a whole model that is about to be tried."""
        return self.run.candidate(kind, route.name)

    def record_build(self, row: int, build: Compiled, flags: list[str]) -> None:
        command = tuple(self.builder.command(flags, vmfb=build.vmfb))
        self.session.store.record_build(
            BuildRow(row, build.seconds, build.cached, build.binary, 0, command, str(build.vmfb))
        )

    def statistics(self, vmfb: Path, call: Invocation) -> Mapping[str, DispatchTime] | None:
        """What each dispatch of a module takes; None where the device keeps no statistics."""
        with self.clocked("time"):
            found = self.session.runner.dispatch_times(vmfb, call, timeout=self.run_timeout)
        if found:
            self.read[vmfb] = found
        return found

    def structure(self, build: Compiled) -> ModelStructure:
        """What the compiler made of the model."""
        with self.clocked("space"):
            flags = self.target.compile_flags
            return structure_in(build, self.model, self.builder, flags=flags, target=self.target.name)

    def configured(self, route: Route, *, more: Sequence[str] = ()) -> ModelStructure:
        """The same without a module, with `more` flags."""
        with self.clocked("space"):
            flags = [*self.flags(route), *more]
            return read_structure(
                self.builder, self.model, flags, target=self.target.name, timeout=self.compile_timeout
            )


def model_outputs(model: Model, target: Target, options: Options, workspace: Workspace) -> Outputs:
    """Where the tuned model's files go."""
    default = workspace.specs / f"{model.name}-{target.name}.mlir"
    return Outputs.at(options.output or default, workspace, MODEL)


def model_clock(options: Options, session: Session) -> Clock:
    """The time for a whole model."""
    budget = options.budget or BUDGET_FACTOR * options.effort.budget
    return Clock(budget, session.began, part=session.parent is not None)


def compile_timeout(options: Options, clock: Clock) -> float:
    """A model may take as long as there is time."""
    return max(options.effort.compile_timeout, clock.budget)


def run_timeout(options: Options) -> float:
    return 10 * options.effort.run_timeout


def read_structure(
    builder: ProgramBuilder, model: Model, flags: Sequence[str], *, target: str, timeout: float
) -> ModelStructure:
    """The model's dispatches, from a compile that goes no further."""
    return structure_in(builder.configured(flags, timeout=timeout), model, builder, flags=flags, target=target)


def structure_in(
    build: Compiled, model: Model, builder: ProgramBuilder, *, flags: Sequence[str], target: str
) -> ModelStructure:
    """The model's dispatches, as a compile left them behind: one with these flags."""
    if not build.ok:
        by_hand = shell_line(builder.command(flags, vmfb=Path("module.vmfb")))
        raise NoCandidateError(
            f"iree-compile cannot compile {model.name} for {target}: {first_error(build.stderr)}",
            remedy=f"Check the model, --flag and --target. The same by hand: {by_hand}",
        )
    (text,), configured = build.dumped[FLOW], build.dumped["configurations"]
    flow = read_flow(text, function=model.function, shapes=input_shapes(model.inputs))
    groups, others = group(flow.pieces, read_roots(configured))
    by_names = by_name(one + resources(text) for one in configured)
    return ModelStructure(flow, groups, others, by_names, build.dumped[PREPROCESSED][0])
