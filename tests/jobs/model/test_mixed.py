"""Microkernels that stand in a model by their defaults: which of them stay, and which lose there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from autotuner import Gemm
from autotuner.carriers.microkernel import function_name
from autotuner.errors import OutOfTimeError
from autotuner.jobs.model import mixed
from autotuner.jobs.model.context import Context
from autotuner.jobs.model.kernels import KernelEntry, KernelRow, KernelSearch, says_something
from autotuner.jobs.model.mixed import KernelMix, kernels_first, put_together, slower_inside
from autotuner.jobs.model.places import Library, Place
from autotuner.microkernels.instance import shipped_folder
from autotuner.microkernels.loader import FILE, load
from autotuner.microkernels.variants import Variants
from autotuner.patterns.forms import Forms
from autotuner.programs.flow import Group
from autotuner.programs.model import Model
from autotuner.programs.shares import STATISTICS, Shares, repeated
from autotuner.programs.structure import ModelStructure
from autotuner.space import Config
from autotuner.tuning.result import Counts
from autotuner.tuning.together import Part
from tests.support.fake_tools import ONE_ROUTE

PROBLEMS = [Gemm.parse(shape=shape, dtype="f32") for shape in ("64x128x96", "64x64x128", "64x32x64")]
SGEMM = load(shipped_folder() / "sgemm_c" / FILE)


def search(tmp_path: Path, *, top: int | None = None) -> KernelSearch:
    """Over three products; with --top the last is left out, without it because of its share."""
    session = SimpleNamespace(workspace=SimpleNamespace(root=tmp_path), device="none", chip="x86_64")
    model, options = SimpleNamespace(top=top), SimpleNamespace(microkernels=())
    context = SimpleNamespace(target=ONE_ROUTE, session=session, model=model, options=options, timed=True)
    found = KernelSearch(cast(Context, context), ONE_ROUTE)
    for problem in PROBLEMS:
        place = Place(problem, Forms(()), 1, ("sgemm_c",), constant=True)
        state = "left-out" if problem == PROBLEMS[-1] else "ranked"
        found.rows[problem.name] = KernelRow(place, state=state)
    return found


def entry(problem: Gemm, calls: int, *exports: str) -> KernelEntry:
    """A kernel at a place whose dispatches have these names."""
    group = SimpleNamespace(pieces=[SimpleNamespace(export=name) for name in exports], calls=len(exports) or 1)
    place = Place(problem, Forms(()), calls, ("sgemm_c",), True, cast(Group, group) if exports else None)
    variants = Variants.of(SGEMM, problem, "x86_64", workspace=Path(), first={})
    return KernelEntry(problem.name, place, 0.3, 0.3, variants, variants.default())


def test_every_place_has_a_kernel_by_its_defaults_also_those_that_are_not_searched(tmp_path: Path) -> None:
    found = search(tmp_path).defaults()
    assert [one.label for one in found] == [problem.name for problem in PROBLEMS]
    assert {one.config.as_dict()["packed"] for one in found} == {1}, "the weights are constants"
    assert len(search(tmp_path, top=2).defaults()) == 2


def test_a_kernel_that_stands_in_the_model_stays_where_there_is_no_time_for_its_search(tmp_path: Path) -> None:
    found = search(tmp_path)
    standing = found.defaults()[:1]
    assert found.decide({}, standing) == standing
    row = found.rows[PROBLEMS[0].name]
    assert (row.state, row.kernel, row.reason) == ("taken", "sgemm_c", "by its defaults")
    assert found.rows[PROBLEMS[1].name].state == "ranked"


def test_a_kernel_that_there_was_no_time_for_says_it_in_the_words_of_dispatches(tmp_path: Path) -> None:
    found = search(tmp_path)
    found.decide({}, found.defaults()[:1])
    found.out_of_time(12.4)
    rows = [found.rows[problem.name] for problem in PROBLEMS]
    assert [row.state for row in rows] == ["taken", "left-out", "left-out"]
    assert rows[1].reason == "no time for it: all dispatches together have 12 s (--budget)"
    assert rows[2].reason == "", "it was not wanted"
    late = search(tmp_path)
    late.seconds = 12.4
    for problem in PROBLEMS[:2]:
        late.parts[problem.name] = cast(Part, SimpleNamespace(found=None, error=None))
    late.decide({}, late.defaults()[:1])
    assert late.rows[PROBLEMS[0].name].reason == f"by its defaults: {rows[1].reason}"
    assert late.rows[PROBLEMS[1].name].reason == rows[1].reason


def test_a_kernel_loses_where_its_dispatches_take_longer_than_the_compilers_for_the_same() -> None:
    kernels = [entry(PROBLEMS[0], 2, "a", "b"), entry(PROBLEMS[1], 1, "c"), entry(PROBLEMS[2], 1)]
    before = Shares({"a": 50.0, "b": 40.0, "c": 30.0}, STATISTICS)
    after = Shares({function_name(0): 80.0, function_name(1): 31.0, function_name(2): 999.0}, STATISTICS)
    assert slower_inside(kernels, before, after) == {
        PROBLEMS[1].name: "within the model it takes 31.0 µs, the compiler's code 30.0 µs"
    }


def test_a_kernel_for_some_calls_of_a_dispatch_is_held_to_its_part_of_the_time() -> None:
    kernels = [entry(PROBLEMS[0], 1, "a", "b")]
    after = Shares({function_name(0): 50.0, "b": 60.0}, STATISTICS)
    assert slower_inside(kernels, Shares({"a": 50.0, "b": 40.0}, STATISTICS), after)
    assert not slower_inside(kernels, Shares({"a": 60.0, "b": 50.0}, STATISTICS), after)


def test_packing_that_a_kernel_makes_needless_counts_for_it() -> None:
    kernels = [entry(PROBLEMS[0], 1, "a")]
    after = Shares({function_name(0): 50.0, "rest": 10.0}, STATISTICS)
    assert slower_inside(kernels, Shares({"a": 40.0, "rest": 10.0}, STATISTICS), after)
    assert not slower_inside(kernels, Shares({"a": 40.0, "rest": 10.0, "pack": 15.0}, STATISTICS), after)


def test_of_several_readings_of_a_dispatch_the_least_counts() -> None:
    assert repeated([Shares({"a": 9.0}, STATISTICS), Shares({"a": 3.0}, STATISTICS)]).us == {"a": 3.0}


def test_a_new_ranking_keeps_what_was_dropped_and_asks_again_what_is_wanted(tmp_path: Path) -> None:
    found = search(tmp_path)
    found.context = cast(Context, SimpleNamespace(model=Model(Path("m.mlir"), min_share=5.0)))
    first, second, third = (problem.name for problem in PROBLEMS)
    found.set_row(first, state="dropped", reason="it lost")
    flops = {problem.name: float(problem.flops) for problem in PROBLEMS}
    structure = cast(ModelStructure, SimpleNamespace(flops=sum(flops.values())))
    found.rank(structure, Shares({}, STATISTICS))
    assert [(label, row.state) for label, row in found.rows.items()] == [
        (first, "dropped"),
        (second, "ranked"),
        (third, "ranked"),
    ]
    structure = cast(ModelStructure, SimpleNamespace(flops=100 * flops[second]))
    found.rank(structure, Shares({}, STATISTICS))
    assert [found.rows[label].state for label in (first, second, third)] == ["dropped", "left-out", "left-out"]


def test_a_search_whose_time_was_up_before_its_first_timing_says_nothing_against_a_kernel() -> None:
    """Its best is the default then; the kernel that stands in the model by its defaults stays there."""
    assert not says_something("inconclusive", Counts(timed=1))
    assert says_something("inconclusive", Counts(timed=3, rivals=2))
    assert says_something("no-winner", Counts())


def judged(monkeypatch: pytest.MonkeyPatch, times: dict[bool, float | None], *, timed: bool = True) -> tuple[Any, Any]:
    """Which model stays, and whose search, where kernels with norms and without take so long; None: it is wrong."""
    said: list[str] = []
    clock = SimpleNamespace(at=lambda seconds: seconds, budget=1e12)
    context = SimpleNamespace(clock=clock, timed=timed, note=said.append)
    dispatches = SimpleNamespace(context=context, kernels=None)
    whole: Any = SimpleNamespace(dispatches=dispatches, tried=SimpleNamespace(route=SimpleNamespace(name="plain")))
    whole.faster = lambda one, other: min(one, other, key=lambda build: build.us)
    whole.timed = lambda tuned: tuned

    def by_defaults(_: object, library: Library, name: str) -> tuple[bool, Any]:
        assert name == ("kernels-plain" if library.norms else "kernels-plain-norms-apart")
        if library.norms not in times:
            raise OutOfTimeError("no time")
        dispatches.kernels, us = library.norms, times[library.norms]
        build = SimpleNamespace(us=us)
        return library.norms, None if us is None else SimpleNamespace(build=build, normed=library.norms)

    monkeypatch.setattr(mixed, "_by_defaults", by_defaults)
    library = Library(cast(Context, context), (), "sm_90", "")
    made: Any = kernels_first(whole, library, kept=0.0)
    assert bool(said) == (False not in times and timed)
    return None if made is None else made.normed, dispatches.kernels


def test_norms_go_with_their_products_only_where_the_model_is_faster_so(monkeypatch: pytest.MonkeyPatch) -> None:
    assert judged(monkeypatch, {True: 100.0, False: 110.0}) == (True, True)
    assert judged(monkeypatch, {True: 110.0, False: 100.0}) == (False, False)
    assert judged(monkeypatch, {True: None, False: 100.0}) == (False, False), "the model was wrong with them"
    assert judged(monkeypatch, {True: 100.0, False: None}) == (True, True), "it was wrong without"
    assert judged(monkeypatch, {True: 100.0}) == (True, True), "no time for the other"
    assert judged(monkeypatch, {True: 100.0}, timed=False) == (True, True), "no device tells"


@pytest.mark.parametrize(
    ("compiles", "searched", "made"),
    [
        (2, True, ["entries", "kernels beside entries"]),
        (1, True, ["kernels"]),  # what gains most
        (1, False, ["entries", "kernels beside entries"]),  # these stand there already
    ],
)
def test_where_two_compiles_do_not_fit_kernels_that_were_searched_come_before_entries(
    compiles: int, searched: bool, made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []

    def tuned(_: object) -> Any:
        done.append("entries")
        return SimpleNamespace(us=1.0)

    kernels = [entry(PROBLEMS[0], 1)]
    other = replace(kernels[0], config=Config((("mr", 99),))) if searched else kernels[0]
    clock = SimpleNamespace(at=lambda seconds: seconds, budget=1e12)
    context = SimpleNamespace(clock=clock, note=lambda _: None)
    whole: Any = SimpleNamespace(
        dispatches=SimpleNamespace(context=context, chosen_kernels=kernels),
        tried=SimpleNamespace(route=SimpleNamespace(name="plain")),
        racing=0.0,
        has_time=lambda seconds: seconds <= compiles * 30.0,
        make=tuned,
        faster=lambda _, other: other,
    )

    def make(_: KernelMix, __: object, beside: object) -> Any:
        done.append("kernels beside entries" if beside else "kernels")
        return SimpleNamespace(build=None, us=1.0)

    monkeypatch.setattr(KernelMix, "make", make)
    first: Any = SimpleNamespace(build=SimpleNamespace(seconds=30.0), kernels=[other], us=2.0)
    put_together(whole, [cast(Any, "an entry")], first)
    assert done == made
