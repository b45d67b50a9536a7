"""Why a run ends as it does: a closed list, in words and in the JSON's `cause`. The table of docs/verdicts.md."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from autotuner.measure.judgement import Cause


@dataclass(frozen=True)
class Explanation:
    """One cause."""

    means: str
    do: str
    """What to do next."""


CAUSES: Mapping[Cause, Explanation] = {
    "no-gain": Explanation(
        "Nothing that was tried is faster than IREE's default by 1 % or more.",
        "keep IREE's default; --effort full looks further",
    ),
    "nothing-to-tune": Explanation(
        "There is nothing to choose: no knobs, or no operation that autotune knows.",
        "keep IREE's default",
    ),
    "failed": Explanation(
        "Everything that was tried failed, or the verdict names what is in the way.",
        "look at the reasons with -v, and at the log of the run",
    ),
    "default-fails": Explanation(
        "IREE's default does not compile, does not run, or computes wrong results here.",
        "do not use IREE's default; compile with the `use` line, else with the flags of the `stock` line",
    ),
    "out-of-time": Explanation(
        "The time was up before the proof.",
        "use a longer --budget; builds are kept",
    ),
    "noise": Explanation(
        "The machine is too noisy to tell.",
        "run the same command on a quieter machine",
    ),
    "no-device": Explanation(
        "Nothing was timed. Candidates are built and proven to apply; their order is an estimate.",
        "time it where the device is: the same command there, or `autotune bundle run` with a --bundle",
    ),
    "interrupted": Explanation(
        "You stopped the run. What was finished is kept.",
        "run the same command with --resume",
    ),
}
