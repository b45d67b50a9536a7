"""How long the next round of routes is expected to take, and which had no time."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from autotuner.devices.device import Computed
from autotuner.errors import OutOfTimeError
from autotuner.jobs.model.routes import RouteRace
from autotuner.measure.schedule import BeginningError
from autotuner.programs.arbiter import Arbiter
from autotuner.programs.model import Model
from autotuner.programs.program import ModelProgram
from autotuner.targets import PLAIN, Route
from tests.support.bare_device import BareDevice
from tests.support.bare_model import BENCHMARK, BareContext, race_of, tried
from tests.support.clocks import Simulated


def test_a_round_is_begun_where_it_is_expected_to_end_in_time() -> None:
    clock = Simulated(100.0, now=20.0)
    race: RouteRace = race_of(BareContext(clock=clock))
    race.round_seconds = 9.0
    assert race.fits(clock.at(29.1))
    assert not race.fits(clock.at(28.9))


def test_routes_that_had_no_time_are_named() -> None:
    context = BareContext()
    race = race_of(context)
    race.tell_missed()
    race.search.queue += [Route("O3"), Route("im2col")]
    race.tell_missed()
    assert context.said == ["no time for routes O3, im2col: give a longer --budget, or name them by --route"]


class Endless(ModelProgram):
    """A model whose call never ends."""

    def outputs(self, vmfb: Path) -> Computed:
        raise OutOfTimeError(f"{vmfb} takes too long")


def test_a_call_without_an_end_is_named() -> None:
    program = Endless(Model(Path("m.mlir")), BENCHMARK.invocation, BareDevice(), 1.0, cast(Arbiter, None))
    race = RouteRace(BareContext(), BENCHMARK, program)
    with pytest.raises(BeginningError, match="the first call of IREE's default had not ended after 0 s"):
        race._default(tried(PLAIN, None))
