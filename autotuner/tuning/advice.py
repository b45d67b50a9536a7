"""What a verdict means and what to do next: one line on the screen, one table in docs/verdicts.md."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autotuner.tuning.effort import Further
    from autotuner.tuning.result import FinalVerdict, Result

    AnyResult = Result[Any]


@dataclass(frozen=True)
class Way:
    """What looks further than a run did."""

    words: str
    gone_with: frozenset[Further] = frozenset()
    """Where a run was given one of these, this way is gone."""
    only_with: Further | None = None
    """Where it was not given this, there is no such way."""

    def left(self, given: Collection[Further]) -> bool:
        return not self.gone_with & set(given) and (self.only_with is None or self.only_with in given)


@dataclass(frozen=True)
class Advice:
    """One way in which a run can end."""

    verdict: FinalVerdict
    case: str
    """Which runs with this verdict."""
    means: str
    do: str
    fits: Callable[[AnyResult], bool]
    further: tuple[Way, ...] = ()

    def to_do(self, looked: Collection[Further] = ()) -> str:
        """What to do next; of what looks further, that which the run was not asked for."""
        left = [way.words for way in self.further if way.left(looked)]
        return f"{self.do}; to look further: {', or '.join(left)}" if left else self.do


def _always(_: AnyResult) -> bool:
    return True


def _untried(result: AnyResult) -> bool:
    return result.counts.rivals + (result.details.tried if result.details else 0) == 0


def _same_code(result: AnyResult) -> bool:
    return _untried(result) and result.counts.duplicate > 0 and not any(result.counts.failed.values())


def _default_is_wrong(result: AnyResult) -> bool:
    return result.default_is_wrong


_KERNELS = Way("--microkernels auto where kernels fit", frozenset({"microkernels"}))
# The effort's budget does not count where the user gives one.
_LONGER = (Way("--effort full", frozenset({"effort", "budget"})), Way("a longer --budget", only_with="budget"))

ENDS = (
    Advice(
        "win",
        "IREE's default is wrong for this model or problem",
        "The winner is right, and faster than the default; or than the best route that is right, where the reason "
        "says so.",
        "compile with the `use` line, and without it do not trust the results",
        _default_is_wrong,
    ),
    Advice(
        "win",
        "otherwise",
        "The winner is right, its spec applies, and on fresh data it is faster than the default by more than the "
        "smallest gain that counts.",
        "compile with the `use` line",
        _always,
    ),
    Advice(
        "no-winner",
        "IREE's default is wrong for this model or problem",
        "Nothing that is right was proven to be faster. The reason names a right route where there is one.",
        "do not use IREE's default; compile with the flags of the `route` line (of a problem: `stock`), or as the "
        "`candidate` line says, where there is one",
        _default_is_wrong,
    ),
    Advice(
        "no-winner",
        "a route stands in for IREE's default",
        "IREE's own default is known to be wrong here; nothing was proven to be faster than the route in its place.",
        "compile with the flags that the note names, not with IREE's default",
        lambda result: result.stand_in is not None,
    ),
    Advice(
        "no-winner",
        "no knobs",
        "IREE's compiler has nothing to choose for this problem on this target.",
        "keep IREE's default",
        lambda result: result.cause == "no-knobs",
        (_KERNELS,),
    ),
    Advice(
        "no-winner",
        "nothing to tune",
        "No dispatch is a product, a convolution or an attention, and other routes give the default's code.",
        "keep IREE's default",
        lambda result: result.cause == "no-operations",
    ),
    Advice(
        "no-winner",
        "all that was tried is the default's own code",
        "The compiler makes of every choice what it makes by default.",
        "keep IREE's default",
        _same_code,
        (_KERNELS,),
    ),
    Advice(
        "no-winner",
        "nothing but the default was timed",
        "There is nothing to choose here, or nothing that was tried works.",
        "keep IREE's default; `autotune history RUN` says why each candidate failed",
        _untried,
    ),
    Advice(
        "no-winner",
        "of `autotune bundle import`",
        "Candidates were timed there, and none can be faster than the default by more than the smallest gain that "
        "counts.",
        "keep IREE's default",
        lambda result: result.timed_elsewhere,
        (Way("a bundle of more --trials"), Way("one of --microkernels auto where kernels fit", _KERNELS.gone_with)),
    ),
    Advice(
        "no-winner",
        "otherwise",
        "Candidates were timed, and none can be faster than the default by more than the smallest gain that counts.",
        "keep IREE's default",
        _always,
        (*_LONGER, _KERNELS),
    ),
    Advice(
        "inconclusive",
        "of `autotune bundle import`, interrupted",
        "The import was stopped. Nothing of the result was taken up.",
        "import the same file again: builds are kept",
        lambda result: result.timed_elsewhere and result.interrupted,
    ),
    Advice(
        "inconclusive",
        "interrupted",
        "The run was stopped. What was finished is kept.",
        "run the same command with --resume: it goes on from here",
        lambda result: result.interrupted,
    ),
    Advice(
        "inconclusive",
        "of `autotune bundle import`, and IREE's default is wrong",
        "Something right may be faster, but the run on the machine with the device ended without a proof, or was "
        "stopped.",
        "do not use IREE's default; compile with the flags of the `stock` line where there is one; there, give "
        "`autotune bundle run` a longer --budget (--resume where it was stopped), then import its result",
        lambda result: result.timed_elsewhere and result.default_is_wrong,
    ),
    Advice(
        "inconclusive",
        "IREE's default is wrong for this model or problem",
        "Something right may be faster, but the time or the noise of the machine did not allow a proof.",
        "do not use IREE's default; compile with the flags of the `route` line (of a problem: `stock`), or give a "
        "longer --budget",
        _default_is_wrong,
    ),
    Advice(
        "inconclusive",
        "of `autotune bundle import`",
        "The run on the machine with the device ended without a proof, or was stopped. Its timings are kept here.",
        "there, give `autotune bundle run` a longer --budget (--resume where it was stopped), then import its result",
        lambda result: result.timed_elsewhere,
    ),
    Advice(
        "inconclusive",
        "no dispatch can be tuned as it is",
        "The reason names what is in the way; more time does not help.",
        "give what the reason names (`--input`, another `--route`), or keep IREE's default",
        lambda result: result.cause == "obstacles",
    ),
    Advice(
        "inconclusive",
        "every problem of a suite failed",
        "The reason names the first failure; more time does not help.",
        "mend what the reason names, and run the same command again",
        lambda result: result.cause == "failed",
    ),
    Advice(
        "inconclusive",
        "no candidate was timed",
        "The time was up before there was anything to compare.",
        "run the same command with a longer --budget: builds are kept",
        _untried,
    ),
    Advice(
        "inconclusive",
        "otherwise",
        "Something may be faster, but the time or the noise of the machine did not allow a proof.",
        "run the same command with a longer --budget, on a quieter machine if this was noisy: builds are kept",
        _always,
    ),
    Advice(
        "compile-only",
        "with `--bundle`, interrupted",
        "The run was stopped. The bundle has what was finished by then.",
        "run the same command again, for the rest: builds are kept; or go on with this bundle as it is",
        lambda result: result.bundle is not None and result.interrupted,
    ),
    Advice(
        "compile-only",
        "with `--bundle`",
        "Candidates were built and proven to apply, for another machine to time.",
        "`autotune bundle run` on the machine with the device, then `autotune bundle import` here",
        lambda result: result.bundle is not None,
    ),
    Advice(
        "compile-only",
        "otherwise",
        "There was no device. Candidates were built and proven to apply; their order is an estimate.",
        "run the same command where the device is: only timing tells what is faster",
        _always,
    ),
)
"""The first that fits is the one."""


def advice(result: AnyResult) -> Advice:
    """How this run ended."""
    verdict = "inconclusive" if result.interrupted and result.bundle is None else result.verdict
    return next(end for end in ENDS if end.verdict == verdict and end.fits(result))
