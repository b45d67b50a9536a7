"""What all steps of a model's run share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from autotuner.carriers.outputs import Outputs
from autotuner.iree.compile import Compiled
from autotuner.iree.run import DispatchTime
from autotuner.jobs.opening import compile_timeout, known_here, run_timeout
from autotuner.measure.clock import Clock
from autotuner.programs.model import Model, ModelBuilder
from autotuner.programs.program import ModelProgram
from autotuner.programs.structure import ModelStructure, read_structure, structure_in
from autotuner.registry import Registry
from autotuner.registry.folder import Known
from autotuner.store.rows import BuildRow, Kind
from autotuner.targets import Route, Target
from autotuner.tuning.options import Options
from autotuner.tuning.result import RunFacts
from autotuner.tuning.run import Run
from autotuner.tuning.session import Session


@dataclass
class Context:
    """What all steps of the run work on."""

    model: Model
    builder: ModelBuilder
    run: Run
    files: Outputs
    """Where the tuned model's files go."""
    timing_seconds: float = 0.2
    """Wall seconds of one timing of a whole model, in a process of its own."""
    called: ModelProgram | None = None
    """How the model is called, and whose outputs are right; None without a device."""
    read: dict[Path, Mapping[str, DispatchTime]] = field(default_factory=dict)
    """The runtime's last statistics by module."""

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
    def folder(self) -> Path:
        return self.run.folder

    @cached_property
    def registry(self) -> Registry:
        return known_here(self.run)

    @property
    def known_route(self) -> Known | None:
        """The flags that won for this model or for one with the same operations."""
        problem = self.run.problem
        return self.registry.route(str(problem.get("sha256")), problem.get("ops", ()))

    @property
    def compile_timeout(self) -> float:
        return compile_timeout(self.options, self.clock)

    @property
    def run_timeout(self) -> float:
        return run_timeout(self.options)

    def flags(self, route: Route) -> list[str]:
        return [*self.target.compile_flags, *route.flags]

    def facts(self) -> RunFacts:
        """What the result says of the run. Whole models are judged warm, also where dispatches are searched cold."""
        facts = self.run.facts()
        facts["devices"] = tuple({**one, "default_us": None} for one in facts["devices"])
        facts["timing"] = {**facts["timing"], "cache": "warm"} if facts["timing"] is not None else None
        return facts

    def stage(self, text: str) -> None:
        self.run.account.stage(text)

    def trying(self, text: str) -> None:
        """A step of the longest phase: routes, and kernels by their defaults."""
        self.stage(f"trying flags and kernels: {text}")

    def note(self, text: str) -> None:
        """A note for -v and the log."""
        self.run.account.remark(text)

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

    def statistics(self, build: Compiled | None) -> Mapping[str, DispatchTime] | None:
        """The time of each dispatch of a module; None without a device or without statistics."""
        if build is None or self.called is None:
            return None
        with self.clocked("time"):
            found = self.session.runner.dispatch_times(build.vmfb, self.called.call, timeout=self.run_timeout)
        if found:
            self.read[build.vmfb] = found
        return found

    def structure(self, build: Compiled) -> ModelStructure:
        """What the compiler made of the model."""
        with self.clocked("space"):
            flags = self.target.compile_flags
            return structure_in(build, self.builder, flags=flags, target=self.target.name)

    def configured(self, route: Route, *, more: Sequence[str] = ()) -> ModelStructure:
        """The same without a module, with `more` flags."""
        with self.clocked("space"):
            flags = [*self.flags(route), *more]
            return read_structure(self.builder, flags, target=self.target.name, timeout=self.compile_timeout)
