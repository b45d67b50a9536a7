"""Everything about a run that is neither the problem nor the target: how long, where, what to keep."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, get_args

from autotuner.build.machines import Elsewhere
from autotuner.devices.conditions import DeviceState
from autotuner.errors import UsageError
from autotuner.iree.run import CacheState
from autotuner.measure.caches import Cache
from autotuner.microkernels.variants import AUTO, Kernel
from autotuner.problems import Problem
from autotuner.search import GUIDED
from autotuner.space import Value
from autotuner.store.rows import RunKind
from autotuner.system.settings import given_command

KEEP = ("all", "failed", "best", "none")
CACHES: tuple[Cache, ...] = get_args(Cache)
MOST_TRIALS, MOST_JOBS = 10**6, 1024
MOST_SECONDS = 1e7
"""Nearly four months; the system's own timers take not much more."""
MOST_SEED = 2**63 - 1
"""What a database column takes."""
DEFAULT_KEEP = ("best", "failed")


@dataclass(frozen=True, slots=True)
class Effort:
    """One profile. The first limit that is reached ends the search."""

    trials: int
    budget: float
    """Seconds, the race and its confirmation included."""
    compile_only_trials: int
    race_entrants: int = 8
    smallest_gain: float = 0.01
    compile_timeout: float = 120.0
    run_timeout: float = 60.0
    repetition_seconds: float = 0.02


EFFORTS = {
    "quick": Effort(trials=150, budget=120.0, compile_only_trials=16),
    "normal": Effort(trials=1000, budget=600.0, compile_only_trials=32),
    "full": Effort(trials=10_000, budget=7200.0, compile_only_trials=128, race_entrants=12),
}


def parse_effort(text: str) -> Effort:
    """What `quick`, `normal` or `full` stands for, as `Options` takes it."""
    if text not in EFFORTS:
        raise UsageError(f"unknown effort {text!r}.", remedy=f"Choose one of: {', '.join(EFFORTS)}.")
    return EFFORTS[text]


class Known(Protocol):
    """What was proven before, on this chip or on one like it: a registry."""

    def to_begin_with(
        self, problem: Problem, kernels: Collection[str], *, chip: str, sku: str, iree: str
    ) -> tuple[Mapping[str, Value], str] | None:
        """Knobs for this problem, and what they are of; `kernels` take part in the search."""


