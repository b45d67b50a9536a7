"""How long a search goes on: to the time that the plan keeps, or to the end where there is nothing to judge."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from autotuner.build.executor import BuildExecutor
from autotuner.devices.many import Devices
from autotuner.measure.schedule import Schedule
from autotuner.system.progress import Clock, Silent, Stop
from autotuner.tuning.evaluate import TimedEvaluator
from autotuner.tuning.loop import Loop, TimedLoop
from autotuner.tuning.plan import BASELINE, Candidate
from tests.support.clocks import Simulated


def schedule(clock: Clock) -> Schedule:
    return Schedule(clock, 0.2, 0.3, shipping=2.0, lasting=0.02)


KEPT = schedule(Simulated(60.0)).ahead(baseline_us=1000.0, best_us=500.0).reserve(55.0)
"""Of a minute, when the default is timed after five seconds."""


def outcome(name: str, us: float, kind: str = "codegen", *, settled: bool = True) -> SimpleNamespace:
    candidate = SimpleNamespace(id=name, kind="baseline" if name == BASELINE else kind, config=name)
    return SimpleNamespace(candidate=candidate, us=us, settled=settled, build=SimpleNamespace(seconds=1.0, took=1.0))


def loop(clock: Clock, *rivals: SimpleNamespace, kernels: tuple[str, ...] = ()) -> TimedLoop:
    contenders = [outcome(BASELINE, 1000.0), *rivals]
    evaluator = SimpleNamespace(
        outcomes={one.candidate.id: one for one in contenders},
        contenders=lambda: contenders,
        best_us=min(one.us for one in contenders),
        calibration=SimpleNamespace(benchmark=SimpleNamespace(seconds=0.02)),
        plan=SimpleNamespace(space=[1], stock=[], kernels=dict.fromkeys(kernels), first=("likeliest",)),
    )
    made = TimedLoop(
        cast(TimedEvaluator, evaluator),
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
        first_schedule=schedule(clock),
    )
    made.keep_time_for_the_end()
    return made


def test_with_a_rival_the_search_ends_when_only_the_planned_end_is_left() -> None:
    clock = Simulated(60.0, now=5.0)
    searching = loop(clock, outcome("c1", 500.0))
    ends = 60.0 - KEPT
    assert searching.cut_off() == pytest.approx(clock.at(ends))
    clock.now = ends - 0.1
    assert not searching._over()
    clock.now = ends + 0.1
    assert searching._over()


def test_microkernels_that_take_part_are_waited_for_and_one_is_enough() -> None:
    """In a short budget the compiler's own code is there first, and would be all that is judged."""
    late = 60.0 - KEPT + 0.1
    for tried, over in (((), False), (("microkernel",), True)):
        clock = Simulated(60.0, now=5.0)
        others = [outcome(f"c{number}", 900.0, kind) for number, kind in enumerate(tried, 2)]
        searching = loop(clock, outcome("c1", 500.0), *others, kernels=("gemm_triton",))
        clock.now = late
        assert searching._over() == over


@pytest.mark.parametrize("settled", [False, True])
def test_the_microkernel_that_is_expected_to_be_fastest_is_waited_for_while_a_verdict_fits(settled: bool) -> None:
    """Of several that are built at once any may be there first: a slower one would be all that is judged."""
    clock = Simulated(60.0, now=5.0)
    rivals = [outcome("c1", 900.0, "microkernel"), outcome("likeliest", 100.0, "microkernel", settled=settled)]
    searching = loop(clock, *rivals, kernels=("gemm_triton",))
    clock.now = 60.0 - KEPT + 0.1
    assert searching._over() == settled
    last = 60.0 - searching.least_seconds()
    assert searching.cut_off() == pytest.approx(clock.at(60.0 - KEPT if settled else last))
    clock.now = last + 0.1
    assert searching._over()


def test_without_one_it_goes_on_to_the_end_and_no_build_takes_the_time_of_the_shortest_verdict() -> None:
    clock = Simulated(60.0, now=5.0)
    searching = loop(clock)
    last = 60.0 - searching.least_seconds()
    assert searching.cut_off() == pytest.approx(clock.at(last)), "one that begins now"
    clock.now = last + 1.0
    assert not searching._over(), "there is time on the clock"
    assert searching.cut_off() == pytest.approx(clock.at(60.0))
    clock.now = 60.5
    assert searching._over()


@pytest.mark.parametrize(("late", "rivals", "tried"), [(False, 0, 4), (True, 0, 1), (True, 1, 0)])
def test_stock_routes_are_tried_while_they_fit_and_the_first_of_them_late_where_there_is_no_rival(
    late: bool, rivals: int, tried: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Simulated(60.0, now=5.0)
    searching = loop(clock, *(outcome(f"c{number}", 500.0) for number in range(rivals)))
    worked: list[Candidate] = []

    def work(some: list[Candidate], *, builds_end: float) -> None:
        assert builds_end < clock.at(60.0)
        worked.extend(some)
        clock.now = 61.0 if late else clock.now

    monkeypatch.setattr(searching, "_work", work)
    clock.now = 60.0 - searching.least_seconds() + 0.5 if late else 5.0
    searching.evaluate([cast(Candidate, SimpleNamespace(id=f"stock-{number}")) for number in range(4)])
    assert len(worked) == tried


def test_of_what_is_only_built_the_loop_leaves_the_time_to_finish_it() -> None:
    """A bundle has modules of several lengths of each."""
    clock = Simulated(60.0, now=5.0)
    built = SimpleNamespace(built=True, build=SimpleNamespace(took=4.0))
    evaluator = SimpleNamespace(outcomes={"a": built, "b": built, "c": SimpleNamespace(built=False, build=None)})
    building = Loop(
        cast(TimedEvaluator, evaluator),
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
    building._deadline = clock.budget
    assert building.cut_off() == pytest.approx(clock.at(60.0 - 0.5 * 8.0 / 2))
    for now, over in ((57.9, False), (58.1, True)):
        clock.now = now
        assert building._over() == over
