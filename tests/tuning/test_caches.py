"""Warm and cold in whole runs: real compiles and checks, on a device whose times are chosen."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from rich.console import Console

from autotuner import Result
from autotuner.build import Compiled
from autotuner.cli.printer import Printer, print_result
from autotuner.devices.device import CallPairs, Computed, Device, DeviceState, Module, Timing
from autotuner.devices.process import ProcessDevice
from autotuner.errors import OutOfTimeError
from autotuner.iree.benchmark import Benchmark
from autotuner.iree.run import Invocation
from autotuner.specfiles.entries import read
from autotuner.store.store import Store
from autotuner.system.execution import done
from autotuner.tuning import session
from autotuner.tuning.cache_timer import NO_TIME, NOT_EXCEEDED, ROUNDS
from autotuner.tuning.caches import Caches, Pair
from autotuner.tuning.result import read_result
from tests.support.fake_tools import FakeTools, run

WARM = 100_000.0
"""µs of the default: so long that dispatches need not be repeated."""


@dataclass
class Pretended:
    """A device that stays open, whose times are chosen: the default's is known, all others take `warm` of it."""

    alone: Device
    warm: float = 0.5
    cold: float = 0.6
    """What the others take with a cold cache, in parts of the default's time, which is then a tenth longer."""
    exceeds: bool = True
    late: bool = False
    isolated: Device = field(init=False)
    taken: list[str] = field(default_factory=list)
    """In which state of the cache each timing was taken."""
    _default: str = ""

    state: DeviceState = "sustained"
    starts_quickly = True
    invocation_us = 1.0

    def __post_init__(self) -> None:
        self.isolated = _Fresh(self)

    @property
    def uri(self) -> str:
        return self.alone.uri

    def prepare(self, vmfb: Path) -> Future[None]:
        del vmfb
        return done(None)

    def renew(self) -> None:
        """Nothing stays."""

    def check(self, vmfb: Path, invocations: Sequence[Invocation], *, timeout: float) -> tuple[Computed, ...]:
        return self.alone.check(vmfb, invocations, timeout=timeout)

    def time(self, module: Module, benchmark: Benchmark, *, repetitions: int = 3) -> Timing:
        self.taken.append(benchmark.cache)
        part = self.cold if benchmark.cache == "cold" else self.warm
        return Timing((WARM * (1.0 if self._is_default(module) else part),) * repetitions)

    def call_pairs(self, module: Module, benchmark: Benchmark, *, count: int) -> CallPairs | None:
        assert (module.repeat, benchmark.cache) == (1, "warm")
        if self.late:
            raise OutOfTimeError
        warm = 7.0 + WARM
        default = self._is_default(module)
        cold = warm + (0.1 * WARM if default else (1.1 * self.cold - self.warm) * WARM)
        return CallPairs((cold,) * count, (warm,) * count, exceeds=self.exceeds)

    def dispatch_us(self, vmfb: Path, invocation: Invocation, *, timeout: float) -> Mapping[str, float] | None:
        del vmfb, invocation, timeout
        return None

    def _is_default(self, module: Module) -> bool:
        """What is timed first."""
        assert isinstance(module, Compiled)
        self._default = self._default or module.binary
        return module.binary == self._default


@dataclass
class _Fresh:
    """The same in processes: what is confirmed there is told apart."""

    device: Pretended
    state: DeviceState = "process"
    starts_quickly = True
    invocation_us = 1.0

    @property
    def uri(self) -> str:
        return self.device.uri

    @property
    def isolated(self) -> Device:
        return self

    def prepare(self, vmfb: Path) -> Future[None]:
        del vmfb
        return done(None)

    def renew(self) -> None:
        """Nothing stays."""

    def check(self, vmfb: Path, invocations: Sequence[Invocation], *, timeout: float) -> tuple[Computed, ...]:
        return self.device.check(vmfb, invocations, timeout=timeout)

    def time(self, module: Module, benchmark: Benchmark, *, repetitions: int = 3) -> Timing:
        assert benchmark.cache == "warm"
        timing = self.device.time(module, benchmark, repetitions=repetitions)
        self.device.taken[-1] = "fresh"
        return timing

    def call_pairs(self, module: Module, benchmark: Benchmark, *, count: int) -> CallPairs | None:
        raise NotImplementedError

    def dispatch_us(self, vmfb: Path, invocation: Invocation, *, timeout: float) -> Mapping[str, float] | None:
        raise NotImplementedError


Tune = Callable[..., tuple[Result, Pretended]]


@pytest.fixture
def tune(fake: Callable[..., FakeTools], workspace: Path, monkeypatch: pytest.MonkeyPatch) -> Tune:
    def tuned(*, cache: str = "both", trials: int = 2, **settings: object) -> tuple[Result, Pretended]:
        made: list[Pretended] = []

        @contextmanager
        def opened(alone: ProcessDevice, *, isolate: bool, state: DeviceState) -> Iterator[Device]:
            assert (isolate, state) == (False, "sustained")
            made.append(Pretended(alone, **settings))  # type: ignore[arg-type]
            yield made[0]

        monkeypatch.setattr(session, "open_device", opened)
        return run(fake(), workspace, cache=cache, trials=trials), made[0]

    return tuned


