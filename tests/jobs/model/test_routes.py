"""Which routes are timed once more, and how long the next round is expected to take."""

from __future__ import annotations

import pytest

from autotuner.jobs.model.routes import RouteRace
from autotuner.targets import PLAIN, Route
from tests.support.bare_model import BareContext, Scripted, race_of, tried
from tests.support.clocks import Simulated


@pytest.mark.parametrize(
    ("default", "others", "timed"),
    [
        (30.0, {"slow-once": 44.0, "slower": 80.0}, ["plain", "slow-once"]),
        (30.0, {"hopeless": 120.0}, []),
        (30.0, {"near": 31.0, "behind": 44.0, "third": 45.0}, ["plain", "near", "behind"]),
        (300_000.0, {"slow-once": 440_000.0}, []),
    ],
    ids=["first-behind", "far-behind", "near", "slow-default"],
)
def test_those_that_were_not_given_up_are_timed_again(
    default: float, others: dict[str, float], timed: list[str]
) -> None:
    us = {"plain": [default], **{name: [default / 2] for name in others}}
    context = BareContext(device=Scripted(us))
    outcomes = [tried(PLAIN, default), *(tried(Route(name, (f"--{name}",)), us) for name, us in others.items())]
    race = race_of(context, *outcomes)
    race.time_the_nearest()
    assert len(context.rows.timings) == len(timed)
    if timed:
        assert race.right[0].route.name == timed[1]


def test_a_round_is_begun_where_it_is_expected_to_end_in_time() -> None:
    race: RouteRace = race_of(BareContext(clock=Simulated(100.0, now=20.0)))
    race.round_seconds = 9.0
    assert race.fits(30.0)
    assert not race.fits(29.0)


def test_routes_that_had_no_time_are_named() -> None:
    context = BareContext()
    race = race_of(context)
    race.tell_missed()
    race.search.queue += [Route("O3"), Route("im2col")]
    race.tell_missed()
    assert context.said == ["no time for routes O3, im2col: give a longer --budget, or name them by --route"]
