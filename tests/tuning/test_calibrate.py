"""What a calibration finds out on IREE's default, with a device whose answers are written down."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from threading import Event
from typing import Any, cast

import numpy as np
import pytest

from autotuner import Gemm, Problem
from autotuner.build import Builder, Compiled
from autotuner.devices.device import INVOCATION_US, Computed, Device, Module, Timing
from autotuner.errors import DeviceError, NoCandidateError, OutOfTimeError, WrongResultError
from autotuner.iree.run import Benchmark, CacheState, Invocation
from autotuner.measure.calibrate import Calibration, Calibrator
from autotuner.measure.check import RANDOM, Check, Checker, Data
from autotuner.measure.schedule import BeginningError
from autotuner.problems import Array
from autotuner.system import process
from autotuner.tuning.contest import after_verdict
from autotuner.tuning.options import Options, Task, parse_effort
from autotuner.tuning.plan import Plan
from tests.support.bare_device import BareDevice
from tests.support.clocks import Simulated

PROBLEM = Gemm.parse(shape="16x16x32", dtype="f32")
EFFORT = parse_effort("quick")
MakePlan = Callable[[Problem, str], Plan]
Calibrate = Callable[..., Calibration[Compiled]]


@dataclass
class Scripted(BareDevice):
    """A device on which all is right and takes as long as is written down; `us` is by the module's repeats."""

    data: Data
    us: Mapping[int, Sequence[float] | str]
    """µs of each repetition, or how the timing fails."""
    computed: Callable[[Array], Computed] = lambda right: Computed((right.astype(np.float32),))
    timed: list[tuple[int, float, int]] = field(default_factory=list)

    uri = "scripted"

    def check(self, vmfb: Path, invocations: Sequence[Invocation], *, timeout: float) -> tuple[Computed, ...]:
        assert vmfb.is_file()
        del invocations, timeout
        rights = [one.reference for expected in self.data.expected.values() for one in expected]
        return tuple(self.computed(right) for right in rights)

    def time(
        self, module: Module, benchmark: Benchmark, *, repetitions: int = 3, give_up_us: float = math.inf
    ) -> Timing:
        del give_up_us
        self.timed.append((module.repeat, benchmark.seconds, repetitions))
        answer = self.us[module.repeat]
        if isinstance(answer, str):
            return Timing((), "run-error", answer)
        return Timing(tuple(answer[n % len(answer)] for n in range(repetitions)))


@pytest.fixture(scope="module")
def plan(make_plan: MakePlan) -> Plan:
    return make_plan(PROBLEM, "plain")


@pytest.fixture
def data(tmp_path: Path) -> Data:
    return Data.write(PROBLEM, tmp_path / "data", seed=0)


@pytest.fixture
def calibrate(plan: Plan, builder: Builder, data: Data) -> Calibrate:
    def make(device: Device, *, plan: Plan = plan, **changed: object) -> Calibration[Compiled]:
        def built(repeat: int, known: Compiled | None) -> Compiled:
            job = plan.job(plan.baseline, timeout=EFFORT.compile_timeout, repeat=repeat, timed=True)
            return known if known is not None and known.repeat == job.repeat else builder.build(job)

        seconds = {"time": 0.0}
        calibrator = replace(Calibrator(built, device, data, EFFORT, seconds, on_cores=True), **changed)  # type: ignore[arg-type]
        found = calibrator.calibrated(calibrator.first_build())
        assert seconds["time"] > 0, "what it took is counted"
        return found

    return make


def test_a_long_baseline_is_timed_as_it_is(calibrate: Calibrate, data: Data) -> None:
    device = Scripted(data, {1: (100_000.0,)})
    found = calibrate(device)
    assert (found.repeat, found.baseline.repeat) == (1, 1)
    assert found.heard.us == (100_000.0,) * 5
    assert found.benchmark == Benchmark(data.invocation(), EFFORT.repetition_seconds, EFFORT.run_timeout)
    assert found.timing_seconds == 4 * 0.1, "what a race's timing takes, of three repetitions and not of five"
    assert found.checker.check(found.baseline.vmfb).ok


