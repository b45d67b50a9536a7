"""How many routes' dispatches are ranked before some are tuned."""

from __future__ import annotations

from autotuner.jobs.model.promising import _SECOND_BUDGET, _worth_ranking
from autotuner.jobs.model.shares import Shares


def test_dispatches_that_must_be_timed_alone_are_ranked_on_one_route_unless_there_is_much_time() -> None:
    """On CUDA three rankings of an Inception left no time to tune it in 220 s."""
    alone, by_statistics = Shares({"a": 1.0}, "", timed_alone=True), Shares({"a": 1.0}, "")
    assert not _worth_ranking(alone, left=_SECOND_BUDGET - 1)
    assert _worth_ranking(alone, left=_SECOND_BUDGET)
    assert _worth_ranking(by_statistics, left=0.0)
    assert not _worth_ranking(by_statistics, left=-1.0)
