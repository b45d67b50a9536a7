"""What is put into the whole model: how it is compared with routes that were timed before, and what loses there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast

import pytest

from autotuner import Gemm
from autotuner.carriers.microkernel import function_name
from autotuner.iree.compile import Compiled
from autotuner.iree.run import DispatchTime
from autotuner.jobs.model.contestant import Contestant, Lineup
from autotuner.jobs.model.entries import Entry, KernelEntry
from autotuner.jobs.model.first_kernels import unranked
from autotuner.jobs.model.tuner import in_words, put_together
from autotuner.jobs.model.whole import WholeModel, slower_kernels
from autotuner.programs.structure import STATISTICS, Shares, repeated
from autotuner.space import Config
from autotuner.targets import PLAIN, Route
from tests.support.bare_model import NOTHING, BareContext, Scripted, kernel, module, race_of, statistics, tried

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
    ("compiles", "searched", "made"),
    [
        (2, True, ["tuned-plain", "tuned-plain-kernels"]),
        (1, True, ["tuned-plain-kernels"]),  # what gains most
        (1, False, ["tuned-plain", "tuned-plain-kernels"]),  # these stand there already
    ],
)
def test_where_two_compiles_do_not_fit_kernels_that_were_searched_come_before_entries(
    compiles: int, searched: bool, made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []

    def make(_: WholeModel, name: str, entries: Sequence[Entry], *__: object) -> Contestant:
        done.append(name)
        return replace(KERNELS, id=name, entries=tuple(entries), us=1.0)

    def has_time(_: WholeModel, seconds: float) -> bool:
        return seconds <= compiles * 30.0

    monkeypatch.setattr(WholeModel, "make", make)
    monkeypatch.setattr(WholeModel, "has_time", has_time)
    monkeypatch.setattr(WholeModel, "faster", lambda *_: False)
    monkeypatch.setattr(WholeModel, "timed", lambda _, made: made)
    context = BareContext()
    dispatches = unranked(context, PLAINLY, NOTHING)
    dispatches.chosen_kernels = [kernel(PROBLEMS[0])]
    other: KernelEntry = dispatches.chosen_kernels[0]
    other = replace(other, config=Config((("mr", 99),))) if searched else other
    first = replace(KERNELS, build=module("first", seconds=30.0), kernels=(other,), us=2.0)
    put_together(WholeModel(dispatches, PLAINLY, None), [cast(Entry, "an entry")], first)
    assert done == made


def test_the_time_is_told_in_minutes() -> None:
    assert [in_words(s) for s in (40, 60, 270)] == ["40 s", "1 min", "4 min 30 s"]
