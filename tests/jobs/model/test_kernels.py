"""Microkernels in a model's search: compiles, kernels and outputs are real, times are chosen."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from autotuner import Gemm
from autotuner.carriers.calls import preprocess
from autotuner.carriers.flagfile import KERNELS
from autotuner.errors import UsageError
from autotuner.iree.tools import Tools
from autotuner.jobs.model.entries import KernelEntry, Place
from autotuner.jobs.model.kernels import KernelRow, KernelSearch, no_time, says_something
from autotuner.jobs.model.result import ModelResult
from autotuner.jobs.model.tuner import tune_model
from autotuner.microkernels.variants import Kernel
from autotuner.patterns.forms import Forms
from autotuner.programs.model import Model
from autotuner.programs.structure import STATISTICS, Shares
from autotuner.specfiles.check import check
from autotuner.specfiles.entries import read
from autotuner.tuning.options import Options
from autotuner.tuning.result import Counts
from tests.support.bare_model import BareContext
from tests.support.fake_tools import ONE_ROUTE, SPEC
from tests.support.models import EXAMPLES, fake_tools, iree_compile, run

CALLED = "*preprocessing-transform-spec-filename*"
SGEMM = (Kernel("sgemm_c"),)


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory, warm: Path) -> ModelResult:
    """Of two products the kernel is faster than the compiler's code for the first, and slower for the second."""
    folder = tmp_path_factory.mktemp("mixed")
    rules = [(f"{SPEC}{CALLED}", 5.0), ("*matmul_64x64x128*", 10.0), (CALLED, 25.0), (SPEC, 50.0)]
    with pytest.MonkeyPatch.context() as patch:
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
    assert (second["state"], second["kernel"], second["applied"]) == ("codegen", "sgemm_c", 0)
    assert second["reason"].startswith("alone it takes 25000.0 µs, the compiler's code ")
    assert (third["state"], third["reason"]) == ("left-out", "not among the first 2 (--top)")
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
    assert mixed.details.report is not None
    assert "| sgemm_c |" in mixed.details.report.read_text()


def test_a_kernel_that_nobody_has_is_an_error_before_anything_is_searched(tmp_path: Path) -> None:
    options = Options(workspace=tmp_path, microkernels=(Kernel("sgemm_cc"),), device="none")
    with pytest.raises(UsageError, match="Did you mean sgemm_c"):
        tune_model(Model(EXAMPLES / "three.mlir"), ONE_ROUTE, options=options)


def test_without_a_device_every_kernel_that_fits_is_proven_in_the_model_and_said_to_be_untimed(tmp_path: Path) -> None:
    result = run("three", tmp_path, None, microkernels=SGEMM, device="none", model={"top": 3}, trials=2)
    assert (result.verdict, result.speedup, result.flagfile) == ("compile-only", None, None)
    assert result.reason == "no device: 3 microkernels are proven in the model, never timed"
    assert {(row.state, row.reason, row.applied) for row in result.details.kernels} == {
        ("taken", "by its defaults, never timed", 1)
    }
    assert {row.reason for row in result.details.rows} == {"a microkernel computes it"}
    folder = result.workspace / "candidates" / result.run / "kernels-plain"
    assert f"candidate  {folder} (spec.mlir, command.txt); with -o FILE it is written there" in str(result)
    verdicts = {entry.provenance.verdict for entry in read(folder / "spec.mlir").entries if entry.provenance}
    assert verdicts == {"compile-only: proven in the model, never timed"}


@pytest.mark.long
def test_of_two_products_that_are_added_both_have_a_kernel_whichever_has_the_other_as_its_residual(
    tmp_path: Path,
) -> None:
    """ResNet-50 has a kernel for one of them already, with a residual: the other one was left to the compiler."""
    result = run("joined", tmp_path, None, microkernels=SGEMM, device="none", trials=2)
    taken = {row.place.problem.name: row.applied for row in result.details.kernels if row.state == "taken"}
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
    absent, find_all = Gemm.parse(shape="8x16x24", dtype="f32"), KernelSearch.defaults

    def defaults(self: KernelSearch) -> list[KernelEntry]:
        place = Place(absent, Forms(()), 1, ("sgemm_c",), constant=False)
        self.rows[absent.name] = KernelRow(place, state="left-out")
        return find_all(self)

    monkeypatch.setattr(KernelSearch, "defaults", defaults)
    fake = fake_tools(tmp_path, rules=[(CALLED, 50.0)])
    result = run("three", tmp_path, fake, microkernels=SGEMM, model={"min_share": 100.0})
    assert result.verdict == "win"
    rows = {row.place.problem.name: row for row in result.details.kernels}
    assert (rows[absent.name].state, rows[absent.name].reason) == ("dropped", "it is called nowhere in the model")
    assert len(result.details.shipped_kernels) == 3
    compiled = (tmp_path / "fake" / "compiled.log").read_text().splitlines()
    assert sum("preprocessing-transform-spec-filename" in line for line in compiled) == 1


PROBLEMS = [Gemm.parse(shape=shape, dtype="f32") for shape in ("64x128x96", "64x64x128", "64x32x64")]


def search(root: Path, *, top: int | None = None) -> KernelSearch:
    """Over three products; with --top the last is left out, without it because of its share."""
    context = BareContext(root=root, model=Model(Path("m.mlir"), top=top, min_share=5.0))
    found = KernelSearch(context, ONE_ROUTE)
    for problem in PROBLEMS:
        place = Place(problem, Forms(()), 1, ("sgemm_c",), constant=True)
        state = "left-out" if problem == PROBLEMS[-1] else "ranked"
        found.rows[problem.name] = KernelRow(place, state=state)
    return found


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
    found.leave_rest(no_time(12.4))
    assert [found.rows[problem.name].state for problem in PROBLEMS] == ["taken", "left-out", "left-out"]
    why = "no time for it: all dispatches together have 12 s (--budget)"
    assert [found.rows[problem.name].reason for problem in PROBLEMS] == ["by its defaults", why, ""]


def test_a_new_ranking_keeps_what_was_dropped_and_asks_again_what_is_wanted(tmp_path: Path) -> None:
    found = search(tmp_path)
    first, second, third = (problem.name for problem in PROBLEMS)
    found.set_row(first, state="dropped", reason="it lost")
    flops = {problem.name: problem.flops for problem in PROBLEMS}
    found.rank(sum(flops.values()), Shares({}, STATISTICS))
    assert [(label, row.state) for label, row in found.rows.items()] == [
        (first, "dropped"),
        (second, "ranked"),
        (third, "ranked"),
    ]
    found.rank(100 * flops[second], Shares({}, STATISTICS))
    assert [found.rows[label].state for label in (first, second, third)] == ["dropped", "left-out", "left-out"]


def test_a_search_whose_time_was_up_before_its_first_timing_says_nothing_against_a_kernel() -> None:
    """Its best is the default then; the kernel that stands in the model by its defaults stays there."""
    assert not says_something("inconclusive", Counts(timed=1))
    assert says_something("inconclusive", Counts(timed=3, rivals=2))
    assert says_something("no-winner", Counts())
