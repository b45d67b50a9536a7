"""Whether a win is believed, on calls that are written down; real kernels that cheat are in tests/microkernels."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest

from autotuner.cluster.remote import RemoteModule
from autotuner.devices.device import Computed, LiveCalls, LiveRounds, Timing
from autotuner.errors import OutOfTimeError
from autotuner.iree.run import Invocation
from autotuner.measure import audit
from autotuner.measure.audit import BATCH, MOST_BATCHES, SECONDS, Audit, Finding, shortest_us
from autotuner.measure.blocks import Entrant, Interval
from autotuner.measure.check import Check
from autotuner.measure.contest import Takes
from autotuner.measure.judge import Judge
from autotuner.measure.judgement import Contest, Judgement
from autotuner.problems import Gemm
from autotuner.system import process
from autotuner.system.progress import Stop
from autotuner.targets.backends.base import DeviceFacts
from tests.support.bare_device import BareDevice

CALL = 30.0
"""µs of a call beside its work."""


@dataclass
class Living(BareDevice):
    """Work in µs of each module by its name, and those whose results are wrong."""

    work: dict[str, float]
    wrong: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    noise: float = 0.002
    late: bool = False
    seeds: list[int] = field(default_factory=list)
    until: float = math.nan

    def live_calls(self, modules: Sequence[Path], invocation: Invocation, how: LiveRounds) -> LiveCalls | None:
        assert (invocation, how.storage) == (Invocation("main", (), ("f32",)), 1)
        assert (how.seconds, how.timeout) == (SECONDS, 9.0)
        if self.late:
            raise OutOfTimeError
        self.until = process.deadline()
        self.seeds.append(how.seed)
        rng = np.random.default_rng(len(self.seeds))
        us = {
            m.stem: (self.work[m.stem] + CALL) * np.exp(self.noise * rng.standard_normal(how.rounds)) for m in modules
        }
        results = tuple((Computed((np.array([m.stem in self.wrong], np.float32),)),) * how.rounds for m in modules)
        changed = tuple(m.stem in self.writes for m in modules)
        return LiveCalls(tuple(tuple(row.tolist()) for row in us.values()), results, changed)


def agree(found: Computed, other: Computed) -> Check:
    return Check(None, 0.0) if found.arrays[0] == other.arrays[0] else Check("wrong-result", 1.0, "another number")


def audit_of(device: Living, **settings: object) -> Audit:
    modules = {name: RemoteModule(Path(f"{name}.vmfb"), 1) for name in device.work}
    return Audit(device, Invocation("main", (), ("f32",)), 1, modules, agree, 9.0, **settings)  # type: ignore[arg-type]


def called(device: Living, a: float, b: float, *, foreign: bool = True, **settings: object) -> Finding:
    """Of b's win over a, which repeated took so many µs."""
    ratio = Interval(a / b, a / b, a / b)
    found = audit_of(device, **settings).of("b", "a", {"a": a, "b": b}, ratio, foreign=foreign)
    assert found is not None
    return found


def test_a_gain_that_holds_is_certain_soon_though_calls_cost_more_than_their_work() -> None:
    device = Living({"a": 20.0, "b": 10.0})
    found = called(device, 20.0, 10.0, seed=7)
    assert (found.check.ok, found.certain, found.audited.rounds, found.audited.compared) == (True, True, BATCH, BATCH)
    speedup = found.audited.speedup
    assert speedup is not None
    assert speedup.low < 50 / 40 < speedup.high
    work = found.audited.work
    assert work is not None
    assert work.low < 20 / 10 < work.high, "what a call costs beside the work is taken from both"
    told = {"speedup": speedup.to_json(), "work": work.to_json()}
    assert audit_of(device).seed != audit_of(device).seed, "nobody knows it before"
    assert found.audited.to_json() == {"seed": 7, "rounds": 64, "compared": 64, **told}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"wrong": ("b",)}, "wrong in 64 of 64 calls on inputs that change from call to call: another number"),
        ({"writes": ("b",)}, "it writes to its inputs"),
    ],
)
def test_what_is_wrong_is_out(settings: dict[str, tuple[str, ...]], words: str) -> None:
    refused: list[str] = []
    device = Living({"a": 20.0, "b": 10.0}, **settings)  # type: ignore[arg-type]
    found = called(device, 20.0, 10.0, refuse=lambda name, check: refused.append(f"{name}: {check.detail}"))
    assert found.check.failure == "wrong-result"
    assert refused == [f"b: {words}"]
    assert called(Living({"a": 20.0, "b": 10.0}, writes=("a",)), 20.0, 10.0).check.ok, "that is not the winner's fault"


