"""The runs below a retuning (old winner against new default, a search near its place), and what follows from them."""

from __future__ import annotations

import math
import shlex
from collections import Counter
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
from autotuner.jobs.retune.unit import Key, Proof, Unit
from autotuner.measure.blocks import Interval
from autotuner.microkernels.variants import Kernel
from autotuner.space.gpu_config import CompilationInfo
from autotuner.store.rows import RunRow
from autotuner.system.names import is_name
from autotuner.system.text import microseconds
from autotuner.targets import PLAIN
from autotuner.targets.backends import CHOOSING
from autotuner.targets.backends.llvm_cpu import CPU_FLAG
from autotuner.tuning.options import Options, Task
from autotuner.tuning.plan import CODEGEN, KERNEL
from autotuner.tuning.result import FinalVerdict, Result
from autotuner.tuning.run import Run

State = Literal["kept", "replaced", "dropped", "skipped", "failed"]
SLOWER = 0.05
"""Beyond its old time: what takes longer now is searched again, though it still wins. Not where IREE's default takes
longer by as much: then it is the machine that is slower, and no search would change that."""


@dataclass(frozen=True)
class Raced:
    """The old winner against the new default."""

    verdict: FinalVerdict
    reason: str
    us: float | None = None
    baseline_us: float | None = None
    speedup: Interval | None = None
    run: str = ""
    timed_in: str = ""
    """The device's state: on the open device, or in a process for each timing."""
    failure: str = ""
    """Why it cannot be raced: it does not compile, run, or compute the right thing any more."""


@dataclass(frozen=True)
class Before:
    """What it took on the same machine when it was found, and IREE's default with it."""

    us: float
    baseline_us: float | None = None


@dataclass(frozen=True)
class Standing:
    """Where an old winner stands before anything is searched."""

    works: bool
    """It applies and nothing shows that it is not faster any more: no search may lose it."""
    search: bool
    """Its place is worth another search."""
    reason: str


def standing(*, lost: str, raced: Raced | None, before: Before | None = None) -> Standing:
    """`lost` says why it does not apply; `before` is None where it was timed on another machine, or not at all."""
    if lost:
        return Standing(False, True, lost)
    if raced is None:
        return Standing(True, False, "it applies; nothing was timed")
    if raced.failure:
        return Standing(False, True, raced.failure)
    if raced.verdict == "no-winner":
        return Standing(False, True, f"no longer faster than IREE's default: {_ratio(raced) or raced.reason}")
    if raced.verdict != "win":
        return Standing(True, False, f"it applies; the race has no verdict ({raced.reason})")
    gain = f"still faster than IREE's default: {_ratio(raced)}"
    if before is None or raced.us is None:
        return Standing(True, False, gain)
    then = f"{microseconds(raced.us)}, it was {microseconds(before.us)}"
    if raced.us <= (1 + SLOWER) * before.us:
        return Standing(True, False, f"{gain}; {then}")
    if not before.baseline_us or not raced.baseline_us:
        return Standing(True, True, f"{gain}, but slower than before: {then}")
    default = f"{microseconds(raced.baseline_us)}, it was {microseconds(before.baseline_us)}"
    if raced.us / before.us <= (1 + SLOWER) * raced.baseline_us / before.baseline_us:
        return Standing(True, False, f"{gain}; {then}, and IREE's default is slower by as much: {default}")
    return Standing(True, True, f"{gain}, but slower than before: {then}; IREE's default: {default}")


@dataclass(frozen=True)
class Searched:
    """What a search near its old place came to."""

    won: bool
    """Something is faster than the new default, and than the old winner where that still works."""
    reason: str


def decide(stands: Standing, searched: Searched | None, *, timed: bool = True) -> tuple[State, str]:
    """The state, and its reason; without a device nothing is searched."""
    if searched is None:
        late = "; no time was left to search again" if stands.search and timed else ""
        return ("kept", stands.reason) if stands.works else ("dropped", f"{stands.reason}{late}")
    if searched.won:
        return "replaced", f"{stands.reason}; a search near its place found a faster one: {searched.reason}"
    return "kept" if stands.works else "dropped", f"{stands.reason}; a search near its place: {searched.reason}"


