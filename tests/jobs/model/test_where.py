"""What a cold cache makes of whole models: the default and the best, and when it is not asked."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from autotuner.build import Compiled
from autotuner.devices.device import Timing
from autotuner.iree.benchmark import Benchmark
from autotuner.iree.run import Invocation
from autotuner.jobs.model.context import Context
from autotuner.jobs.model.where import time_cold
from autotuner.measure.cache_timer import NO_TIME
from autotuner.measure.judgement import Judgement
from autotuner.tuning.plan import BASELINE
from tests.support.bare_device import BareDevice
from tests.support.pretended_device import WARM, Pretended

BENCHMARK = Benchmark(Invocation("main", (), ("f32",)), 0.05, 60)
WON = Judgement("win", "it is faster", BASELINE, winner="tuned-plain", us={BASELINE: WARM, "tuned-plain": WARM / 2})


@dataclass
class Told:
    """As much of a run's context as this looks at."""

    cache: str = "both"
    left: float = 1000.0
    device: Any = field(default_factory=lambda: Pretended(BareDevice()))
    notes: list[str] = field(default_factory=list)
    rows: list[tuple[int, str]] = field(default_factory=list)

    def ask(self, judgement: Judgement = WON) -> Any:
        def record(row: int, _timing: Timing, *, phase: str, block: int) -> None:
            self.rows.append((row, f"{phase} {block}"))

        context = SimpleNamespace(
            options=SimpleNamespace(cache=self.cache),
            session=SimpleNamespace(
                runner=self.device, stop=SimpleNamespace(requested=False), store=SimpleNamespace(record_timing=record)
            ),
            timing_seconds=0.2,
            note=self.notes.append,
            stage=lambda _: None,
            clocked=lambda _: nullcontext(),
        )
        built = Compiled(None, "", 1.0, (), Path("a.vmfb"), binary="default")
        modules = {BASELINE: built, "tuned-plain": replace(built, binary="tuned")}
        rows = {BASELINE: 1, "tuned-plain": 2}
        return time_cold(cast("Context", context), BENCHMARK, modules, rows, judgement, left=self.left)


def test_the_default_and_the_winner_are_timed_with_an_emptied_cache() -> None:
    told = Told()
    found = told.ask()
    assert found.warm.baseline_us == WARM
    assert found.warm.best_us == WARM / 2
    assert found.cold.baseline_us == pytest.approx(1.1 * WARM)
    assert found.cold.best_us == pytest.approx(0.66 * WARM)
    assert told.rows == [(row, f"cold {block}") for block in range(3) for row in (1, 2)]
    assert told.notes == []


def test_without_time_it_is_said_and_where_it_is_not_wanted_it_is_not_done() -> None:
    told = Told(left=1.0)
    assert told.ask() is None
    assert told.notes == [NO_TIME]
    assert Told(cache="warm").ask() is None
    assert Told().ask(replace(WON, verdict="inconclusive", winner=None)) is None
    assert Told(device=BareDevice()).ask() is None


def test_a_model_says_that_it_was_judged_warm_also_where_its_dispatches_were_searched_cold() -> None:
    def told(timing: dict[str, str] | None) -> Any:
        run = SimpleNamespace(facts=lambda: {"run": "r", "devices": (), "timing": timing})
        return Context(*(cast("Any", None),) * 3, run=cast("Any", run)).facts()

    assert told({"state": "sustained", "cache": "cold"}) == {
        "run": "r",
        "devices": (),
        "timing": {"state": "sustained", "cache": "warm", "search_cache": "cold"},
    }
    assert told(None) == {"run": "r", "devices": (), "timing": None}
