"""Microkernels in a model's search: compiles, kernels and outputs are real, times are chosen."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from autotuner import Gemm
from autotuner.carriers.calls import preprocess
from autotuner.carriers.flagfile import KERNELS
from autotuner.carriers.microkernel import function_name
from autotuner.devices.process import ProcessDevice
from autotuner.iree.run import DispatchTime
from autotuner.iree.tools import Tools
from autotuner.jobs.model import kernels as kernels_module
from autotuner.jobs.model.contestant import Contestant
from autotuner.jobs.model.entries import KernelEntry, Library, Place
from autotuner.jobs.model.kernels import KernelTrials, kernel_routes, worth_tuning
from autotuner.jobs.model.parts import PartSearch
from autotuner.jobs.model.result import ModelResult
from autotuner.jobs.model.whole import WholeModel
from autotuner.microkernels.variants import Kernel
from autotuner.patterns.forms import Forms
from autotuner.programs.model import Model
from autotuner.programs.structure import STATISTICS, ModelStructure, Shares
from autotuner.specfiles.check import check
from autotuner.specfiles.entries import read
from autotuner.targets import PLAIN, Route, Target
from autotuner.tuning.options import Options
from autotuner.tuning.plan import Plan
from autotuner.tuning.printer import Printer
from autotuner.tuning.result import Counts, FinalVerdict
from autotuner.tuning.single import Found
from tests.support.bare_model import NOTHING, BareContext, kernel, race_of, tried
from tests.support.clocks import Simulated
from tests.support.fake_tools import ONE_ROUTE, SPEC
from tests.support.models import EXAMPLES, fake_tools, iree_compile, run
from tests.tuning.test_result import RESULT

CALLED = "*preprocessing-transform-spec-filename*"
SGEMM = (Kernel("sgemm_c"),)


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory, warm: Path) -> ModelResult:
    """Of two products the kernel is faster than the compiler's code for the first, and slower in the model for the
    second."""
    folder = tmp_path_factory.mktemp("mixed")
    rules = [(f"{SPEC}{CALLED}", 5.0), (CALLED, 25.0), (SPEC, 50.0)]

    def statistics(_device: object, vmfb: Path, *_: object, **__: object) -> dict[str, DispatchTime]:
        kernels = {function_name(0): 5.0, function_name(1): 13.0}
        sizes = {"0_matmul_64x128x96": 10.0, "1_matmul_64x64x128": 9.0, "2_matmul_64x32x64": 3.0}
        default = {f"main_dispatch_{name}_f32": us for name, us in sizes.items()}
        return {name: DispatchTime(us) for name, us in (kernels if "kernels" in str(vmfb) else default).items()}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ProcessDevice, "dispatch_times", statistics)
        patch.setenv("AUTOTUNE_CACHE_DIR", str(warm / "cache"))
        fake = fake_tools(folder, rules=rules)
        return run("three", folder, fake, microkernels=SGEMM, budget=900.0, model={"top": 2})


def test_each_dispatch_takes_the_faster_of_kernel_and_codegen(mixed: ModelResult) -> None:
    assert mixed.verdict == "win"
    document = json.loads(json.dumps(mixed.to_json()))
    places = {place["problem"].partition("_f32_")[0]: place for place in document["microkernels"]["places"]}
    first, second, third = (places[f"gemm_{sizes}"] for sizes in ("64x128x96", "64x64x128", "64x32x64"))
    assert (first["state"], first["kernel"], first["applied"]) == ("taken", "sgemm_c", 1)
    assert first["problem"].endswith("_nn_bias_relu")
    assert first["us"] < first["codegen_us"]
    assert (second["state"], second["kernel"], second["applied"]) == ("dropped", "sgemm_c", 0)
    assert second["reason"].startswith("within the model it takes 13.0 µs, the compiler's code ")
    assert (third["state"], third["applied"]) == ("dropped", 0), "it moved up where the second was dropped"
    codes = {row["name"]: row["code"] for row in document["dispatches"]}
    wanted = {"64x128x96": "sgemm_c", "64x64x128": "codegen", "64x32x64": "default"}
    assert codes == {f"matmul_{sizes}_f32": code for sizes, code in wanted.items()}
    assert document["entries"]["carriers"] == {"spec": 1}
    assert document["error"] < 1e-5


def test_a_mix_ships_both_specs_and_the_objects_and_plain_iree_compile_takes_them(
    mixed: ModelResult, tools: Tools, tmp_path: Path
) -> None:
    assert mixed.spec is not None
    assert mixed.flagfile is not None
    assert mixed.details.kernel_spec == mixed.spec.with_suffix(KERNELS)
    assert [read(path).kind for path in (mixed.spec, mixed.spec.with_suffix(KERNELS))] == ["tuning", "microkernel"]
    assert len(list(mixed.spec.with_suffix(".objects").iterdir())) == 1
    iree_compile([EXAMPLES / "three.mlir", f"@{mixed.flagfile}", "-o", tmp_path / "again.vmfb"])
    text = preprocess(tools, EXAMPLES / "three.mlir", [f"@{mixed.flagfile}"], timeout=60)
    assert text.count("flow.dispatch @autotune_microkernel_") == 1
    for path in (mixed.spec, mixed.spec.with_suffix(KERNELS)):
        (use,) = [line for line in path.read_text().splitlines() if line.startswith("// use:")]
        words = shlex.split(use.removeprefix("// use:"))
        assert words == ["iree-compile", str(EXAMPLES / "three.mlir"), f"@{mixed.flagfile}", "-o", "three-cpu.vmfb"]
        assert "// verdict:    win, " in path.read_text()
    assert " sgemm_c " in Printer.of(mixed).text(verbose=True)


def test_without_a_device_every_kernel_that_fits_is_proven_in_the_model_and_said_to_be_untimed(tmp_path: Path) -> None:
    result = run("three", tmp_path, None, microkernels=SGEMM, device="none", model={"top": 3}, trials=2)
    assert (result.verdict, result.speedup, result.flagfile) == ("compile-only", None, None)
    assert result.reason == "3 microkernels proven in the model, never timed"
    assert {(row.state, row.reason, row.applied) for row in result.details.kernels} == {
        ("taken", "by its defaults, never timed", 1)
    }
    assert {row.reason for row in result.details.rows} == {"a microkernel computes it"}
    folder = result.workspace / "candidates" / result.run / "kernels-plain"
    assert f"candidate  {folder} (spec.mlir); with -o FILE.mlir it is written there" in str(result)
    verdicts = {entry.provenance.verdict for entry in read(folder / "spec.mlir").entries if entry.provenance}
    assert verdicts == {"compile-only: proven in the model, never timed"}


@pytest.mark.long
def test_of_two_products_that_are_added_both_have_a_kernel_whichever_has_the_other_as_its_residual(
    tmp_path: Path,
) -> None:
    """ResNet-50 has a kernel for one of them already, with a residual: the other one was left to the compiler."""
    result = run("joined", tmp_path, None, microkernels=SGEMM, device="none", trials=2)
    taken = {row.label: row.applied for row in result.details.kernels if row.state == "taken"}
    assert taken == {"gemm_16x32x32_f32_f32_nn_bias_residual_relu": 2, "gemm_16x32x8_f32_f32_nn_bias": 1}


def test_both_specs_of_a_mix_are_sound_and_apply(mixed: ModelResult, tools: Tools) -> None:
    """Each is checked with the other beside it; one that names a file that is gone is an error."""
    assert mixed.spec is not None
    kernels = mixed.spec.with_suffix(KERNELS)
    for path in (mixed.spec, kernels):
        report = check(path, tools=tools, model=EXAMPLES / "three.mlir")
        assert report.sound, report.findings
        assert [use.dispatches for use in report.uses or ()] == [1]
    kernels.rename(kernels.with_name("elsewhere.mlir"))
    assert not check(mixed.spec, tools=tools).sound


def test_a_kernel_that_is_called_nowhere_is_found_out_before_the_model_is_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program has no such product: what the kernels were matched with read it wrong."""
    absent, find_all = Gemm.parse(shape="8x16x24", dtype="f32"), PartSearch.find_kernels

    def find_kernels(self: PartSearch, library: Library) -> list[KernelEntry]:
        found = find_all(self, library)
        self._add(Place(absent, Forms(()), 1, ("sgemm_c",), constant=False), state="left-out")
        return [*found, self._default(self.places[-1])]

    monkeypatch.setattr(PartSearch, "find_kernels", find_kernels)
    fake = fake_tools(tmp_path, rules=[(CALLED, 50.0)])
    result = run("three", tmp_path, fake, microkernels=SGEMM, model={"min_share": 100.0})
    assert result.verdict == "win"
    rows = {row.label: row for row in result.details.kernels}
    assert (rows[absent.name].state, rows[absent.name].reason) == ("dropped", "it is called nowhere in the model")
    assert len(result.details.shipped_kernels) == 3
    compiled = (tmp_path / "fake" / "compiled.log").read_text().splitlines()
    assert sum("preprocessing-transform-spec-filename" in line for line in compiled) == 1


