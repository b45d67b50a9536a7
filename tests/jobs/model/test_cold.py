"""What a cold cache makes of whole models: the default and the best, and when it is not asked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from autotuner import Options
from autotuner.iree.run import Benchmark, Invocation
from autotuner.jobs.model.breakdown import time_cold
from autotuner.measure.cache_timer import NO_TIME
from autotuner.measure.caches import Caches
from autotuner.measure.judgement import Judgement
from autotuner.targets import PLAIN
from autotuner.tuning.plan import BASELINE
from tests.support.bare_device import BareDevice
from tests.support.bare_model import BareContext, module, tried
from tests.support.pretended_device import WARM, Pretended

BENCHMARK = Benchmark(Invocation("main", (), ("f32",)), 0.05, 60)
WON = Judgement("win", "it is faster", BASELINE, winner="tuned-plain", us={BASELINE: WARM, "tuned-plain": WARM / 2})


def ask(context: BareContext, judgement: Judgement = WON, *, left: float = 1000.0) -> Caches | None:
    default = replace(tried(PLAIN, WARM), build=replace(module("default"), binary="default"))
    tuned = replace(default, id="tuned-plain", row=2, build=replace(module("tuned"), binary="tuned"))
    return time_cold(context, BENCHMARK, [default, tuned], judgement, left=left)


def pretended(**options: Any) -> BareContext:
    return BareContext(device=Pretended(BareDevice()), options=Options(**options))


def test_the_default_and_the_winner_are_timed_with_an_emptied_cache() -> None:
    context = pretended()
    found = ask(context)
    assert found is not None
    assert found.warm.baseline_us == WARM
    assert found.warm.best_us == WARM / 2
    assert found.cold.baseline_us == pytest.approx(1.1 * WARM)
    assert found.cold.best_us == pytest.approx(0.66 * WARM)
    assert sorted(context.rows.timings) == [(row, "cold", block) for row in (1, 2) for block in (1, 2, 3)]
    assert context.said == []


def test_without_time_it_is_said_and_where_it_is_not_wanted_it_is_not_done() -> None:
    context = pretended()
    assert ask(context, left=1.0) is None
    assert context.said == [NO_TIME]
    assert ask(pretended(cache="warm")) is None
    assert ask(pretended(), replace(WON, verdict="inconclusive", winner=None)) is None
    assert ask(BareContext(device=BareDevice())) is None