@dataclass
class Answers:
    """Says when they are asked for."""

    asked: Event

    @property
    def knows(self) -> bool:
        self.asked.set()
        return True


def test_on_a_gpu_the_right_answers_are_computed_while_the_default_compiles() -> None:
    """And on the processor that is timed one after the other."""
    for beside in (True, False):
        known = Event()
        seen: list[bool] = []

        def build(
            _repeat: int, _there: Compiled | None, known: Event = known, beside: bool = beside, seen: list[bool] = seen
        ) -> Compiled:
            seen.append(known.wait(20.0 if beside else 0.0))
            return Compiled(None, "", 0.0, (), Path())

        data = cast(Data, Answers(known))
        calibrator = Calibrator(build, BareDevice(), data, EFFORT, {}, on_cores=not beside)
        calibrator.first_build()
        assert seen == [beside]


def test_a_short_baseline_is_repeated_and_a_cold_search_times_single_calls_after_that(
    calibrate: Calibrate, data: Data
) -> None:
    device = Scripted(data, {1: (INVOCATION_US / 2,), 4: (INVOCATION_US / 2,)})
    assert (calibrate(device).repeat, calibrate(device).baseline.repeat) == (4, 4), "twice the shortest invocation"
    found = calibrate(device, cache="cold")
    assert (found.repeat, found.baseline.repeat, found.benchmark.cache) == (1, 1, "cold")
    assert [repeat for repeat, *_ in device.timed][-2:] == [4, 1]


def test_repeats_stay_out_of_what_may_not_be_repeated(calibrate: Calibrate, plan: Plan, data: Data) -> None:
    class Adding(Gemm):
        repeatable = False

    once = Adding(**{one.name: getattr(PROBLEM, one.name) for one in fields(PROBLEM) if one.init})
    device = Scripted(data, {1: (INVOCATION_US / 2,)})
    found = calibrate(device, plan=replace(plan, problem=once))
    assert found.baseline.repeat == 1


def test_a_baseline_that_does_not_compile_is_told(calibrate: Calibrate, plan: Plan, data: Data) -> None:
    # The compiler says what is wrong, and then prints the whole operation.
    loops = "".join(f"  %{n} = arith.constant {n} : i32\n" for n in range(40))
    broken = replace(plan, source=f"func.func @main() {{\n{loops}  util.bogus\n}}\n")
    with pytest.raises(NoCandidateError, match=r"IREE's default does not compile: .*error: .*util\.bogus") as caught:
        calibrate(Scripted(data, {}), plan=broken)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("failure", ["run-error", "run-timeout"])
def test_a_device_that_does_not_run_the_baseline_is_told(calibrate: Calibrate, data: Data, failure: str) -> None:
    device = Scripted(data, {}, lambda _: Computed(failure=failure, detail="no queue\nno such device"))  # type: ignore[arg-type]
    with pytest.raises(DeviceError, match="'scripted' does not run the baseline: no such device"):
        calibrate(device)
    assert not device.timed


def test_a_baseline_that_computes_something_else_is_timed_and_known_to_be_wrong(
    calibrate: Calibrate, data: Data
) -> None:
    wrong = Scripted(data, {1: (1e5,)}, lambda right: Computed(((right + 1).astype(np.float32),)))
    found = calibrate(wrong)
    assert (found.default.failure, found.heard.us) == ("wrong-result", (1e5,) * 5)
    assert calibrate(Scripted(data, {1: (1e5,)})).default.ok


def test_a_baseline_without_finite_results_is_told_where_nothing_else_is_known(
    calibrate: Calibrate, data: Data
) -> None:
    unknown = _Unknown(data.problem, data.folder, data.seed)
    with pytest.raises(WrongResultError, match="already computes wrong results"):
        calibrate(Scripted(data, {}, lambda right: Computed(((right * np.nan).astype(np.float32),))), data=unknown)


@pytest.mark.parametrize("us", [{1: "the queue is lost"}, {1: (INVOCATION_US / 2,), 4: "the queue is lost"}])
def test_a_baseline_that_cannot_be_timed_is_told(
    calibrate: Calibrate, data: Data, us: Mapping[int, Sequence[float] | str]
) -> None:
    with pytest.raises(DeviceError, match="the queue is lost"):
        calibrate(Scripted(data, us))


