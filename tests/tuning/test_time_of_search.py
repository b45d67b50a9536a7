"""How long a search goes on, to the time that the plan keeps or to the end where there is nothing to judge; and what
is shown of it on the way."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest

from autotuner import Gemm
from autotuner.build import Compiled
from autotuner.devices.device import Timing
from autotuner.devices.many import Devices
from autotuner.iree.run import Benchmark, Invocation
from autotuner.measure.calibrate import Calibration
from autotuner.measure.check import Check
from autotuner.measure.clock import Clock
from autotuner.measure.schedule import Schedule
from autotuner.measure.screening import Measured
from autotuner.space import Config, Space
from autotuner.space.table import Knob
from autotuner.store.rows import NewRun
from autotuner.store.store import Store
from autotuner.system.progress import Progress, Silent, Stop
from autotuner.targets import PLAIN, Target
from autotuner.tuning.evaluate import Evaluator
from autotuner.tuning.loop import Loop
from autotuner.tuning.options import Options
from autotuner.tuning.outcome import Outcome
from autotuner.tuning.plan import BASELINE, Candidate, Plan
from autotuner.tuning.session import Session
from tests.support.bare_device import BareDevice
from tests.support.clocks import Simulated

NOT_ASKED = cast(Any, None)
BUILT = Compiled(None, "", 1.0, (), Path(), took=1.0)
LIKELIEST = Config.of({"tile": 8})
PLAN = replace(
    Plan.bare(Gemm.parse(shape="8x8x8", dtype="f32"), Target.parse("cpu")),
    space=Space.product([Knob("tile", (4, 8))]),
    first=(LIKELIEST,),
)


def schedule(clock: Clock) -> Schedule:
    return Schedule(clock, 0.2, 0.3, shipping=2.0, lasting=0.02)


KEPT = schedule(Simulated(60.0)).ahead(baseline_us=1000.0, best_us=500.0).reserve(55.0)
"""Of a minute, when the default is timed after five seconds."""


@dataclass
class Shown(Silent):
    """Keeps what it is told of a search."""

    seen: list[Progress] = field(default_factory=list)

    def progress(self, now: Progress) -> None:
        self.seen.append(now)


def outcome(name: str, us: float | None, kind: str = "codegen", config: Config = NOT_ASKED) -> Outcome:
    candidate = Candidate(name, kind, PLAIN, 1, config or Config(()))  # type: ignore[arg-type]
    return Outcome(candidate, 0, us=us, build=BUILT)


def loop(
    clock: Clock,
    *rivals: Outcome,
    kernels: Sequence[str] = (),
    shown: Silent | None = None,
) -> Loop:
    """A search whose default takes 1 ms."""
    plan = replace(PLAN, kernels=cast(Mapping[str, Any], dict.fromkeys(kernels)))
    evaluator = Evaluator(plan, NOT_ASKED, NOT_ASKED, "", Path(), frozenset(), 1.0, Devices(()))
    benchmark, right = Benchmark(Invocation("main", (), ()), 0.02, 60.0), Check(None, 0.0)
    evaluator.calibrate(Calibration(BareDevice(), NOT_ASKED, benchmark, 1, BUILT, 0.1, 0.1, Timing((1000.0,)), right))
    for one in (outcome(BASELINE, 1000.0, "baseline"), *rivals):
        evaluator.take(one)
    others = {
        "tools": NOT_ASKED,
        "workspace": NOT_ASKED,
        "store": NOT_ASKED,
        "executor": NOT_ASKED,
        "devices": Devices(()),
    }
    session = Session("local-task", shown or Silent(), Stop(), **others)
    made = Loop(evaluator, session, clock, Options(), trials=10, seconds={})
    made.first_schedule = schedule(clock)
    made.keep_time_for_the_end()
    return made


def test_with_a_rival_the_search_ends_when_only_the_time_of_a_verdict_is_left() -> None:
    clock = Simulated(60.0, now=5.0)
    searching = loop(clock, outcome("c1", 500.0))
    ends = 60.0 - KEPT
    assert searching.cut_off() == pytest.approx(clock.at(ends))
    for now, over in ((ends - 0.1, False), (ends + 0.1, True)):
        clock.now = now
        assert searching._over() == over


@pytest.mark.parametrize(
    ("kernels", "waits"),
    [
        ((), True),  # in a short budget the compiler's own code is there first, and would be all that is judged
        ((outcome("c2", 900.0, "microkernel"),), False),
        # Of several that are built at once any may be there first.
        ((outcome("c2", 900.0, "microkernel"), outcome("c3", None, "microkernel", LIKELIEST)), True),
        ((outcome("c2", 900.0, "microkernel"), outcome("c3", 900.0, "microkernel", LIKELIEST)), False),
    ],
)
def test_microkernels_are_waited_for_while_a_verdict_fits(kernels: Sequence[Outcome], waits: bool) -> None:
    clock = Simulated(60.0, now=5.0)
    searching = loop(clock, outcome("c1", 500.0), *kernels, kernels=("gemm_triton",))
    clock.now = 60.0 - KEPT + 0.1
    assert searching._over() == (not waits)
    clock.now = 60.0 - searching.schedule.kept_of(55.0) + 0.1
    assert searching._over()


def test_a_kernel_is_tried_before_the_routes_once_and_where_there_is_one() -> None:
    tried = loop(Simulated(60.0), outcome("c1", 900.0, "microkernel", LIKELIEST), kernels=("gemm_triton",))
    assert tried.likeliest_kernel() == []
    assert loop(Simulated(60.0)).likeliest_kernel() == []


def test_without_a_rival_it_goes_on_to_the_end_and_then_no_verdict_fits() -> None:
    clock = Simulated(60.0, now=5.0)
    searching = loop(clock)
    assert searching.cut_off() == pytest.approx(clock.at(60.0))
    assert not searching.too_late
    for now, over in ((59.9, False), (60.5, True)):
        clock.now = now
        assert searching._over() == over
    assert searching.too_late


def test_progress_counts_what_there_is() -> None:
    shown = Shown()
    loop(Simulated(60.0), outcome("c1", 500.0), shown=shown).report()
    assert [(now.trials, now.timed, now.baseline_us, now.best_us) for now in shown.seen] == [(2, 2, 1000.0, 500.0)]


class Unread(dict[str, Outcome]):
    """What is looked up by name."""

    def values(self) -> Any:
        raise AssertionError("to look through all for each new one takes longer and longer")


def test_progress_counts_what_became_of_each_candidate_and_looks_through_none(tmp_path: Path) -> None:
    shown = Shown()
    searching = loop(Simulated(60.0), shown=shown)
    evaluator, device = searching.evaluator, searching.evaluator.calibration.device
    with Store.open(None, workspace=tmp_path) as store:
        evaluator.store, evaluator.folder = store, tmp_path
        evaluator.run = store.start_run(NewRun("single", "", (), {}, "cpu", "cpu", seed=0))
        evaluator.next_ordinal = 1
        names = ("timed", "twin", "unbuilt", "wrong", "slow")
        timed, twin, unbuilt, wrong, slow = (
            evaluator.open(Candidate(name, "codegen", PLAIN, 1, Config.of({"tile": n}))) for n, name in enumerate(names)
        )
        measured = Measured(Check(None, 0.0), Timing((500.0,)), device=device.uri)
        steps: Sequence[Callable[[], object]] = (
            lambda: evaluator.settle_build(timed, replace(BUILT, binary="a")),
            lambda: evaluator.settle_build(twin, replace(BUILT, binary="a")),
            lambda: evaluator.settle(timed, measured),
            lambda: evaluator.settle_build(unbuilt, replace(BUILT, failure="compile-error")),
            lambda: evaluator.settle_build(wrong, replace(BUILT, binary="b")),
            lambda: evaluator.settle(wrong, replace(measured, check=Check("wrong-result", 1.0), timing=None)),
            lambda: evaluator.settle_build(slow, replace(BUILT, binary="c")),
            lambda: evaluator.settle(slow, replace(measured, timing=Timing((), failure="run-timeout"))),
            lambda: evaluator.refuse(timed.id, Check("wrong-result", 1.0)),
        )
        for step in steps:
            step()
            known = evaluator.outcomes
            evaluator.outcomes = Unread(known)
            searching.report()
            evaluator.outcomes = known
            now, all_of_them = shown.seen[-1], known.values()
            assert now.asked == len(names)
            assert now.built == sum(one.built for one in all_of_them)
            assert now.failed == sum(one.failure is not None for one in all_of_them)
            assert now.timed == sum(one.us is not None for one in all_of_them)
    assert [(now.built, now.failed, now.timed) for now in shown.seen] == [
        (2, 0, 1), (3, 0, 1), (3, 0, 3), (3, 1, 3), (4, 1, 3), (4, 2, 3), (5, 2, 3), (5, 3, 3), (5, 4, 2),
    ]  # fmt: skip
