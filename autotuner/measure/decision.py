"""What a race comes to: who is out of it, whether it is settled, who wins."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from autotuner.measure.blocks import Drop, Interval, RaceResult, Verdict
from autotuner.system.text import count


@dataclass(frozen=True)
class Decision:
    """What a race comes to. `speedup` is at the race's own level; the confirmation's is the one to report."""

    verdict: Verdict
    winner: str | None
    reason: str
    speedup: Interval | None = None
    leader: str | None = None
    tied: tuple[str, ...] = ()
    """All that could have won: above the smallest gain, and not beaten by the leader."""


def decide(result: RaceResult, *, against: str = "the default") -> Decision:
    """The verdict of a race that has ended; `against` is what people know the baseline as.

    What wins is the simplest that is not beaten: of those certain to gain more than the smallest gain, the
    one of least complexity that the fastest of them does not beat, side by side. Where time ends a race that is not
    settled, few blocks beat nobody: there a simpler one has to be as fast by its median.
    """
    gain = f"{result.rules.smallest_gain:.1%}"
    if not result.challengers:
        failed = sum(drop.reason == "failed" for drop in result.dropped.values())
        why = f"{failed} of {len(result.entrants) - 1} could not be timed, " if failed else ""
        return Decision("no-winner", None, f"{why}{_none_of(result)} more than {gain} faster than {against}")
    choice = _choose(result, cut=result.ended == "stopped")
    # A look that was reached has spent its share of alpha: a winner at it stands, even when time then ran out on
    # telling the winners apart. The confirmation has fresh data either way.
    if result.ended in ("stopped", "running") and (choice.winner is None or result.blocks < result.rules.looks[0]):
        return Decision(
            "inconclusive",
            None,
            f"the race was stopped after {count(result.blocks, 'block')}, before it was settled",
            leader=choice.leader,
        )
    if choice.winner is not None:
        return choice
    if _none_can_gain(result):
        return Decision("no-winner", None, f"{_none_of(result)} more than {gain} faster than {against}")
    return Decision("inconclusive", None, f"{result.blocks} blocks cannot tell whether any is more than {gain} faster")


def _none_of(result: RaceResult) -> str:
    raced = len(result.entrants) - 1
    return "the one that raced cannot be" if raced == 1 else f"none of the {raced} that raced can be"


def _beats(result: RaceResult, faster: str, slower: str) -> bool:
    """Is `faster` surely faster, by whatever amount, side by side?

    To ask for more than the smallest gain here would hand the win to simpler but slower entrants: simulated
    with eight of them within 3 %, that loses over twice the speed, and takes 40 % more timings at 0.5 % noise.
    """
    lead = result.ratio(faster, slower, alpha=result.level)
    return lead is not None and lead.low > 1.0


def _none_can_gain(result: RaceResult) -> bool:
    spans = [result.over_baseline(name) for name in result.challengers]
    return all(span is not None and span.high < 1 + result.rules.smallest_gain for span in spans)


def out_of_the_race(result: RaceResult, keep: Collection[str]) -> dict[str, Drop]:
    """Those that more blocks cannot help: no gain within their bounds, or surely slower than the leader."""
    spans = {name: span for name in result.challengers if (span := result.over_baseline(name)) is not None}
    if not spans:
        return {}
    leader = max(spans, key=lambda name: spans[name].median)
    out = {}
    for name, span in spans.items():
        if name in keep:
            continue
        if span.high < 1 + result.rules.smallest_gain:
            out[name] = Drop(result.blocks, "no-gain")
        elif name != leader and (span.high < spans[leader].low or _beats(result, leader, name)):
            out[name] = Drop(result.blocks, "beaten", leader)
    return out


def _choose(result: RaceResult, *, cut: bool) -> Decision:
    """The winner if the race ended now. `cut`: time ends it before it is settled."""
    worth = 1 + result.rules.smallest_gain
    spans = {name: span for name in result.challengers if (span := result.over_baseline(name)) is not None}
    sure = [name for name, span in spans.items() if span.low > worth]
    if not sure:
        return Decision("inconclusive", None, "none is sure to gain enough")
    leader = max(sure, key=lambda name: spans[name].median)
    tied = [name for name in sure if name == leader or not _beats(result, leader, name)]
    as_fast = [name for name in tied if not cut or _median_lead(result, leader, name) <= worth]
    winner = min(as_fast, key=lambda name: (result.complexity(name), -spans[name].median))
    if winner != leader:
        reason = f"the simplest of {len(tied)} that cannot be told apart"
    else:
        reason = "the fastest" if as_fast == tied else "the fastest when the time was up"
    return Decision("win", winner, reason, spans[winner], leader, tuple(tied))


def _median_lead(result: RaceResult, faster: str, slower: str) -> float:
    lead = result.ratio(faster, slower, alpha=result.level)
    return 1.0 if lead is None else lead.median


def settled(result: RaceResult) -> bool:
    """Would more blocks leave the verdict and the winner as they are?"""
    if not result.challengers or _none_can_gain(result):
        return True
    choice = _choose(result, cut=False)
    winner, leader = choice.winner, choice.leader
    if winner is None or leader is None:
        return False
    return not any(_may_matter(result, name, winner, leader) for name in result.challengers if name != winner)


def _may_matter(result: RaceResult, name: str, winner: str, leader: str) -> bool:
    """Could this one still take the win, by being simpler or by being faster by more than the smallest gain?"""
    worth = 1 + result.rules.smallest_gain
    span = result.over_baseline(name)
    if span is not None and span.high < worth:
        return False
    if name != leader and _beats(result, leader, name):
        return False
    if result.complexity(name) < result.complexity(winner):
        return True
    lead = result.ratio(name, winner, alpha=result.level)
    return lead is None or lead.high > worth
