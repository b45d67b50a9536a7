"""What of a model's budget goes before its dispatches are tuned."""

from __future__ import annotations

import pytest

from autotuner.jobs.model.stages import Stages


@pytest.mark.parametrize("budget", [60.0, 220.0, 300.0, 3600.0])
@pytest.mark.parametrize("alone", [False, True])
def test_dispatches_are_tuned_from_a_third_of_the_budget_on(budget: float, alone: bool) -> None:
    stages = Stages(budget, alone)
    assert stages.routes < stages.routes_end <= budget / 3
    if alone:
        assert stages.routes_end < stages.ranked(stages.routes_end) <= budget / 3, "they are ranked before that, too"


def test_where_the_default_took_long_dispatches_are_ranked_for_some_seconds_all_the_same() -> None:
    assert Stages(220.0, alone=True).ranked(150.0) == pytest.approx(150.0 + 11.0)
    assert Stages(220.0, alone=True).ranked(215.0) < 220.0
