"""How long a search goes on: to the time that the plan keeps, or to the end where there is nothing to judge."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from autotuner.build.executor import BuildExecutor
from autotuner.devices.many import Devices
from autotuner.measure.schedule import Schedule
from autotuner.system.progress import Clock, Silent, Stop
from autotuner.tuning.evaluate import Evaluator
from autotuner.tuning.loop import Loop
from autotuner.tuning.plan import BASELINE
from tests.support.clocks import Simulated


def schedule(clock: Clock) -> Schedule:
    return Schedule(clock, 0.2, 0.3, shipping=2.0, lasting=0.02)


KEPT = schedule(Simulated(60.0)).ahead(baseline_us=1000.0, best_us=500.0).reserve(55.0)
"""Of a minute, when the default is timed after five seconds."""


def outcome(name: str, us: float, kind: str = "codegen", *, settled: bool = True) -> SimpleNamespace:
    candidate = SimpleNamespace(id=name, kind="baseline" if name == BASELINE else kind, config=name)
    return SimpleNamespace(candidate=candidate, us=us, settled=settled, build=SimpleNamespace(seconds=1.0, took=1.0))


def loop(clock: Clock, *rivals: SimpleNamespace, kernels: tuple[str, ...] = ()) -> Loop:
    contenders = [outcome(BASELINE, 1000.0), *rivals]
    evaluator = SimpleNamespace(
        outcomes={one.candidate.id: one for one in contenders},
        contenders=lambda: contenders,
        measures=True,
        best_us=min(one.us for one in contenders),
        calibration=SimpleNamespace(benchmark=SimpleNamespace(seconds=0.02)),
        plan=SimpleNamespace(space=[1], stock=[], kernels=dict.fromkeys(kernels), first=("likeliest",)),
    )
    made = Loop(
        cast(Evaluator, evaluator),
        cast(BuildExecutor, None),
        clock,
        Stop(),
        Silent(),
        seed=0,
        trials=10,
        jobs=2,
        seconds={},
        devices=Devices(()),
        shares_cores=True,
    )
    made.first_schedule = schedule(clock)
    made.keep_time_for_the_end()
    return made


def test_with_a_rival_the_search_ends_when_only_the_time_of_a_verdict_is_left() -> None:
    clock = Simulated(60.0, now=5.0)
    searching = loop(clock, outcome("c1", 500.0))
    ends = 60.0 - KEPT
    assert searching.cut_off() == pytest.approx(clock.at(ends))
    clock.now = ends - 0.1
    assert not searching._over()
    clock.now = ends + 0.1
    assert searching._over()


@pytest.mark.parametrize(
    ("tried", "waits"),
    [
        ((), True),  # in a short budget the compiler's own code is there first, and would be all that is judged
        (("c2", True), False),
        (("likeliest", False), True),  # of several that are built at once any may be there first
        (("likeliest", True), False),
    ],
)
def test_microkernels_are_waited_for_while_a_verdict_fits(tried: tuple[str, bool] | tuple[()], waits: bool) -> None:
    clock = Simulated(60.0, now=5.0)
    kernels = [outcome("c9", 900.0, "microkernel", settled=not tried or tried[0] == "likeliest")] if tried else []
    kernels += [outcome(tried[0], 900.0, "microkernel", settled=tried[1])] if tried else []
    searching = loop(clock, outcome("c1", 500.0), *kernels, kernels=("gemm_triton",))
    clock.now = 60.0 - KEPT + 0.1
    assert searching._over() == (not waits)
    clock.now = 60.0 - searching.schedule.kept_of(55.0) + 0.1
    assert searching._over()


def test_without_a_rival_it_goes_on_to_the_end() -> None:
    clock = Simulated(60.0, now=5.0)
    searching = loop(clock)
    assert searching.cut_off() == pytest.approx(clock.at(60.0))
    clock.now = 59.9
    assert not searching._over(), "there is time on the clock"
    clock.now = 60.5
    assert searching._over()


def test_no_verdict_fits_where_a_rival_cannot_be_built_and_compared() -> None:
    clock = Simulated(60.0, now=5.0)
    searching = loop(clock)
    assert not searching.too_late
    clock.now = 60.0
    assert searching.too_late


def test_of_what_is_only_built_the_loop_leaves_the_time_to_finish_it() -> None:
    """A bundle has modules of several lengths of each."""
    clock = Simulated(60.0, now=5.0)
    built = SimpleNamespace(built=True, build=SimpleNamespace(took=4.0))
    evaluator = SimpleNamespace(
        outcomes={"a": built, "b": built, "c": SimpleNamespace(built=False, build=None)}, measures=False
    )
    building = Loop(
        cast(Evaluator, evaluator),
        cast(BuildExecutor, None),
        clock,
        Stop(),
        Silent(),
        seed=0,
        trials=10,
        jobs=2,
        seconds={},
        devices=Devices(()),
        shares_cores=True,
        finishing=0.5,
    )
    assert building.cut_off() == pytest.approx(clock.at(60.0 - 0.5 * 8.0 / 2))
    for now, over in ((57.9, False), (58.1, True)):
        clock.now = now
        assert building._over() == over
