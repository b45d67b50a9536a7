"""Which part of a model's time a dispatch takes, and which dispatches take none because nothing calls them."""

from __future__ import annotations

from autotuner.iree.benchmark import DispatchTime
from autotuner.programs.shares import Shares, from_statistics


def test_what_the_runtime_never_counted_did_not_run() -> None:
    """The product of an LSTM of StableHLO stood in a loop of no rounds for seeded inputs, skipped for its encoding."""
    counted = from_statistics({"ran": DispatchTime(us=3.0, calls=1.0), "quick": DispatchTime(us=0.0, calls=1.0)})
    assert counted is not None
    assert [counted.idle(names) for names in (["ran"], ["quick"], ["other"], ["other", "ran"])] == [
        False,
        False,
        True,
        False,
    ]
    assert not Shares({"ran": 3.0}, "each timed alone", timed_alone=True).idle(["other"])
