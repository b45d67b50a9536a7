"""The runs below a retuning (old winner against new default, a search near its place), and what follows from them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from autotuner.errors import AutotuneError, BusyError, OutOfTimeError, StorageError, ToolMissingError, UsageError
from autotuner.jobs.ab.arms import DEFAULT, Arm, FlagfileArm, SpecArm
from autotuner.jobs.ab.opening import Experiment
from autotuner.jobs.ab.run import experiment
from autotuner.jobs.retune.origin import Part
from autotuner.jobs.retune.unit import Unit
from autotuner.measure.blocks import Interval
from autotuner.microkernels.variants import Kernel
from autotuner.problems import Problem
from autotuner.space.gpu_config import CompilationInfo
from autotuner.store.rows import RunRow
from autotuner.system.names import is_name
from autotuner.tuning.options import Options, Task
from autotuner.tuning.plan import CODEGEN, KERNEL
from autotuner.tuning.result import FinalVerdict, Result
from autotuner.tuning.run import Run
from autotuner.tuning.tune import search

State = Literal["kept", "replaced", "dropped", "skipped", "failed"]
LEAST_SEARCH = 15.0
"""Seconds: in less a search finds nothing that a race could confirm."""
_TRIALS = 48
"""Candidates near the old place."""
_ENDS = (StorageError, BusyError, ToolMissingError)
"""What ends the whole: it is not an entry's fault."""


@dataclass(frozen=True)
class Raced:
    """The old winner against the new default."""

    verdict: FinalVerdict
    reason: str
    us: float | None = None
    baseline_us: float | None = None
    speedup: Interval | None = None
    run: str = ""
    binary: str = ""
    """The digest of its code."""
    failure: str = ""
    """Why it cannot be raced: it does not compile, run, or compute the right thing any more."""

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Raced:
        """By the document of an experiment."""
        speedup, best = document["speedup"], document["best"] or {}
        interval = Interval(speedup["median"], speedup["low"], speedup["high"]) if speedup else None
        return cls(
            document["verdict"],
            document["reason"],
            best.get("us"),
            document["baseline"]["us"],
            interval if interval and math.isfinite(interval.high) else None,
            document["run"],
            next((arm.get("binary", "") for arm in document["arms"][1:]), ""),
        )

    @property
    def ratio(self) -> str:
        return f"{self.speedup.median:.3f}x ({self.speedup.bounds})" if self.speedup else ""


# --- what follows -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Searched:
    """What a search near its old place came to."""

    reason: str
    found: Path | None = None
    """The flagfile of what is faster than the new default."""


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
        return "replaced", f"{reason}; a search near its place found a faster one: {searched.reason}"
    return "dropped", f"{reason}; a search near its place: {searched.reason}"


# --- the runs ---------------------------------------------------------------------------------------------------------


def arm_of(unit: Unit, *, trust: bool) -> Arm:
    """A unit as a user compiles it."""
    if unit.flagfile is not None:
        return FlagfileArm(unit.path.name, unit.flagfile.path, trust)
    return SpecArm(unit.path.name, unit.spec, trust)


@dataclass(frozen=True)
class Races:
    """What is timed for one part after the other."""

    run: Run
    trust: bool

    def against_default(self, part: Part, budget: float) -> Raced:
        """The old winner and the new default, in turns: the experiment of `ab`."""
        arm = arm_of(part.unit, trust=self.trust)
        if (recalled := self._recalled(part, arm)) is not None:
            return recalled
        wanted = Experiment(DEFAULT, arm, part.problem, part.model)
        within = self.run.within(f"{part.name}: ")
        try:
            found = experiment(wanted, self.run.target, options=self._options(budget), session=within)
        except _ENDS:
            raise
        except (OutOfTimeError, UsageError) as error:
            return Raced("inconclusive", error.message)
        except AutotuneError as error:
            return self._failed(error)
        return Raced.of(found.to_json())

    def search(self, part: Part, seconds: float) -> Searched:
        """What a search near the old place came to, in so long."""
        if part.problem is None:
            again = f": {part.old.command}" if part.old and part.old.command else ""
            return Searched(f"a model is not searched here, tune it again{again}")
        if seconds < LEAST_SEARCH:
            return Searched(f"less than {LEAST_SEARCH:.0f} s were left for it (--budget)")
        try:
            found = self._found(part, part.problem, seconds)
        except _ENDS:
            raise
        except AutotuneError as error:
            return Searched(error.message)
        ratio, flagfile = found.speedup, found.flagfile
        if found.verdict != "win" or ratio is None or flagfile is None:
            return Searched(f"{found.verdict}, {found.reason}")
        return Searched(f"{ratio.median:.3f}x over the default ({ratio.bounds})", flagfile)

    # --- one run each -----------------------------------------------------------------------------------------------

    def _recalled(self, part: Part, arm: Arm) -> Raced | None:
        """With --resume, a race that this run has finished."""
        for row in self._parts() if self.run.earlier is not None else ():
            document = row.result or {}
            names = [str(arm.get("name")) for arm in document.get("arms", ())]
            same = row.kind == "ab" and row.problem.get("name") == part.name and names == [DEFAULT.name, arm.name]
            if same and row.status == "finished":
                with suppress(KeyError, TypeError, AttributeError):
                    return Raced.of(document)
        return None

    def _parts(self) -> list[RunRow]:
        with self.run.session.store.intact():
            return self.run.session.store.parts(self.run.id)

    def _failed(self, error: AutotuneError) -> Raced:
        """A default that does not work is no fault of the old winner's."""
        begun = self._parts()
        rows = self.run.session.store.candidates(begun[-1].id) if begun else []
        if any(row.kind == "baseline" and row.state == "failed" for row in rows):
            return Raced("inconclusive", f"IREE's default cannot be raced: {error.message}")
        return Raced("inconclusive", error.message, failure=error.message)

    def _found(self, part: Part, problem: Problem, seconds: float) -> Result[Any]:
        output = self.run.folder / "again" / f"{part.unit.name}-{part.name}.mlir"
        options = replace(self._options(seconds), output=output, trials=self.run.options.trials or _TRIALS)
        # The results have the place as it was asked for; a spec alone has it as the compiler takes it.
        infos = [
            CompilationInfo(one.lowering_config, one.translation_info)
            for one in part.entries.values()
            if one.lowering_config
        ]
        seeds, places = ([part.config], ()) if part.config else ((), infos)
        task = Task(recall=True, cold=False, seeds=seeds, places=places)
        wanted = replace(options, microkernels=_kernels(part.config) or options.microkernels)
        within = self.run.within(f"{part.name}, near its old place: ")
        prepared = self.run.target.prepare(problem)
        return search(prepared, self.run.target, options=wanted, session=within, task=task).result

    def _options(self, budget: float) -> Options:
        options = self.run.options
        cache = "warm" if options.cache == "both" else options.cache
        return replace(options, budget=max(budget, 1.0), output=None, cache=cache, resume=self.run.earlier is not None)


def _kernels(config: Mapping[str, Any]) -> tuple[Kernel, ...]:
    """The microkernel that a configuration is of."""
    name = str(config.get(KERNEL, CODEGEN))
    return (Kernel(name),) if name != CODEGEN and is_name(name) else ()
