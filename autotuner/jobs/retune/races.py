"""The runs below a retuning: old winner against new default, and a search."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from autotuner.errors import AutotuneError, OutOfTimeError, UsageError
from autotuner.jobs.ab.arms import DEFAULT, Arm, FlagfileArm, SpecArm
from autotuner.jobs.ab.opening import Experiment
from autotuner.jobs.ab.run import experiment
from autotuner.jobs.retune.plan import Part
from autotuner.jobs.retune.result import Raced, State
from autotuner.measure.clock import OF_ALL
from autotuner.store.rows import RunRow
from autotuner.tuning.options import Options, Task
from autotuner.tuning.result import Files
from autotuner.tuning.run import Run, Turn
from autotuner.tuning.tune import search


@dataclass(frozen=True)
class Searched:
    """The result of a new search."""

    reason: str
    found: Files | None = None
    """Of what is faster than the new default."""


def standing(*, lost: str, raced: Raced | None) -> tuple[bool, str]:
    """Whether an old winner still works, and why; `lost` says why it does not apply.

    It works where nothing shows that it is not faster any more: then nothing is searched.
    """
    if lost:
        return False, lost
    if raced is None:
        return True, "it applies; nothing was timed"
    if raced.failure:
        return False, raced.failure
    if raced.verdict == "no-winner":
        return False, f"no longer faster than IREE's default: {raced.ratio or raced.reason}"
    if raced.verdict != "win":
        return True, f"it applies; the race has no verdict ({raced.reason})"
    return True, f"still faster than IREE's default: {raced.ratio}"


def decide(*, lost: str, raced: Raced | None, searched: Searched | None) -> tuple[State, str]:
    """The state, and its reason."""
    works, reason = standing(lost=lost, raced=raced)
    if searched is None:
        return "kept" if works else "dropped", reason
    if searched.found is not None:
        return "replaced", f"{reason}; a search found a faster one: {searched.reason}"
    return "dropped", f"{reason}; a search: {searched.reason}"


@dataclass(frozen=True)
class Races:
    """The races, one program after the other."""

    run: Run
    trust: bool

    def against_default(self, turn: Turn[Part]) -> Raced:
        """The old winner and the new default, in turns: the experiment of `ab`."""
        part, unit = turn.what, turn.what.unit
        arm: Arm = SpecArm(unit.spec.name, unit.spec, self.trust)
        if unit.flagfile is not None:
            arm = FlagfileArm(unit.spec.name, unit.flagfile.path, self.trust)
        if (recalled := self._recalled(part, arm)) is not None:
            return recalled
        wanted = Experiment(DEFAULT, arm, part.problem, part.model)
        try:
            found = experiment(wanted, self.run.target, options=self._options(turn), session=turn.session)
        except OF_ALL:
            raise
        except (OutOfTimeError, UsageError) as error:
            return Raced("inconclusive", error.message)
        except AutotuneError as error:
            return Raced("inconclusive", error.message, failure="" if self._default_failed() else error.message)
        return Raced.of(found.to_json())

    def search(self, turn: Turn[Part], *, output: Path) -> Searched:
        """A search in what is left of its time; a winner's files are at `output`."""
        part = turn.what
        if part.problem is None:
            return Searched("a model is not searched here, tune it again with its own command")
        options = replace(self._options(turn), output=output)
        if part.unit.objects is None:  # what the compiler makes is not replaced by a kernel that nobody named
            options = replace(options, microkernels=options.named_microkernels)
        task = Task(recall=True, cold=False)
        target, within = self.run.target, turn.session.saying("searched again: ")
        try:
            found = search(target.prepare(part.problem), target, options=options, session=within, task=task).result
        except OF_ALL:
            raise
        except AutotuneError as error:
            return Searched(error.message)
        if found.verdict != "win" or found.speedup is None:
            return Searched(f"{found.verdict}, {found.reason}")
        return Searched(found.speedup.over("IREE's default"), found.files)

    def _recalled(self, part: Part, arm: Arm) -> Raced | None:
        """With --resume, a race that this run has finished."""
        for row in self._parts() if self.run.earlier is not None else ():
            document = row.result or {}
            names = [str(one.get("name")) for one in document.get("arms", ())]
            same = row.kind == "ab" and row.problem.get("name") == part.name and names == [DEFAULT.name, arm.name]
            if same and row.status == "finished":
                with suppress(KeyError, TypeError, AttributeError):
                    return Raced.of(document)
        return None

    def _parts(self) -> list[RunRow]:
        with self.run.session.store.intact():
            return self.run.session.store.parts(self.run.id)

    def _default_failed(self) -> bool:
        """A default that does not work is no fault of the old winner's."""
        rows = [row for part in self._parts()[-1:] for row in self.run.session.store.candidates(part.id)]
        return any(row.kind == "baseline" and row.state == "failed" for row in rows)

    def _options(self, turn: Turn[Part]) -> Options:
        options = turn.options
        cache = "warm" if options.cache == "both" else options.cache
        return replace(options, cache=cache, resume=self.run.earlier is not None)