def _ratio(raced: Raced) -> str:
    ratio = raced.speedup
    return f"{ratio.median:.3f}x ({ratio.bounds})" if ratio else ""


# --- the runs ---------------------------------------------------------------------------------------------------------


LEAST_SEARCH = 15.0
"""Seconds: in less a search finds nothing that a race could confirm."""
_TRIALS = 48
"""Candidates near the old place."""
_SEARCH_SHARE = 0.6
"""Of what is left: the rest is for the race of old and new, where the old one still works."""
_ENDS = (StorageError, BusyError, ToolMissingError)
"""What ends the whole: it is not an entry's fault."""


def arm_of(unit: Unit, *, trust: bool, proofs: Mapping[Key, Proof]) -> Arm:
    """A unit as a user compiles it; what is proven of it is not asked again."""
    applied: Counter[Path] = Counter()
    for (path, _), proof in proofs.items():
        applied[path] += proof.applied
    if unit.flagfile is not None:
        return FlagfileArm(unit.path.name, unit.flagfile.path, trust, applied)
    return SpecArm(unit.path.name, unit.spec, trust, applied)


@dataclass(frozen=True)
class Races:
    """What is timed for one part after the other."""

    run: Run
    trust: bool

    def against_default(self, part: Part, proofs: Mapping[Key, Proof], budget: float) -> Raced:
        """The old winner and the new default, in turns."""
        arm = arm_of(part.unit, trust=self.trust, proofs=proofs)
        known = self.before(part)
        both = (known.baseline_us, known.us) if known and known.baseline_us else None
        return self._race(part, DEFAULT, arm, budget, has_won=True, before=both)

    def before(self, part: Part) -> Before | None:
        """What winner and default took: times of another machine are not compared."""
        old = part.old
        if old is None or not old.us or not old.taken_on(self.run.environment):
            return None
        return Before(old.us, old.baseline_us)

    def binary(self, race: str) -> str:
        """The code of the second arm of a race."""
        store = self.run.session.store
        with store.intact():
            rows = {row.id for row in store.candidates(race) if row.kind != "baseline"}
            return next((build.binary for build in store.builds(race) if build.candidate in rows), "")

    def search(self, part: Part, stands: Standing, *, seconds: float) -> tuple[Searched, Path | None]:
        """What a search near the old place came to, and the flagfile of what it found."""
        share = _SEARCH_SHARE if stands.works else 1.0
        try:
            found = self._found(part, share * seconds)
        except _ENDS:
            raise
        except OutOfTimeError:
            return Searched(False, "the time was up"), None
        except AutotuneError as error:
            return Searched(False, error.message), None
        flagfile = found.flagfile
        if found.verdict != "win" or flagfile is None:
            return Searched(False, f"{found.verdict}, {found.reason}"), None
        ratio = found.speedup
        words = f"{ratio.median:.3f}x over the default ({ratio.bounds})" if ratio else "win"
        if stands.works:
            new = FlagfileArm("new", flagfile, self.trust)
            old = arm_of(part.unit, trust=self.trust, proofs={})
            raced = self._race(part, old, new, (1 - share) * seconds)
            if raced.verdict != "win":
                return Searched(False, "what it found is not faster than the old one"), None
        return Searched(True, words), flagfile

    # --- one run each -----------------------------------------------------------------------------------------------

    def _race(
        self,
        part: Part,
        a: Arm,
        b: Arm,
        budget: float,
        *,
        has_won: bool = False,
        before: tuple[float, float] | None = None,
    ) -> Raced:
        if (recalled := self._recalled(part, a, b)) is not None:
            return recalled
        wanted = Experiment(a, b, part.problem, part.model, has_won=has_won, expected_us=before)
        try:
            within = self.run.within(f"{part.name}: ")
            result = experiment(wanted, self.run.target, options=self._options(budget), session=within)
        except _ENDS:
            raise
        except OutOfTimeError as error:
            return Raced("inconclusive", error.message)
        except UsageError as error:
            return Raced("inconclusive", str(error))
        except AutotuneError as error:
            return self._failed(error)
        return _raced(result.to_json())

    def _recalled(self, part: Part, a: Arm, b: Arm) -> Raced | None:
        """With --resume, a race that this run has finished."""
        if self.run.earlier is None:
            return None
        for row in self._parts():
            document = row.result or {}
            names = [str(arm.get("name")) for arm in document.get("arms", ())]
            same = row.kind == "ab" and row.problem.get("name") == part.name and names == [a.name, b.name]
            if same and row.status == "finished":
                with suppress(KeyError, TypeError, AttributeError):
                    return _raced(document)
        return None

    def _parts(self) -> list[RunRow]:
        with self.run.session.store.intact():
            return self.run.session.store.parts(self.run.id)

    def _failed(self, error: AutotuneError) -> Raced:
        """A default that does not work is no fault of the old winner's."""
        store, begun = self.run.session.store, self._parts()
        rows = store.candidates(begun[-1].id) if begun else []
        if any(row.kind == "baseline" and row.state == "failed" for row in rows):
            return Raced("inconclusive", f"IREE's default cannot be raced: {error.message}")
        return Raced("inconclusive", error.message, failure=error.message)

    def _found(self, part: Part, seconds: float) -> Result[Any]:
        # Imported where they are used: most retunings search nothing, and end within seconds.
        from autotuner.jobs.model.tuner import tune_within
        from autotuner.tuning.tune import search

        output = self.run.folder / "again" / f"{part.unit.name}-{part.name}.mlir"
        options = replace(self._options(seconds), output=output, trials=self.run.options.trials or _TRIALS)
        within = self.run.within(f"{part.name}, near its old place: ")
        if part.model is not None:
            model = replace(part.model, routes=_route(part))
            return tune_within(model, self.run.target, options=options, session=within)
        if part.problem is None:
            raise ValueError("a part is a problem or a model")
        # The results have the place as it was asked for; a spec alone has it as the compiler takes it.
        infos = [CompilationInfo(e.lowering_config, e.translation_info) for _, e in part.entries if e.lowering_config]
        seeds, places = ([part.config], ()) if part.config else ((), infos)
        task = Task(recall=True, cold=False, seeds=seeds, places=places)
        wanted = replace(options, microkernels=_kernels(part.config) or options.microkernels)
        problem = self.run.target.prepare(part.problem)
        return search(problem, self.run.target, options=wanted, session=within, task=task).result

    def _options(self, budget: float) -> Options:
        options = self.run.options
        cache = "warm" if options.cache == "both" else options.cache
        return replace(options, budget=max(budget, 1.0), output=None, cache=cache, resume=self.run.earlier is not None)


def _kernels(config: Mapping[str, Any]) -> tuple[Kernel, ...]:
    """The microkernel that a configuration is of."""
    name = str(config.get(KERNEL, CODEGEN))
    return (Kernel(name),) if name != CODEGEN and is_name(name) else ()


def _route(part: Part) -> tuple[str, ...]:
    """The flags that the model had beside the target's, as a route of its own."""
    flagfile = part.unit.flagfile
    flags = [flag for flag in flagfile.others if not flag.startswith(_TARGET_FLAGS)] if flagfile else []
    return (f"before={shlex.join(flags)}",) if flags else (PLAIN.name,)


_TARGET_FLAGS = (CPU_FLAG, *(f"{name}=" for name in CHOOSING))


def _raced(document: Mapping[str, Any]) -> Raced:
    speedup = document["speedup"]
    interval = Interval(speedup["median"], speedup["low"], speedup["high"]) if speedup else None
    best = document["best"] or {}
    finite = interval if interval and math.isfinite(interval.high) else None
    return Raced(
        document["verdict"],
        document["reason"],
        best.get("us"),
        document["baseline"]["us"],
        finite,
        document["run"],
        (document.get("timing") or {}).get("state", ""),
    )
