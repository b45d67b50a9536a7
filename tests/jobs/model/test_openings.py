"""How many searches are begun side by side."""

from __future__ import annotations

import pytest

from autotuner.jobs.model.openings import Openings
from autotuner.system import machine
from autotuner.targets import Target

GPU = Openings(reading=4.0, timing=1.0, builders=16)


def test_no_more_searches_are_begun_than_come_to_their_first_timing() -> None:
    """23 dispatches were begun in 12 s on 16 cores, and not one of them was searched."""
    begun = GPU.fitting(23, 12.0)
    assert begun == 3
    assert GPU.seconds(begun) <= 12.0 < GPU.seconds(begun + 1)
    assert GPU.fitting(23, 600.0) == 23
    assert GPU.fitting(23, 1.0) == 1, "where there is any time, one is tried"
    assert GPU.fitting(0, 100.0) == 0


def test_more_builders_begin_more() -> None:
    few = Openings(reading=4.0, timing=1.0, builders=1)
    assert few.fitting(23, 40.0) < GPU.fitting(23, 40.0)


def test_on_a_busy_machine_fewer_are_begun() -> None:
    idle, busy = (Openings.on(Target.parse("cpu"), builders=2, crowding=crowding) for crowding in (1.0, 5.0))
    assert busy.seconds(4) == pytest.approx(5 * idle.seconds(4))


def test_a_machine_is_as_crowded_as_processes_want_its_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "usable_cores", lambda: 2)
    for load, expected in ((None, 1.0), (0.3, 1.0), (2.0, 1.0), (10.0, 5.0)):
        monkeypatch.setattr(machine, "load", lambda load=load: load)
        assert machine.crowding() == expected


def test_what_is_not_begun_names_the_budget_that_would_do() -> None:
    assert GPU.not_begun(23, 12.0, budget=200.0) == (
        "not begun, with 12 s left for all dispatches: --budget 290s would do"
    )
