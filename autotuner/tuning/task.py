"""What a job asks of the tuning of one problem, beside the user's options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from autotuner.space import Value
from autotuner.space.gpu_config import CompilationInfo
from autotuner.store.rows import RunKind


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
    seeds: Sequence[Mapping[str, Value]] = ()
    """Configurations that won elsewhere: the search begins with what is nearest to them."""
    places: Sequence[CompilationInfo] = ()
    """Configurations of specs: the search begins with what is nearest to them, too."""
    microkernels_alone: bool = False
    """Only the microkernels and the baseline: an A/B experiment."""
    elsewhere: bool = False
    """Built here, timed on another machine: nothing of this machine's timings has a part in it."""
    finishing: float = 0.0
    """Of a candidate's compile: what is still to be done for each that is built, after the last of them."""


WHOLE = Task()