def printed(result: Result) -> str:
    console = Console(width=200, no_color=True)
    with console.capture() as capture:
        print_result(result, Printer(console))
    return capture.get()


def test_a_winner_is_timed_both_ways_and_all_that_is_shown_says_so(tune: Tune, workspace: Path) -> None:
    result, device = tune()
    assert result.verdict == "win"
    document = result.to_json()
    assert document["timing"] == {"state": "sustained", "cache": "warm"}
    assert document["warm"] == {"baseline_us": pytest.approx(WARM), "best_us": pytest.approx(0.5 * WARM)}
    assert document["cold"] == {"baseline_us": pytest.approx(1.1 * WARM), "best_us": pytest.approx(0.66 * WARM)}
    assert set(device.taken) == {"warm", "fresh"}, "single calls with a cold cache are no timings of the search"
    words = "default 110000.00 µs, best 66000.00 µs (1.667x); warm in the same turns: default 100000.00 µs, best 50000"
    assert f"cold cache {words}" in printed(result)
    assert result.spec is not None
    assert f"// cold cache: {words}" in result.spec.read_text()
    (entry,) = read(result.spec).entries
    assert entry.provenance is not None
    assert entry.provenance.cold_us == pytest.approx(0.66 * WARM)
    assert entry.provenance.baseline_cold_us == pytest.approx(1.1 * WARM)
    assert not [note for note in result.notes if "cold" in note]
    with Store.open(None, workspace=workspace) as store:
        cold = [timing for timing in store.timings(result.run) if timing.phase == "cold"]
    assert len(cold) == 2 * ROUNDS
    assert all(timing.conditions is not None and timing.conditions.cache == "cold" for timing in cold)
    again = read_result(document, workspace=workspace, storage=None)
    assert (again.caches, again.timing) == (result.caches, result.timing)


def test_a_winner_that_loses_with_a_cold_cache_is_told_of(tune: Tune) -> None:
    result, _ = tune(cold=1.2, exceeds=False)
    assert result.verdict == "win"
    (note,) = [note for note in result.notes if "disagree" in note]
    assert note == "warm and cold disagree: with a cold cache the winner is slower than the default, 0.833x"
    assert NOT_EXCEEDED in result.notes


def test_a_cold_search_compares_single_calls_and_confirms_on_the_same_device(tune: Tune) -> None:
    result, device = tune(cache="cold", warm=1.5)
    assert result.verdict == "win"
    document = result.to_json()
    assert document["timing"] == {"state": "sustained", "cache": "cold"}
    assert (document["baseline"]["us"], document["best"]["us"]) == (WARM, 0.6 * WARM)
    assert "fresh" not in device.taken
    first_cold = device.taken.index("cold")
    assert set(device.taken[first_cold : -2 * ROUNDS]) == {"cold"}, "nothing warm is compared with it"
    assert document["warm"]["best_us"] == pytest.approx(1.5 * WARM)
    assert document["cold"]["best_us"] == pytest.approx(0.66 * WARM)
    assert "--cache cold" in (result.spec.read_text() if result.spec else "")
    assert "warm and cold disagree: with a warm cache the winner is slower than the default, 0.667x" in result.notes


def test_a_warm_search_alone_says_nothing_of_a_cold_cache(tune: Tune) -> None:
    result, _ = tune(cache="warm", trials=1)
    document = result.to_json()
    assert (document["warm"], document["cold"]) == (None, None)
    assert "cold" not in printed(result)


def test_where_no_time_is_left_it_is_said(tune: Tune) -> None:
    result, _ = tune(late=True, trials=1)
    assert result.caches is None
    assert NO_TIME in result.notes


@pytest.mark.parametrize(
    ("warm", "cold", "won", "says"),
    [
        ((10, 5), (12, 13), True, "with a cold cache the winner is slower than the default, 0.923x"),
        ((10, 12), (12, 6), True, "with a warm cache the winner is slower than the default, 0.833x"),
        ((10, 5), (12, 6), True, None),
        ((10, 10), (12, 10), False, "with a cold cache the best beats the default, 1.200x"),
        ((10, 8), (12, 12), False, "with a warm cache the best beats the default, 1.250x"),
        ((10, 10), (12, 11.9), False, None),
        ((10, None), (12, None), False, None),
    ],
)
def test_disagreement(
    warm: tuple[float, float | None], cold: tuple[float, float | None], won: bool, says: str | None
) -> None:
    found = Caches(Pair(*warm), Pair(*cold)).disagreement(won=won)
    assert found == (f"warm and cold disagree: {says}" if says else None)


def test_a_default_alone_is_told_without_a_best() -> None:
    assert Caches(Pair(10, None), Pair(12, None)).words() == (
        "default 12.00 µs; warm in the same turns: default 10.00 µs"
    )