def test_a_time_that_only_repeated_dispatches_show_is_out() -> None:
    found = called(Living({"a": 20.0, "b": 19.0}), 20.0, 1.0)
    assert found.check.failure == "wrong-time"
    assert "repeated on the same inputs it is 20.0x as fast, on inputs that change from call to call 1.0" in (
        found.check.detail
    )


def test_what_comes_with_autotune_need_not_save_so_much_but_is_not_slower() -> None:
    same, slower = (called(Living({"a": 20.0, "b": b}), 20.0, 1.0, foreign=False) for b in (20.0, 25.0))
    assert (same.check.ok, slower.check.failure) == (True, "wrong-time")
    assert same.audited.rounds == BATCH, "nothing needs to be certain"


def test_a_gain_that_was_timed_while_the_machine_was_slower_must_hold_in_its_ratio_alone() -> None:
    found = called(Living({"a": 1000.0, "b": 800.0}), 5000.0, 4000.0)
    assert (found.check.ok, found.certain) == (True, True)


def test_rounds_go_on_until_half_of_what_was_told_is_certain() -> None:
    found = called(Living({"a": 2000.0, "b": 1414.0}, noise=0.02), 2000.0, 1000.0)
    assert (found.check.ok, found.certain, found.audited.rounds) == (True, True, MOST_BATCHES * BATCH)


def test_what_fails_when_it_is_called_is_out_for_that_reason() -> None:
    device = Living({"a": 20.0, "b": 10.0})
    usual = device.live_calls
    crashed = LiveCalls(failure="run-error", detail="it crashed")
    device.live_calls = lambda modules, *how: usual(modules, *how) if len(modules) == 1 else crashed  # type: ignore[method-assign]
    found = called(device, 20.0, 10.0, seed=5)
    assert (found.check.failure, found.audited.seed) == ("run-error", 5)
    assert found.check.detail == "on inputs that change from call to call: it crashed"


def test_what_noise_hides_is_neither_certain_nor_out() -> None:
    device = Living({"a": 20.0, "b": 19.5}, noise=0.9)
    found = called(device, 20.0, 19.5, seed=3)
    assert (found.check.ok, found.certain, found.audited.rounds) == (True, False, MOST_BATCHES * BATCH)
    assert device.seeds == list(range(3, 3 + MOST_BATCHES))


def test_a_baseline_that_cannot_be_called_says_nothing_of_the_winner() -> None:
    device, asked = Living({"a": 20.0, "b": 10.0}), list[int]()

    def fails(modules: Sequence[Path], invocation: Invocation, how: LiveRounds) -> LiveCalls:
        del invocation, how
        asked.append(len(modules))
        return LiveCalls(failure="run-error", detail="bytecode of another version")

    device.live_calls = fails  # type: ignore[method-assign]
    told = Interval(2.0, 2.0, 2.0)
    assert audit_of(device).of("b", "a", {"a": 20.0, "b": 10.0}, told) is None
    assert asked == [2, 1]
    assert judged(device).verdict == "inconclusive"
    assert judged(device, foreign=False).verdict == "win"


def test_what_was_not_built_in_time_is_not_believed() -> None:
    with pytest.raises(OutOfTimeError):
        audit_of(Living({"a": 2.0, "b": 1.0})).of("c", "a", {"a": 2.0, "c": 1.0}, Interval(2.0, 2.0, 2.0))


# --- What no device can do ------------------------------------------------------------------------------------------


def test_what_is_faster_than_the_device_can_be_is_out() -> None:
    found = called(Living({"a": 20.0, "b": 10.0}), 20.0, 0.4, shortest_us=0.5)
    assert found.check.failure == "wrong-time"
    assert found.check.detail.startswith("0.4 µs is faster than this device can be")