@dataclass(frozen=True)
class Options:
    """How long, where, and what to keep: the options of every tuning command."""

    device: str | None = None
    """IREE's device URI, such as `hip://0`; `none` compiles and proves only. None: the target's first."""
    effort: Effort = field(default_factory=lambda: parse_effort("normal"))
    """How thorough: `parse_effort("quick")`, `"normal"` or `"full"`; it has the defaults of trials and budget."""
    trials: int | None = None
    """At most this many candidates; None: the effort's."""
    budget: float | None = None
    """At most this many seconds, the verdict included; None: the effort's."""
    jobs: int | None = None
    """Compiles at once; None: as many as there are usable cores."""
    seed: int = 0
    """Of inputs and of the search: the same seed asks the same first batch."""
    sampler: str = GUIDED
    """What chooses the next configuration: guided, tpe, gp, random, or MODULE:CLASS of a sampler of Optuna's."""
    cache: Cache = "both"
    """The last level cache in the search; `both` is a warm search, and the default and the best are also timed cold."""
    emulated: bool = False
    """The device is emulated, as its name or environment may say: results are checked, nothing is timed."""
    isolate: bool = False
    """Each timing in a process of its own, not only the last ones."""
    workspace: Path = Path()
    """Where `candidates/`, `results/` and `specs/` are."""
    output: Path | None = None
    """Where the spec goes, an .mlir file; None: `specs/<problem>-<target>.mlir` in the workspace."""
    force: bool = False
    """Write over files that autotune did not write, too."""
    storage: str | None = field(default=None, repr=False)
    """URL of the results database; None: an SQLite file in the workspace."""
    resume: bool = False
    """Go on with the unfinished run of the same problem, where there is one."""
    keep: Sequence[str] = DEFAULT_KEEP
    """Which candidates' folders stay: `all`, `failed`, `best`, `none`."""
    microkernels: Sequence[Kernel] = (Kernel(AUTO),)
    """Which microkernels join the search: by their names, or `Kernel("auto")` for all of autotune's that fit."""
    cluster: Elsewhere | None = None
    """A Dask scheduler whose workers build and time: `Scheduler("tls://HOST:PORT")`; None: this machine's processes."""
    registry: Known | None = field(default=None, repr=False, compare=False)
    """What searches begin with; None: the registry that comes with autotune and the workspace's."""
    iree_tools: Path | None = None
    """A build of IREE to use in place of the installed wheels."""
    command: Sequence[str] = field(default_factory=given_command)
    """What the results say that made them."""
    began: float | None = field(default=None, compare=False)
    """The moment of `time.monotonic()` from which the budget counts; None: when the run is begun."""

    def __post_init__(self) -> None:
        if self.cache not in CACHES:
            raise UsageError(f"unknown cache {self.cache!r}.", remedy=f"Choose one of: {', '.join(CACHES)}.")
        for name, most in (("trials", MOST_TRIALS), ("jobs", MOST_JOBS)):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UsageError(
                    f"--{name} {value} is not a positive whole number.", remedy=f"Give --{name} 1 or more."
                )
            if value is not None and value > most:
                raise UsageError(f"--{name} {value} is too many.", remedy=f"Give --{name} {most} or less.")
        if self.budget is not None and not self.budget > 0:
            raise UsageError(f"a budget of {self.budget:g} s leaves no time.", remedy="Give more than 0 seconds.")
        if self.budget is not None and self.budget > MOST_SECONDS:
            raise UsageError(
                f"a budget of {self.budget:g} s is too long.", remedy=f"Give {MOST_SECONDS:.0f} s or less."
            )
        if self.seed < 0:
            raise UsageError(f"--seed {self.seed} is negative.", remedy="Give --seed 0 or more.")
        if self.seed > MOST_SEED:
            raise UsageError(f"--seed {self.seed} is too large.", remedy=f"Give --seed {MOST_SEED} or less.")
        if unknown := set(self.keep) - set(KEEP):
            raise UsageError(f"unknown --keep {', '.join(sorted(unknown))}.", remedy=f"Choose from: {', '.join(KEEP)}.")
        if self.sampler != GUIDED:
            from autotuner.search.study import sampler_maker  # Optuna takes half a second

            sampler_maker(self.sampler)
        if self.cache == "cold" and self.isolate:
            remedy = "Leave out --isolate."
            raise UsageError("--cache cold needs a device that stays open, and --isolate closes it.", remedy=remedy)

    @property
    def named_microkernels(self) -> tuple[Kernel, ...]:
        """Those that the user asked for by name."""
        return tuple(kernel for kernel in self.microkernels if kernel.name != AUTO)

    def timing(self) -> dict[str, str]:
        """The states that candidates are compared in."""
        return {"state": self.searched_state, "cache": self.searched_cache}

    @property
    def searched_cache(self) -> CacheState:
        """In which state of the cache candidates are compared."""
        return "cold" if self.cache == "cold" else "warm"

    @property
    def searched_state(self) -> DeviceState:
        """In which state of the device candidates are compared."""
        return "process" if self.isolate else "sustained"


@dataclass(frozen=True)
class Task:
    """The whole of it for a user who tunes one problem; jobs of many problems leave steps to themselves."""

    kind: RunKind = "single"
    race: bool = True
    """Without: the fastest of a short look side by side is given, and the job judges it."""
    ship: bool = True
    """Write the winner's files; without, the run only finds it."""
    cold: bool = True
    """Time the winner with a cold cache too, where the user's options want that."""
    recall: bool = False
    """With --resume: a finished run of the same problem, in the same job, is not run again."""
    microkernels_alone: bool = False
    """Only the microkernels and the baseline: an A/B experiment."""
    rows_vary: bool = False
    """The winner is for a range of M: what is right for its own M only takes no part."""
    elsewhere: bool = False
    """Built here, timed on another machine: nothing of this machine's timings has a part in it."""


WHOLE = Task()
