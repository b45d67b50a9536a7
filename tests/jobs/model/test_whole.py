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
from autotuner.iree.run import DispatchTime
from autotuner.jobs.model.contestant import Contestant
from autotuner.jobs.model.entries import Entry, KernelEntry
from autotuner.jobs.model.parts import unranked
from autotuner.jobs.model.tuner import put_together
from autotuner.jobs.model.whole import WholeModel, slower_kernels
from autotuner.programs.structure import STATISTICS, Shares
from autotuner.targets import PLAIN
from tests.support.bare_model import NOTHING, BareContext, kernel, module, race_of, statistics, tried
from tests.support.fake_tools import SPEC
from tests.support.models import fake_tools, run

PROBLEMS = [Gemm.parse(shape=shape, dtype="f32") for shape in ("64x128x96", "64x64x128", "64x32x64")]
PLAINLY = tried(PLAIN, 115_800.0)
KERNELS = Contestant("kernels", PLAIN, 3, module("kernels"), us=2.0, kernels=(kernel(PROBLEMS[0]),))


@pytest.mark.parametrize(("slower", "readings"), [(1.5, 3), (300.0, 1)])
def test_a_model_whose_call_is_a_measurement_by_itself_is_read_once(slower: float, readings: int) -> None:
    read: list[str] = []

    class Read(BareContext):
        def statistics(self, build: Compiled | None) -> Mapping[str, DispatchTime] | None:
            assert build is not None
            read.append(build.vmfb.name)
            return statistics({"dispatch": (slower if build.vmfb.name == "plain" else 1.0) * (1000.0 - len(read))})

    context = Read()
    whole = WholeModel(unranked(context, PLAINLY, NOTHING), PLAINLY, race_of(context), context.clock.end)
    before, after = whole._readings(PLAINLY.module, KERNELS.module)
    assert (read.count("plain"), read.count("kernels")) == (readings, 3)
    assert before is not None
    assert after is not None
    assert before.total > after.total > 0


def test_a_kernel_loses_where_its_dispatches_take_longer_than_the_compilers_for_the_same() -> None:
    kernels = [kernel(PROBLEMS[0], "a", "b", calls=2), kernel(PROBLEMS[1], "c"), kernel(PROBLEMS[2])]
    before = Shares({"a": 50.0, "b": 40.0, "c": 30.0}, STATISTICS)
    after = Shares({function_name(0): 80.0, function_name(1): 31.0, function_name(2): 999.0}, STATISTICS)
    assert slower_kernels(kernels, before, after) == {
        PROBLEMS[1].name: "within the model it takes 31.0 µs, the compiler's code 30.0 µs"
    }


@pytest.mark.parametrize(
    ("after", "slower", "faster"),
    [
        # Of a kernel for some calls of a dispatch only its part counts; packing that it makes needless counts for it.
        ({"b": 60.0}, {"a": 50.0, "b": 40.0}, {"a": 60.0, "b": 50.0}),
        ({"rest": 10.0}, {"a": 40.0, "rest": 10.0}, {"a": 40.0, "rest": 10.0, "pack": 15.0}),
    ],
)
def test_a_kernel_is_held_to_what_it_replaces(
    after: dict[str, float], slower: dict[str, float], faster: dict[str, float]
) -> None:
    kernels = [kernel(PROBLEMS[0], *(name for name in slower if name != "rest"))]
    with_it = Shares({function_name(0): 50.0, **after}, STATISTICS)
    assert slower_kernels(kernels, Shares(slower, STATISTICS), with_it)
    assert not slower_kernels(kernels, Shares(faster, STATISTICS), with_it)


@pytest.mark.parametrize(
    ("us", "made", "races"),
    [
        (1.0, ["tuned-plain-kernels"], "tuned-plain-kernels"),
        (3.0, ["tuned-plain-kernels"], "kernels"),  # as it stood by its defaults
        (None, ["tuned-plain-kernels", "tuned-plain"], "tuned-plain"),  # both together do not work
    ],
)
def test_entries_and_kernels_go_into_one_model_and_the_faster_of_it_and_the_first_races(
    us: float | None, made: list[str], races: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []

    def make(_: WholeModel, name: str, entries: Sequence[Entry], kernels: Sequence[KernelEntry] = ()) -> object:
        done.append(name)
        found = replace(KERNELS, id=name, entries=tuple(entries), us=us if kernels else 1.0)
        return found if us is not None or not kernels else None

    monkeypatch.setattr(WholeModel, "make", make)
    context = BareContext()
    whole = WholeModel(unranked(context, PLAINLY, NOTHING), PLAINLY, race_of(context), context.clock.end)
    (raced,) = put_together(whole, [cast(Entry, "an entry")], [kernel(PROBLEMS[0])], KERNELS)
    assert (done, raced.id) == (made, races)
    assert put_together(whole, [], KERNELS.kernels, KERNELS) == [KERNELS], "nothing new was found"


@pytest.mark.long
def test_without_statistics_dispatches_are_ranked_alone_and_nothing_tells_where_the_time_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ProcessDevice, "dispatch_times", lambda *_, **__: None)
    result = run("three", tmp_path, fake_tools(tmp_path, rules=[(SPEC, 50.0)]), model={"top": 1})
    assert result.verdict == "win"
    assert result.details.applied == 1
    assert result.details.ranked_by == "each dispatch timed alone"
    assert not result.details.time