def test_arithmetic_takes_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = Gemm.parse(shape="256x256x512", dtype="f32")
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    assert 30 < shortest_us(problem, "local-task") < 60
    monkeypatch.setattr(audit, "described", lambda _: DeviceFacts("NVIDIA H200"))
    large = Gemm.parse(shape="4096x4096x4096", dtype="f16")
    assert 20 < shortest_us(large, "cuda://0") < 80
    thin = Gemm.parse(shape="1x65536x65536", dtype="f16")
    assert 600 < shortest_us(thin, "cuda://0") < 1000
    monkeypatch.setattr(audit, "described", lambda _: DeviceFacts("unheard of"))
    assert shortest_us(large, "cuda://0") == 0.0


# --- What the judge makes of it -------------------------------------------------------------------------------------


def judged(
    device: Living, *, foreign: bool = True, rivals: Sequence[str] = ("b",), left: float = math.inf
) -> Judgement:
    """By timings that say that b is ten times as fast, and c twice."""
    timed = {"a": 20.0, "b": 2.0, "c": 10.0}
    rng = np.random.default_rng(1)

    def take(name: str) -> Timing:
        return Timing((timed[name] * math.exp(0.002 * rng.standard_normal()),))

    contest = Contest((Entrant("a"), *(Entrant(name, 1, foreign) for name in rivals)), "a", "a")
    return Judge(contest, Takes.alike(take), lambda: left, Stop(), audit=audit_of(device)).verdict()


def test_a_win_that_holds_stays_one() -> None:
    found = judged(Living({"a": 20.0, "b": 2.0}))
    assert (found.verdict, found.winner) == ("win", "b")
    assert found.audited is not None
    assert found.audited.compared == BATCH


def test_foreign_code_is_no_faster_than_calls_bear_out() -> None:
    found = judged(Living({"a": 20.0, "b": 4.0}))
    assert (found.verdict, found.winner) == ("win", "b")
    assert found.speedup is not None
    assert found.over_stock is not None
    assert found.over_stock.low == pytest.approx(found.speedup.low)
    assert found.us["b"] == pytest.approx(found.us["a"] / found.speedup.median)
    assert 4.5 < found.speedup.low < found.speedup.median < 5.5
    assert "on inputs that change (always the same: 10.0x)" in found.reason
    own = judged(Living({"a": 20.0, "b": 4.0}), foreign=False).speedup
    assert own is not None
    assert own.median == pytest.approx(10.0, rel=0.01)


def test_where_the_fastest_is_out_the_next_is_judged() -> None:
    found = judged(Living({"a": 20.0, "b": 2.0, "c": 10.0}, wrong=("b",)), rivals=("b", "c"))
    assert (found.verdict, found.winner) == ("win", "c")
    assert "b is out: wrong in 64 of 64 calls" in found.reason


def test_where_nobody_is_left_nobody_wins_and_no_speedup_is_told() -> None:
    found = judged(Living({"a": 20.0, "b": 19.0}))
    assert (found.verdict, found.winner, found.speedup) == ("no-winner", None, None)
    assert found.reason.startswith("b is out: its time does not hold")


def test_code_that_is_not_the_compilers_must_be_certain_to_hold() -> None:
    hidden = Living({"a": 20.0, "b": 2.0}, noise=3.0)
    assert judged(hidden).verdict == "inconclusive"
    assert judged(replace(hidden, seeds=[]), foreign=False).verdict == "win"


@pytest.mark.parametrize("foreign", [False, True])
def test_calls_of_code_that_is_not_foreign_leave_the_time_of_what_ships(foreign: bool) -> None:
    device, now = Living({"a": 20.0, "b": 2.0}), time.monotonic()
    assert judged(device, foreign=foreign, left=1e6).verdict == "win"
    assert device.until == (math.inf if foreign else pytest.approx(now + 1e6, abs=1e3))


def test_a_win_that_there_is_no_time_to_check_is_none() -> None:
    found = judged(Living({"a": 20.0, "b": 2.0}, late=True))
    assert (found.verdict, found.winner, found.out_of_time) == ("inconclusive", None, True)
