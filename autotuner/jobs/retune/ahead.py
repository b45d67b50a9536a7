"""What is asked of the compiler before anything is timed, for all parts at once: which entries still apply, and the
modules that are raced. No core waits, and no timing is disturbed."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from autotuner.build import Compiled
from autotuner.carriers.microkernel import executable_target
from autotuner.errors import AutotuneError
from autotuner.jobs.ab.arms import DEFAULT, Arm
from autotuner.jobs.ab.recipe import ArmSite
from autotuner.jobs.opening import compile_timeout
from autotuner.jobs.retune.origin import Part
from autotuner.jobs.retune.plan import Plan, identity
from autotuner.jobs.retune.races import Races, arm_of
from autotuner.jobs.retune.ship import Writer, program_of
from autotuner.jobs.retune.unit import Key, Proof, Prover, Unit, compile_flags
from autotuner.problems import Gemm
from autotuner.problems.render import problem_mlir
from autotuner.system import process
from autotuner.tuning.run import Run

_LISTENING = 0.2
"""Seconds: so often it is asked whether the user wants to stop."""


@dataclass(frozen=True)
class Proven:
    """A part as this compiler takes it, and which of its entries apply."""

    part: Part
    proofs: dict[Key, Proof]
    build: Future[Compiled] | None = None
    """With its files, where it is raced."""

    @property
    def seconds(self) -> float:
        """What compiling it with its files took; 0 where that is not known."""
        with suppress(AutotuneError):
            return self.build.result().took if self.build is not None and not self.build.cancelled() else 0.0
        return 0.0


@dataclass(frozen=True)
class Ahead:
    """The proofs of a run's parts, and what their races compile: these find it in the cache."""

    races: Races
    writer: Writer
    proofs: dict[int, Future[Proven]] = field(default_factory=dict)
    """By part."""
    _builds: list[Future[Any]] = field(default_factory=list)

    @property
    def run(self) -> Run:
        return self.races.run

    def go(self, plan: Plan) -> None:
        """All of it, to its end, or until the user stops it. What fails is told by whoever asks for it next."""
        session = self.run.session
        if self.run.stopped:
            return
        defaults: set[object] = set()
        if self.run.timed and plan.parts:
            self._builds.append(session.executor.here.submit(session.runner.open))
        for part in plan.parts:
            raced = self.run.timed and plan.first_of[id(part)]
            program = part.model.path if part.model is not None else identity(part)[:1]
            first = raced and program not in defaults
            defaults |= {program} if raced else set()
            self.proofs[id(part)] = session.executor.here.submit(self._prove, part, raced=raced, first=first)
        self._wait([*self.proofs.values()])
        self._wait(self._builds)

    def _wait(self, jobs: Sequence[Future[Any]]) -> None:
        left = set(jobs)
        while left:
            left = wait(left, timeout=_LISTENING).not_done
            if self.run.stopped:
                for job in left:
                    job.cancel()

    def _prove(self, part: Part, *, raced: bool, first: bool) -> Proven:
        """The default is compiled meanwhile. The part comes after its proof: that of a problem where all its entries
        apply, that of a model where some do."""
        run = self.run
        program, flags = program_of(part, run)
        if first:
            self._start(part, DEFAULT)
        own = self._for_compiler(part)
        timeout = compile_timeout(run.options, run.clock)
        proofs = Prover(own.unit, program, flags, run.target, run.session.tools, timeout).prove(own.entries)
        lost = sum(bool(proof.lost) for proof in proofs.values())
        if not raced or (lost and (part.model is None or lost == len(proofs))):
            return Proven(own, proofs)
        return Proven(own, proofs, self._start(own, arm_of(own.unit, trust=self.races.trust, proofs=proofs)))

    def _for_compiler(self, part: Part) -> Part:
        """With executables of the target that this compiler makes code for, and a flagfile that names files which are
        there."""
        run, unit = self.run, part.unit
        copy = self.writer.for_compiler(unit, self._executable_target(unit))
        if copy.was is None:
            return part if copy is unit else replace(part, unit=copy)
        run.account.note(
            f"{unit.name}: its executables name the processor as another IREE knows it, and would not run beside this "
            "one's: they are written anew, the kernels stay the same"
        )
        by_id = {(one.path.name, entry.id): (one, entry) for one, entry in copy.entries}
        return replace(part, unit=copy, entries=tuple(by_id[one.path.name, entry.id] for one, entry in part.entries))

    def _executable_target(self, unit: Unit) -> str:
        """What this compiler makes code for, where a unit has executables that name it; else nothing."""
        run = self.run
        named = any(one.file.carrier.brings_objects or one.file.carrier.by_name for one in unit.files)
        if not named or not run.target.backend.on_host:
            return ""
        smallest = run.target.prepare(Gemm.parse(shape="8x8x8", dtype="f32"))
        # Flags of the route (which microkernels of IREE's own, say) are part of an executable's target.
        flags, timeout = compile_flags(unit, run.target), run.options.effort.compile_timeout
        return executable_target(run.session.builder.inspect(problem_mlir(smallest), flags, timeout=timeout))

    def _start(self, part: Part, arm: Arm) -> Future[Compiled] | None:
        """An arm as it will be checked."""
        run, executor = self.run, self.run.session.executor
        timeout = compile_timeout(run.options, run.clock)
        program, flags = program_of(part, run)
        problem = run.target.prepare(part.problem) if part.problem is not None else None
        with suppress(AutotuneError), process.until(run.clock.at(run.clock.budget)):
            site = ArmSite.within(
                run.session,
                run.target,
                program=program,
                flags=flags,
                problem=problem,
                folder=run.folder,
                timeout=timeout,
            )
            job = arm.recipe(site).job(program, timeout=timeout)
            build = executor.start(job) if isinstance(program, str) else executor.start_whole(job)
            self._builds.append(build)
            return build
        return None