PROBLEMS = [Gemm.parse(shape=shape, dtype="f32") for shape in ("64x128x96", "64x64x128", "64x32x64")]


class Known(Library):
    """Kernels for three products."""

    def places(self, preprocessed: str) -> list[Place]:
        del preprocessed
        return [Place(problem, Forms(()), 1, ("sgemm_c",), constant=True) for problem in PROBLEMS]


def search(root: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[PartSearch, Library]:
    """Over three products, of which two take enough of the time."""
    monkeypatch.setattr(ModelStructure, "flops", sum(problem.flops for problem in PROBLEMS))
    context = BareContext(root=root, model=Model(Path("m.mlir"), min_share=20.0))
    return PartSearch(context, PLAIN, NOTHING, Shares({}, STATISTICS)), Known(context, (), "x86_64", "")


def test_a_kernel_that_stands_in_the_model_stays_where_there_is_no_time_for_its_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts, library = search(tmp_path, monkeypatch)
    standing = parts.find_kernels(library)
    assert [one.label for one in standing] == [problem.name for problem in PROBLEMS], "by its defaults each has one"
    assert {one.config.as_dict()["packed"] for one in standing} == {1}, "the weights are constants"
    assert [row.state for row in parts.places] == ["ranked", "ranked", "left-out"]
    parts.set_row(standing[0].label, state="left-out", reason="no time for it", out_of_time=True)
    parts.set_row(standing[1].label, state="codegen", reason="alone it is slower", applied=1)
    assert parts._stand(standing, ()) == [standing[0], standing[2]]
    assert [(row.state, row.reason, row.applied) for row in parts.places] == [
        ("taken", "by its defaults: no time for it", 0),
        ("codegen", "alone it is slower", 0),
        ("taken", "by its defaults", 0),
    ]


def test_a_new_ranking_keeps_what_was_dropped_and_asks_again_what_is_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts, library = search(tmp_path, monkeypatch)
    parts.find_kernels(library)
    parts.set_row(PROBLEMS[0].name, state="dropped", reason="it lost")
    monkeypatch.setattr(ModelStructure, "flops", PROBLEMS[2].flops)
    parts.rank(parts.shares)
    assert {row.label: row.state for row in parts.places} == {
        PROBLEMS[0].name: "dropped",
        PROBLEMS[1].name: "ranked",
        PROBLEMS[2].name: "ranked",
    }
    parts.leave_kernels("another route is faster")
    assert [row.state for row in parts.places] == ["dropped", "left-out", "left-out"]


@pytest.mark.parametrize(
    ("verdict", "rivals", "state"),
    [("inconclusive", 0, "left-out"), ("inconclusive", 2, "codegen"), ("no-winner", 0, "codegen")],
)
def test_a_search_whose_time_was_up_before_its_first_timing_says_nothing_against_a_kernel(
    verdict: FinalVerdict, rivals: int, state: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its best is the default then; the kernel that stands in the model by its defaults stays there."""
    parts, library = search(tmp_path, monkeypatch)
    parts.find_kernels(library)
    result = replace(RESULT, verdict=verdict, counts=Counts(timed=1, rivals=rivals))
    parts._kernel(parts.places[0], Found(result, cast(Plan, None), None, None))
    assert parts.places[0].state == state


# --- on which routes they are tried, and which route is tuned -------------------------------------------------------

LAST, IM2COL, FUSED = Route("channels-last+O3", ("--a",)), Route("im2col+O3", ("--b",)), Route("O3", ("--c",))
GPU = Target.parse("sm_80")


@pytest.mark.parametrize(
    ("programs", "wanted"),
    [
        # An Inception v1 for sm_80: kernels for nchw went into im2col, the slowest of the three.
        ({LAST: (1533.0, "rewritten"), IM2COL: (2535.0, "written")}, ["plain", "im2col+O3"]),
        ({FUSED: (9000.0, "written"), IM2COL: (2535.0, "written")}, ["plain", "im2col+O3"]),
        ({LAST: (1533.0, "more")}, ["channels-last+O3"]),
        ({LAST: (1533.0, "none"), IM2COL: (9.0, "none")}, ["plain"]),
    ],
)
def test_kernels_are_tried_where_they_compute_most_and_on_the_fastest_right_route_of_these(
    programs: dict[Route, tuple[float, str]], wanted: list[str]
) -> None:
    """The default is wrong without them; a program is read once for all routes that share it."""
    read: list[str] = []

    def places(text: str) -> list[Place]:
        read.append(text)
        problems = {"written": PROBLEMS[:2], "rewritten": PROBLEMS[:1], "more": PROBLEMS, "none": []}
        return [Place(problem, Forms(()), 2, ("sgemm_c",), constant=True) for problem in problems[text]]

    others = [tried(route, us, text=text) for route, (us, text) in programs.items()]
    outcomes = [tried(PLAIN, 2284.0, wrong=True, text="of the cache"), *others, tried(Route("failed"), None)]
    found = kernel_routes(outcomes, places, plain="written")
    assert [one.route.name for one in found] == wanted
    assert len(read) == len(set(read))


@pytest.mark.parametrize(
    ("best", "target", "wrong", "compiled"),
    [
        (2000.0, ONE_ROUTE, False, ["plain"]),
        (1000.0, ONE_ROUTE, False, ["plain", "im2col+O3"]),  # slower than without kernels
        (9999.0, ONE_ROUTE, True, ["plain", "im2col+O3"]),  # wrong with kernels, too
        (2000.0, GPU, False, ["plain", "im2col+O3"]),  # another route may fuse the rest better
    ],
)
def test_a_second_route_is_tried_with_kernels_where_the_first_does_not_lead_and_on_gpus(
    best: float, target: Target, wrong: bool, compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []

    def made(whole: WholeModel, _: Library) -> Contestant | None:
        done.append(whole.on.route.name)
        made = replace(whole.on, id="kernels", us=1200.0, kernels=(kernel(PROBLEMS[0]),))
        return None if wrong and not whole.on.ok else made

    context = BareContext(clock=Simulated(200.0), options=Options(microkernels=[Kernel("auto")]), target=target)
    routes = [tried(PLAIN, 2284.0, wrong=True), tried(IM2COL, 2535.0)]
    monkeypatch.setattr(Library, "open", lambda *_: Library(context, (), "", ""))
    monkeypatch.setattr(kernels_module, "kernel_routes", lambda *_, **__: routes)
    monkeypatch.setattr(kernels_module, "kernels_first", made)
    trials = KernelTrials.open(race_of(context, tried(FUSED, best)), NOTHING)
    assert trials is not None
    found = trials.after_routes(ends=context.clock.at(160.0))
    assert done == compiled
    assert found is not None
    assert found[0].on.route.name == (compiled[-1] if wrong else "plain")
    assert context.said[0] == f"route {compiled[-1] if wrong else 'plain'} with 1 microkernel: 1.200 ms"


@pytest.mark.parametrize(("calls", "early"), [(2, ["plain"]), (1, [])])
def test_kernels_that_compute_most_of_the_arithmetic_are_tried_before_other_routes_and_not_again(
    calls: int, early: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []

    def made(whole: WholeModel, _: Library) -> Contestant:
        done.append(whole.on.route.name)
        return replace(whole.on, id="kernels", us=1200.0, kernels=(kernel(PROBLEMS[0]),))

    context = BareContext(clock=Simulated(200.0), options=Options(microkernels=[Kernel("auto")]), target=ONE_ROUTE)
    place = Place(PROBLEMS[0], Forms(()), calls, ("sgemm_c",), constant=True)
    monkeypatch.setattr(Library, "open", lambda *_: Library(context, (), "", ""))
    monkeypatch.setattr(Library, "places", lambda *_: [place])
    monkeypatch.setattr(ModelStructure, "flops", property(lambda _: 3 * PROBLEMS[0].flops))
    monkeypatch.setattr(kernels_module, "kernels_first", made)
    race = race_of(context, tried(PLAIN, 2284.0, text="of the cache"))
    trials = KernelTrials.open(race, NOTHING)
    assert trials is not None
    trials.early(ends=context.clock.at(160.0))
    assert done == early
    assert trials.after_routes(ends=context.clock.at(160.0)) is not None
    assert done == ["plain"]


def test_without_kernels_the_route_is_tuned_that_promises_most_and_only_that_is_ranked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The fastest route has nothing to tune. What is far behind is not even read."""
    ranked: list[str] = []

    def measured(_: object, route: Route, *__: object) -> Shares:
        ranked.append(route.name)
        return Shares({"a": 1.0}, "")

    monkeypatch.setattr(kernels_module, "measure_shares", measured)
    monkeypatch.setattr(PartSearch, "tunable", property(lambda parts: float(parts.route == FUSED)))
    race = race_of(BareContext(), tried(PLAIN, 9000.0), tried(LAST, 1533.0), tried(FUSED, 1700.0))
    _, on = worth_tuning(race, NOTHING)
    assert (on.route, ranked) == (FUSED, ["O3"])