def test_where_nothing_is_known_the_defaults_own_result_is_right(calibrate: Calibrate, data: Data) -> None:
    unknown = _Unknown(data.problem, data.folder, data.seed)
    device = Scripted(data, {1: (1e5,)})
    found = calibrate(device, data=unknown)
    assert found.checker.data.knows
    assert math.isclose(float(found.checker.data.learnt[RANDOM][0][0, 0]), float(_first(data)), rel_tol=1e-5)
    assert found.checker.check(found.baseline.vmfb).ok
    other = replace(device, computed=lambda right: Computed((2 * right.astype(np.float32),)))
    assert replace(found.checker, device=other).check(found.baseline.vmfb).failure == "wrong-result"


def test_a_deadline_says_what_was_under_way(calibrate: Calibrate, data: Data) -> None:
    def late(*_: object) -> Computed:
        raise OutOfTimeError

    class Late(Scripted):
        """The time is up in its second timing."""

        def time(self, *args: Any, **options: Any) -> Timing:
            return super().time(*args, **options) if not self.timed else cast(Timing, late())

    right = Scripted(data, {})
    with pytest.raises(BeginningError, match="the compile of IREE's default had not ended after 0 s"):
        calibrate(right, make=late)
    with pytest.raises(BeginningError, match="the first run of IREE's default had not ended"):
        calibrate(Scripted(data, {}, late))
    with pytest.raises(BeginningError, match="timing it had not ended"):
        calibrate(Late(data, {1: (1e5,)}))
    built = Compiled(None, "", 0.0, (), Path())
    for on_cores in (True, False):  # also beside a compile
        asked = Data(data.problem, data.folder, data.seed)
        with process.until(0.0), pytest.raises(BeginningError, match="the right answers had not ended"):
            calibrate(right, make=lambda *_: built, data=asked, on_cores=on_cores)


def _first(data: Data) -> float:
    (expected,) = data.expected[RANDOM]
    return float(expected.reference[0, 0])


class _Unknown(Data):
    """A problem that has no reference until one is learnt."""

    @property
    def knows(self) -> bool:
        return bool(self.learnt)


# --- the schedule that follows ----------------------------------------------------------------------------------------


class Open(BareDevice):
    """A device that stays open."""

    isolated = BareDevice()


def known(*, device: Device | None = None, cache: CacheState = "warm") -> Calibration[Compiled]:
    baseline = Compiled(None, "", 2.0, (), Path(), took=2.0)
    benchmark = Benchmark(Invocation("main", (), ()), 0.02, 60.0, cache=cache)
    checker, right = cast(Checker, None), Check(None, 0.0)
    return Calibration(device or Open(), checker, benchmark, 1, baseline, 0.1, 0.3, Timing((1.0,)), right)


def test_a_race_has_longer_modules_than_a_short_comparison_and_is_confirmed_in_processes_of_their_own() -> None:
    clock = Simulated(100.0)
    race, lead = known().schedule(clock, EFFORT), known().schedule(clock, EFFORT, judges=False)
    assert race.timing == pytest.approx(0.18)
    assert (race.fresh, race.judges) == (0.3, True)
    assert lead.timing == pytest.approx(0.1)
    assert (lead.shipping, lead.judges) == (0.0, False)
    cold = known(cache="cold").schedule(clock, EFFORT)
    assert cold.fresh == cold.timing, "a cold search is confirmed as it is raced"


def test_time_is_kept_for_what_ships_and_for_a_cold_cache_only_where_they_are_wanted() -> None:
    both, warm = Options(cache="both"), Options(cache="warm")
    shipping, cold = after_verdict(known(), Task(), both)
    assert shipping == pytest.approx(4.1), "with two builds and the calls after a win"
    assert cold > 2.0
    assert after_verdict(known(), Task(), warm)[1] == 0.0
    assert after_verdict(known(), Task(ship=False, cold=False), both) == (0.0, 0.0)
    assert after_verdict(known(device=BareDevice()), Task(), both)[1] == 0.0, "nothing stays open on it"
