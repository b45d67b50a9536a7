"""What a bundle comes to on a device, with one whose answers are written down: as in any run, and with no compiler."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest

from autotuner import Gemm
from autotuner.bundles.archive import digest
from autotuner.bundles.bench import Bench
from autotuner.bundles.documents import BASELINE, Entry, Report
from autotuner.devices.device import Computed, Device, Module, Timing
from autotuner.errors import DeviceError, WrongResultError
from autotuner.iree.run import Benchmark, Invocation
from autotuner.measure.check import Data
from autotuner.measure.clock import Clock
from autotuner.measure.judgement import Judgement
from autotuner.system.progress import Silent, Stop
from tests.bundles.documents import MANIFEST, plain
from tests.support.bare_device import BareDevice

PROBLEM = Gemm.parse(shape="8x8x8", dtype="f32")
SLOW = 30_000.0
"""µs: a call of the default lasts long enough by itself, nearly."""


@dataclass
class Scripted(BareDevice):
    """A device that stays open, on which candidates take as long as is written down and are wrong where it says so."""

    data: Data
    us: Mapping[str, float]
    wrong: Sequence[str] = ()
    timed: list[str] = field(default_factory=list)
    """Whose module."""
    before: Callable[[str], None] = lambda _: None

    @property
    def isolated(self) -> Device:
        return replace(self, fresh=True) if not self.fresh else self

    fresh: bool = False

    def check(self, vmfb: Path, invocations: Sequence[Invocation], *, timeout: float) -> tuple[Computed, ...]:
        del invocations, timeout
        off = 1.0 if vmfb.stem.partition("@")[0] in self.wrong else 0.0
        rights = [one.reference for expected in self.data.expected.values() for one in expected]
        return tuple(Computed(((right + off).astype(np.float32),)) for right in rights)

    def time(
        self, module: Module, benchmark: Benchmark, *, repetitions: int = 3, give_up_us: float = math.inf
    ) -> Timing:
        del benchmark, give_up_us
        name = module.vmfb.stem.partition("@")[0]
        self.before(name)
        self.timed.append(name)
        return Timing((self.us[name],) * repetitions)


def entry(name: str, kind: str = "codegen", route: str = "plain") -> Entry:
    modules = {repeat: digest(f"{name}@{repeat}".encode()) for repeat in (1, 8)}
    label = f"m={name}" if kind == "codegen" else f"route {route}"
    return Entry(name, kind, route, label, 100 * (kind == "codegen"), (), name, modules)  # type: ignore[arg-type]


TWO = (entry(BASELINE, BASELINE), entry("c0001"))
Sit = Callable[..., tuple[Bench, Scripted]]


@pytest.fixture
def sit(tmp_path: Path) -> Sit:
    data = Data.write(PROBLEM, tmp_path / "inputs", seed=0)

    def made(
        us: Mapping[str, float], *, wrong: Sequence[str] = (), entries: Sequence[Entry] = TWO, **changed: object
    ) -> tuple[Bench, Scripted]:
        device = Scripted(data, us, wrong)
        manifest = replace(MANIFEST, problem=PROBLEM.name, entries=tuple(entries), **changed)  # type: ignore[arg-type]
        modules = {key: tmp_path / f"{one.id}@{repeat}.vmfb" for one in entries for repeat, key in one.modules.items()}
        clock, stop = Clock(60.0), Stop()
        return Bench(manifest, modules, device, True, data, clock, stop, Silent()), device

    return made


def report(bench: Bench, judgement: Judgement) -> Report:
    return Report("0" * 64, "bare", {}, tuple(one.tried for one in bench.outcomes.values()), judgement, 1.0, ())


def test_what_is_faster_wins_and_all_of_it_travels(sit: Sit) -> None:
    bench, _ = sit({BASELINE: SLOW, "c0001": SLOW / 2})
    judgement = bench.judged()
    assert (judgement.verdict, judgement.winner) == ("win", "c0001")
    found = report(bench, replace(judgement, raced=None, confirmed=None))
    assert Report.read(plain(found), "result.zip") == found
    assert {taken.phase for taken in found.tried[1].taken} == {"screen", "confirm"}


def test_a_wrong_default_does_not_end_it_and_what_is_right_wins(sit: Sit) -> None:
    bench, _ = sit({BASELINE: SLOW, "c0001": SLOW / 2}, wrong=[BASELINE])
    judgement = bench.judged()
    assert (judgement.verdict, judgement.winner) == ("win", "c0001")
    found = report(bench, judgement)
    reason = bench.standing.explained(judgement.verdict, judgement.reason, judgement)
    assert reason.startswith("IREE's default gives wrong results for this problem (relative error ")
    assert "what wins is right, and faster than it" in reason
    assert bench.notes[0].startswith("IREE's default gives wrong results")
    (default,) = [one for one in Report.read(plain(found), "result.zip").tried if one.id == BASELINE]
    assert (default.check.failure, bool(default.taken)) == ("wrong-result", True)
    assert default.check.error == pytest.approx(found.tried[0].check.error)


def test_a_win_is_over_the_right_route_where_the_wrong_default_is_faster(sit: Sit) -> None:
    entries = (entry(BASELINE, BASELINE), entry("stock-1", "stock", "decomposed"), entry("c0001"))
    bench, _ = sit({BASELINE: SLOW / 4, "stock-1": SLOW, "c0001": SLOW / 2}, wrong=[BASELINE], entries=entries)
    judgement = bench.judged()
    assert (judgement.winner, judgement.stock) == ("c0001", "stock-1")
    assert judgement.speedup is not None
    assert judgement.speedup.median == pytest.approx(2.0)
    assert "faster than route decomposed" in bench.standing.explained("win", judgement.reason, judgement)


def test_where_nothing_is_right_it_is_an_error(sit: Sit) -> None:
    bench, _ = sit({BASELINE: SLOW}, wrong=[BASELINE, "c0001"])
    judgement = bench.judged()
    assert (judgement.verdict, judgement.reason) == ("no-winner", "the only candidate failed (wrong-result 1)")
    with pytest.raises(WrongResultError, match="and nothing right was found: the only candidate failed"):
        bench.standing.require_right(judgement.reason)


def test_who_ends_it_has_no_result(sit: Sit) -> None:
    entries = (entry(BASELINE, BASELINE), entry("c0001"), entry("c0002"))
    bench, device = sit({BASELINE: SLOW, "c0001": SLOW / 2}, entries=entries)
    device.before = lambda name: bench.stop.request() if name == "c0001" else None
    with pytest.raises(KeyboardInterrupt):
        bench.judged()


def test_a_default_that_does_not_run_is_told_with_what_to_do(sit: Sit) -> None:
    bench, device = sit({})
    device.check = lambda *_, **__: (Computed(failure="run-error", detail="no such device"),) * 2  # type: ignore[method-assign]
    with pytest.raises(DeviceError, match=r"does not run the baseline: no such device.*--list_devices"):
        bench.judged()


def test_a_bundle_of_the_default_alone_says_so(sit: Sit) -> None:
    bench, _ = sit({BASELINE: SLOW}, entries=TWO[:1])
    judgement = bench.judged()
    assert (judgement.verdict, judgement.reason) == ("no-winner", "the bundle has nothing but IREE's default")


def test_no_time_for_any_verdict_is_said_with_what_would_do(sit: Sit) -> None:
    bench, _ = sit({BASELINE: SLOW, "c0001": SLOW / 2})
    bench.clock.budget = 1e-6
    judgement = bench.judged()
    assert judgement.verdict == "inconclusive"
    assert "--budget" in judgement.reason
