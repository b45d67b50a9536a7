"""What is put into the whole model: how it is compared with routes that were timed before, and what loses there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from autotuner import Gemm
from autotuner.carriers.microkernel import function_name
from autotuner.devices.process import ProcessDevice
from autotuner.iree.compile import Compiled
from autotuner.iree.folder import MODEL
from autotuner.iree.run import DispatchTime
from autotuner.jobs.model.contestant import Contestant, Lineup
from autotuner.jobs.model.entries import Entry, KernelEntry
from autotuner.jobs.model.first_kernels import unranked
from autotuner.jobs.model.tuner import put_together
from autotuner.jobs.model.whole import WholeModel, slower_kernels
from autotuner.measure.contest import Turns
from autotuner.programs.structure import STATISTICS, Shares, repeated
from autotuner.targets import PLAIN, Route
from tests.support.bare_model import NOTHING, BareContext, Scripted, kernel, module, race_of, statistics, tried
from tests.support.fake_tools import SPEC
from tests.support.models import fake_tools, run
from tests.support.patience import ENOUGH

PROBLEMS = [Gemm.parse(shape=shape, dtype="f32") for shape in ("64x128x96", "64x64x128", "64x32x64")]
PLAINLY = tried(PLAIN, 115_800.0)
BEST = tried(Route("nchwc+data-tiling"), 15_758.0)
KERNELS = Contestant("kernels", PLAIN, 3, module("kernels"), on=PLAINLY, kernels=(kernel(PROBLEMS[0]),))


def timed(us: dict[str, list[float]], *routes: Contestant) -> Contestant:
    """The model with kernels, where modules take these times one after the other; infinity is a failure."""
    context = BareContext(device=Scripted(us))
    return WholeModel(unranked(context, PLAINLY, NOTHING), PLAINLY, race_of(context, *routes)).timed(KERNELS)


def test_kernels_are_compared_with_the_best_route_as_it_is_now_and_not_as_it_was_on_a_quieter_machine() -> None:
    """On a machine that had become busy they took 32 ms, the best route 44 ms; and it had been timed at 15.8 ms."""
    us = timed({"kernels": [32_000.0], BEST.route.name: [44_000.0]}, PLAINLY, BEST).us
    assert us is not None
    assert round(us) == round(15_758.0 * 32 / 44)


def test_kernels_that_cannot_be_timed_have_no_time() -> None:
    assert timed({"kernels": [float("inf")], BEST.route.name: [1.0]}, PLAINLY, BEST).us is None


@pytest.mark.parametrize(("slower", "readings"), [(1.5, 3), (300.0, 1)])
def test_a_model_whose_call_is_a_measurement_by_itself_is_read_once(slower: float, readings: int) -> None:
    read: list[str] = []

    class Read(BareContext):
        def statistics(self, build: Compiled | None) -> Mapping[str, DispatchTime] | None:
            assert build is not None
            read.append(build.vmfb.name)
            return statistics({"dispatch": (slower if build.vmfb.name == "plain" else 1.0) * (1000.0 - len(read))})

    context = Read()
    whole = WholeModel(unranked(context, PLAINLY, NOTHING), PLAINLY, race_of(context))
    before, after = whole._readings(PLAINLY.module, KERNELS.module)
    assert (read.count("plain"), read.count("kernels")) == (readings, 3)
    assert before is not None
    assert after is not None
    assert before.total > after.total > 0


@pytest.mark.parametrize(
    ("entries_us", "kernels_us", "favourite"),
    [
        (None, 64.0, "kernels"),  # untimed: about as fast as its route, and others are faster
        (None, None, "tuned"),  # right before its route, where that is the best that is known
        (50.0, 64.0, "tuned"),
    ],
)
def test_a_model_that_was_not_timed_is_no_favourite_before_a_faster_one(
    entries_us: float | None, kernels_us: float | None, favourite: str
) -> None:
    plain = replace(PLAINLY, us=400.0)
    entries = replace(KERNELS, on=plain, id="tuned", us=entries_us)
    kernels = [replace(KERNELS, on=plain, us=kernels_us)] if kernels_us else []
    assert [one.id for one in Lineup.of([plain], [entries, *kernels]).racing][:2] == ["baseline", favourite]


def test_a_kernel_loses_where_its_dispatches_take_longer_than_the_compilers_for_the_same() -> None:
    kernels = [kernel(PROBLEMS[0], "a", "b", calls=2), kernel(PROBLEMS[1], "c"), kernel(PROBLEMS[2])]
    before = Shares({"a": 50.0, "b": 40.0, "c": 30.0}, STATISTICS)
    after = Shares({function_name(0): 80.0, function_name(1): 31.0, function_name(2): 999.0}, STATISTICS)
    assert slower_kernels(kernels, before, after) == {
        PROBLEMS[1].name: "within the model it takes 31.0 µs, the compiler's code 30.0 µs"
    }


def test_a_kernel_for_some_calls_of_a_dispatch_is_held_to_its_part_of_the_time() -> None:
    kernels = [kernel(PROBLEMS[0], "a", "b")]
    after = Shares({function_name(0): 50.0, "b": 60.0}, STATISTICS)
    assert slower_kernels(kernels, Shares({"a": 50.0, "b": 40.0}, STATISTICS), after)
    assert not slower_kernels(kernels, Shares({"a": 60.0, "b": 50.0}, STATISTICS), after)


def test_packing_that_a_kernel_makes_needless_counts_for_it() -> None:
    kernels = [kernel(PROBLEMS[0], "a")]
    after = Shares({function_name(0): 50.0, "rest": 10.0}, STATISTICS)
    assert slower_kernels(kernels, Shares({"a": 40.0, "rest": 10.0}, STATISTICS), after)
    assert not slower_kernels(kernels, Shares({"a": 40.0, "rest": 10.0, "pack": 15.0}, STATISTICS), after)


def test_of_several_readings_of_a_dispatch_the_least_counts() -> None:
    assert repeated([Shares({"a": 9.0}, STATISTICS), Shares({"a": 3.0}, STATISTICS)]).us == {"a": 3.0}


@pytest.mark.parametrize(
    ("works", "faster", "made", "races"),
    [
        (True, False, ["tuned-plain-kernels"], "tuned-plain-kernels"),
        (True, True, ["tuned-plain-kernels"], "kernels"),  # as it stood by its defaults
        (False, False, ["tuned-plain-kernels", "tuned-plain"], "tuned-plain"),
    ],
)
def test_entries_and_kernels_go_into_one_model_and_the_faster_of_it_and_the_first_races(
    works: bool, faster: bool, made: list[str], races: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []

    def make(_: WholeModel, name: str, entries: Sequence[Entry], kernels: Sequence[KernelEntry] = ()) -> object:
        done.append(name)
        return replace(KERNELS, id=name, entries=tuple(entries), us=1.0) if works or not kernels else None

    monkeypatch.setattr(WholeModel, "make", make)
    monkeypatch.setattr(WholeModel, "faster", lambda *_: faster)
    monkeypatch.setattr(WholeModel, "timed", lambda _, made: made)
    whole = WholeModel(unranked(BareContext(), PLAINLY, NOTHING), PLAINLY, None)
    (raced,) = put_together(whole, [cast(Entry, "an entry")], [kernel(PROBLEMS[0])], KERNELS)
    assert (done, raced.id) == (made, races)
    assert put_together(whole, [], KERNELS.kernels, KERNELS) == [KERNELS], "nothing new was found"


# --- what loses, where the runtime keeps no statistics --------------------------------------------------------------

US = 1000.0
"""Of the untuned model."""


def losers(monkeypatch: pytest.MonkeyPatch, saves: dict[str, float], *, most: int = 99) -> tuple[list[str], int]:
    """Of kernels that save so many µs of the model, those that lose; and how many models were compiled for that."""
    members = tuple(replace(kernel(PROBLEMS[0]), label=label, share=0.1, gain=0.5) for label in saves)
    built: list[int] = []

    def compiled(some: Sequence[KernelEntry]) -> Compiled:
        return module(str(US - sum(saves[one.label] for one in some)))

    def build(_: WholeModel, __: object, some: Sequence[KernelEntry], *___: object) -> Contestant:
        built.append(len(some))
        return replace(KERNELS, kernels=tuple(some), build=compiled(some))

    def in_turns(_: WholeModel, one: Compiled, other: Compiled, turns: int) -> Turns:
        rows = {"one": float(one.vmfb.name), "other": float(other.vmfb.name)}
        return Turns({name: tuple(us * (1 + 0.001 * (n % 3)) for n in range(turns)) for name, us in rows.items()})

    monkeypatch.setattr(WholeModel, "_build", build)
    monkeypatch.setattr(WholeModel, "_in_turns", in_turns)
    monkeypatch.setattr(WholeModel, "_readings", lambda *_: (None, None))
    monkeypatch.setattr(WholeModel, "has_time", lambda *_: len(built) < most)
    context, on = BareContext(), replace(PLAINLY, build=compiled(()))
    whole = WholeModel(unranked(context, on, NOTHING), on, race_of(context))
    return sorted(whole._losers(replace(KERNELS, kernels=members, build=compiled(members)))), len(built)


def test_a_model_that_gains_what_its_entries_gained_alone_is_not_looked_into(monkeypatch: pytest.MonkeyPatch) -> None:
    assert losers(monkeypatch, dict.fromkeys("abcdefgh", 45.0)) == ([], 0)


@pytest.mark.parametrize("loser", "aceh")
def test_the_one_that_loses_is_found_in_few_compiles(loser: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found, built = losers(monkeypatch, {**dict.fromkeys("abcdefgh", 20.0), loser: -100.0})
    assert found == [loser]
    assert built <= 6


def test_two_that_lose_are_found_and_what_merely_gains_less_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    assert losers(monkeypatch, {**dict.fromkeys("abcdefgh", 10.0), "b": -90.0, "g": -80.0})[0] == ["b", "g"]
    assert losers(monkeypatch, dict.fromkeys("abcd", 5.0))[0] == []
    assert losers(monkeypatch, {**dict.fromkeys("abcdefgh", 10.0), "b": -90.0}, most=1) == ([], 1), "no time for more"


@pytest.mark.long
def test_without_statistics_the_entry_that_loses_inside_the_model_is_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The benchmark says that the model takes twice as long with an entry that is twice as fast alone."""
    monkeypatch.setattr(ProcessDevice, "dispatch_times", lambda *_, **__: None)
    fake = fake_tools(tmp_path, rules=[(f"*{MODEL}*matmul_64x32x64*", 200.0), (SPEC, 50.0)])
    result = run("three", tmp_path, fake, budget=ENOUGH)  # it ends when its trials are used up
    assert result.verdict == "win"
    rows = {row.label: row for row in result.details.rows}
    assert rows["matmul_64x32x64_f32"].state == "dropped"
    assert "without it" in rows["matmul_64x32x64_f32"].reason
    assert len(result.details.entries) == result.details.applied == 2
    assert result.details.ranked_by == "each dispatch timed alone"
    assert not result.details.time, "nothing tells where the time goes"
