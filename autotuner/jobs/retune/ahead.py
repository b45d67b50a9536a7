"""What is compiled before anything is timed, for all parts at once: no core waits, and no timing is disturbed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from autotuner.carriers.render import problem_mlir
from autotuner.devices.device import choose_repeat
from autotuner.errors import AutotuneError
from autotuner.jobs.ab.arms import DEFAULT, Arm
from autotuner.jobs.ab.recipe import ArmSite
from autotuner.jobs.model.context import compile_timeout
from autotuner.jobs.retune.alike import tunes_alone
from autotuner.jobs.retune.origin import Part
from autotuner.jobs.retune.plan import Plan, identity
from autotuner.jobs.retune.proof import Key, Proof, Prover
from autotuner.jobs.retune.races import Races, arm_of
from autotuner.jobs.retune.ship import program_of
from autotuner.system import process
from autotuner.system.execution import after
from autotuner.tuning.run import Run

_LISTENING = 0.2
"""Seconds: so often it is asked whether the user wants to stop."""


def prove(part: Part, run: Run) -> dict[Key, Proof]:
    """Asks the compiler which entries apply."""
    program, flags = program_of(part, run)
    timeout = compile_timeout(run.options, run.clock)
    return Prover(part.unit, program, flags, run.target, run.session.tools, timeout).prove(part.entries)


@dataclass(frozen=True)
class Ahead:
    """The proofs of a run's parts, and what their races compile: these find it in the cache."""

    races: Races
    proofs: dict[int, Future[dict[Key, Proof]]] = field(default_factory=dict)
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
        parts = [part for part in plan.parts if part.problem is not None and tunes_alone(part.unit)]
        defaults: set[tuple[object, ...]] = set()
        if self.run.timed and parts:
            self._builds.append(session.executor.here.submit(session.runner.open))
        for part in parts:
            raced = self.run.timed and plan.first_of[id(part)]
            if raced and identity(part)[:1] not in defaults:
                defaults.add(identity(part)[:1])
                self._start(part, DEFAULT, number=0)
            self.proofs[id(part)] = session.executor.here.submit(self._prove, part, raced=raced)
        self._wait([*self.proofs.values()])
        self._wait(self._builds)

    def _wait(self, jobs: Sequence[Future[Any]]) -> None:
        left = set(jobs)
        while left:
            left = wait(left, timeout=_LISTENING).not_done
            if self.run.stopped:
                for job in left:
                    job.cancel()

    def _prove(self, part: Part, *, raced: bool) -> dict[Key, Proof]:
        proofs = prove(part, self.run)
        if raced and not any(proof.lost for proof in proofs.values()):
            self._start(part, arm_of(part.unit, trust=self.races.trust, proofs=proofs), number=1)
        return proofs

    def _start(self, part: Part, arm: Arm, *, number: int) -> None:
        """An arm as it will be checked, and as often repeated as its time from before says."""
        run = self.run
        if part.problem is None:
            raise ValueError("a model is compiled where it is raced")
        problem = run.target.prepare(part.problem)
        timeout, program = compile_timeout(run.options, run.clock), problem_mlir(problem)
        site = ArmSite.within(
            run.session,
            run.target,
            program=program,
            flags=problem.flags,
            problem=problem,
            folder=run.folder,
            timeout=timeout,
        )
        known = self.races.before(part)
        often = choose_repeat(known[number] if known else math.inf)
        with suppress(AutotuneError), process.until(run.clock.at(run.clock.budget)):
            how, start = arm.recipe(site), run.session.executor.start
            first = start(how.job(program, timeout=timeout))
            self._builds.append(first)
            if often > 1 and how.repeatable:
                # It has most of the first one in it, and would only wait for that.
                again = how.job(program, timeout=timeout, repeat=often)
                self._builds.append(after(first, lambda _: start(again).result(), within=run.session.executor.here))
