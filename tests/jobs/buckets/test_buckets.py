"""One spec for a GEMM whose M varies: bounds, harm, proof, with the real compiler and chosen times."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from iree.compiler import ir

from autotuner import Gemm, Options, Target
from autotuner.devices.process import ProcessDevice
from autotuner.errors import OutOfTimeError, UsageError
from autotuner.iree.mlir import text_context
from autotuner.iree.tools import Tools
from autotuner.jobs.buckets import Family, tune_family
from autotuner.jobs.buckets.result import for_all_rows
from autotuner.measure.check import Checker, Data
from autotuner.problems import Problem
from autotuner.problems.render import dynamic_gemm_mlir
from autotuner.space.dispatch import CompilationInfo
from autotuner.specfiles.applied import applied
from autotuner.specfiles.check import check
from autotuner.specfiles.entries import read
from autotuner.system import process
from autotuner.system.settings import cache_dir
from autotuner.tuning.plan import Plan
from autotuner.tuning.session import Session
from tests.support.fake_tools import EFFORT, ONE_ROUTE, SPEC, FakeTools, StopAt
from tests.support.spec_files import Answer

MakePlan = Callable[[Problem, str], Plan]
GEMM = Gemm.parse(shape="48x32x64", dtype="f32")


@pytest.mark.parametrize(
    ("m", "text", "buckets"),
    [
        (48, "16,32,any", [(1, 16, (2, 9, 16)), (17, 32, (17, 24, 32)), (33, None, (33, 40, 48))]),
        (32, "16,64,any", [(1, 16, (2, 9, 16)), (17, 64, (17, 40, 64)), (65, None, (65, 96, 128))]),
        (8, " 1, 16 ", [(1, 1, (1,)), (2, 16, (2, 9, 16))]),
        (77, "any", [(1, None, (2, 39, 77))]),
    ],
)
def test_bounds_become_ranges_tuned_at_their_ends_and_raced_at_the_smallest_and_a_middle_one_too(
    m: int, text: str, buckets: list[tuple[int, int | None, tuple[int, ...]]]
) -> None:
    """A product of one row is a matrix-vector product."""
    family = Family.parse(Gemm.parse(shape=f"{m}x32x64", dtype="f32"), text)
    assert [(b.low, b.high, b.members) for b in family.buckets] == buckets
    assert all(b.members[-1] == b.at and all(size in b for size in b.members) for b in family.buckets)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not a positive whole number"),
        ("0,16", "'0' is not a positive"),
        ("32,16", "does not rise"),
        ("16,16", "does not rise"),
        ("any,16", "'any' is not a positive"),
        ("16,99999999999", "larger than"),
    ],
)
def test_bounds_that_make_no_sense_are_refused(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Family.parse(GEMM, text)


def test_a_dry_run_lists_the_buckets(autotune: Callable[..., Answer], tmp_path: Path) -> None:
    common = ("gemm", "--shape", "48x32x64", "--dtype", "f32", "--bucket-m", "16,any", "--workspace", tmp_path)
    answer = autotune(*common, "--dry-run")
    assert "bucket 16: M 1 to 16, tuned at M = 16, raced at 2, 9 as well" in answer.out
    assert "bucket any: M >= 17, tuned at M = 48" in answer.out
    document = json.loads(autotune(*common, "--dry-run", "--json").out)
    assert [bucket["tuned_at"] for bucket in document["buckets"]] == [16, 48]
    assert document["problem"]["name"] == "gemm_48x32x64_f32_f32_nn"
    assert not (tmp_path / "specs").exists()


def test_a_gpu_configuration_is_padded_for_sizes_that_its_tiles_do_not_divide(make_plan: MakePlan) -> None:
    whole = make_plan(Gemm.parse(shape="256x128x64"), "gfx942")
    plan = whole.where_rows_vary()
    assert plan.space.counts("pipeline") == {**whole.space.counts("pipeline"), "VectorDistribute": 0}
    assert all(config in plan.space for config in plan.first)
    for row in range(0, len(plan.space), len(plan.space) // 40):
        info = plan.candidate(plan.space[row], id="c").info
        assert info is not None
        changed = for_all_rows(info)
        assert for_all_rows(changed) == changed
        with text_context():
            config = ir.Attribute.parse(changed.lowering_config)
            padding = [int(ir.IntegerAttr(a).value) for e in config.attributes if e.name == "padding" for a in e.attr]
            assert padding[:2] == list(config.workgroup_tile_sizes)[:2]
            assert padding[2] == list(config.reduction_tile_sizes)[2] * config.mma_kind.mnk_shape[2]


@pytest.fixture(scope="module")
def fake(tmp_path_factory: pytest.TempPathFactory) -> FakeTools:
    """Every spec doubles the speed, but the second bucket's is slow where it is a range."""
    folder = tmp_path_factory.mktemp("buckets")
    (folder / "fake").mkdir()
    return FakeTools(folder / "fake", folder / "labels", rules=[("*umin?=?17,?umax?=?32*", 120.0), (SPEC, 50.0)])


@pytest.mark.long
def test_a_bucket_that_its_winner_would_harm_keeps_the_default(fake: FakeTools, tmp_path: Path) -> None:
    options = Options(
        effort=EFFORT, trials=2, workspace=tmp_path, command=("autotune", "gemm", "--bucket-m", "16,32,any")
    )
    result = tune_family(Family.parse(GEMM, "16,32,any"), ONE_ROUTE, options=options, tools=fake.tools)
    assert result.verdict == "win", [bucket.reason for bucket in result.details.buckets]
    document = json.loads(json.dumps(result.to_json()))
    assert [(b["bucket"], b["uses"], b["verdict"]) for b in document["buckets"]] == [
        ("16", "tuned", "win"),
        ("32", "default", "win"),
        ("any", "tuned", "win"),
    ]
    assert "harms at M = 17: 0.833x" in document["buckets"][1]["why"]
    assert "the default is kept for M 17 to 32" in document["reason"]
    first = document["buckets"][0]
    assert [member["m"] for member in first["members"]] == [2, 9, 16, "dynamic"]
    assert all(member["failure"] is None and member["checked"] for member in first["members"])
    assert [member["speedup"]["median"] for member in first["members"][:3]] == pytest.approx([2.0] * 3)
    assert document["counts"]["asked"] == sum(b["counts"]["asked"] for b in document["buckets"])
    assert document["carrier"] == "spec"
    spec = Path(document["spec"])
    assert spec.name == "gemm_Mx32x64_f32_f32_nn-cpu.mlir"
    entries = [entry for entry in read(spec).entries if entry.lowering_config]
    assert [entry.text.split(", ")[1] for entry in entries] == ["M >= 33", "M 1 to 16"]
    assert [entry.provenance and entry.provenance.median for entry in entries] == pytest.approx([2.0, 2.0])
    assert all(entry.provenance and "--bucket-m 16,32,any" in entry.provenance.command for entry in entries)
    assert check(spec, tools=Tools.find()).sound
    _each_m_gets_its_own(spec, tmp_path)


def _each_m_gets_its_own(spec: Path, folder: Path) -> None:
    """The file as a user takes it; also with an M of which only the least is known."""
    flags, tools = Target.parse("cpu").compile_flags, Tools.find()
    program = folder / "program.mlir"
    for rows, wanted in (
        ((3, 12), "M_1_16_"),
        ((10, 20), ""),
        ((33, None), "M_33_up_"),
        ((20, None), ""),
    ):
        program.write_text(dynamic_gemm_mlir(GEMM, rows=rows))
        uses = applied(spec.read_text(), program, flags, tools)
        names = [use.entry.name for use in uses if use.dispatches and use.entry.lowering_config]
        assert [wanted in name for name in names] == ([True] if wanted else []), (rows, names)


@pytest.mark.long
def test_what_is_changed_to_fit_all_sizes_must_win_again(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On GPUs a winner is padded. Here, where none runs, another change stands for that: the one of a range is slow."""

    def without_peeling(info: CompilationInfo) -> CompilationInfo:
        plain, peeled = "DoubleTilingExpert>>", "DoubleTilingExpert>, {enable_loop_peeling}>"
        text = info.translation_info
        return replace(info, translation_info=text.replace(*((peeled, plain) if peeled in text else (plain, peeled))))

    monkeypatch.setattr("autotuner.jobs.buckets.run.for_all_rows", without_peeling)
    folder = tmp_path_factory.mktemp("changed")
    (folder / "fake").mkdir()
    fake = FakeTools(folder / "fake", folder / "labels", rules=[("*dim_bounds*", 100.0), (SPEC, 50.0)])
    options = Options(
        effort=EFFORT, trials=2, workspace=tmp_path, command=("autotune", "gemm", "--bucket-m", "16,32,any")
    )
    # Sizes that no tile divides: whatever wins on this machine, peeling makes another binary of it.
    family = Family.parse(replace(GEMM, n=61, k=127), "29")
    result = tune_family(family, ONE_ROUTE, options=options, tools=fake.tools)
    (bucket,) = result.details.buckets
    assert bucket.result is not None
    assert (bucket.result.verdict, bucket.kept, result.verdict) == ("win", "default", "no-winner")
    assert bucket.reason == "in the form that fits all sizes its winner gains nothing certain at M = 29"
    assert [member.m for member in bucket.members] == [2, 15, 29]
    assert result.spec is None


def test_a_winner_that_was_not_raced_at_other_sizes_is_inconclusive(
    fake: FakeTools, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left: list[float] = []

    def late(*_arguments: object, options: Options, session: Session) -> None:
        assert options.budget is not None
        left.append(options.budget - (time.monotonic() - session.began))
        raise OutOfTimeError

    monkeypatch.setattr("autotuner.jobs.buckets.run.experiment", late)
    options = Options(effort=EFFORT, trials=2, budget=60.0, workspace=tmp_path, command=("autotune", "test"))
    result = tune_family(Family.parse(GEMM, "16"), ONE_ROUTE, options=options, tools=fake.tools)
    (bucket,) = result.details.buckets
    assert bucket.result is not None
    assert (bucket.result.verdict, bucket.kept, result.verdict) == ("win", "default", "inconclusive")
    assert bucket.reason.endswith(
        "faster than IREE's default (95 % confidence: 2.00x to 2.00x); no time was left to race it at other sizes"
    )
    assert 5 < left[0] < 60, "each size has its part of what the search leaves"
    assert "the default is kept for M 1 to 16. Try --budget" in result.reason


def test_an_interrupted_family_ships_nothing_and_goes_on(tmp_path: Path) -> None:
    options = Options(effort=EFFORT, trials=1, workspace=tmp_path, command=("autotune", "test"))
    fake = FakeTools(tmp_path / "fake", cache_dir().parent / "labels")
    watch = StopAt("bucket 32: searching")
    family = Family.parse(GEMM, "16,32,any")
    result = tune_family(family, ONE_ROUTE, options=options, reporter=watch, stop=watch.stop, tools=fake.tools)
    assert result.interrupted
    assert (result.verdict, result.spec, result.flagfile) == ("inconclusive", None, None)
    assert [bucket.bucket.name for bucket in result.details.buckets] == ["16", "32"]
    assert not list((tmp_path / "specs").iterdir())
    again = tune_family(family, ONE_ROUTE, options=replace(options, resume=True), tools=fake.tools)
    assert (again.run, again.verdict) == (result.run, "no-winner")
    runs = [bucket.result and bucket.result.run for bucket in result.details.buckets]
    assert [bucket.result and bucket.result.run for bucket in again.details.buckets][:2] == runs


def test_a_dynamic_product_computes_what_the_static_ones_do(tools: Tools, tmp_path: Path) -> None:
    """Each operand transposed, and a rounded result: the program that proofs are made with is right itself."""
    for number, (layout, out, batch) in enumerate((("nt", None, 1), ("tn", "bf16", 1), ("tt", "f16", 3))):
        problem = Gemm.parse(shape="11x24x40", dtype="f16", layout=layout, out=out, batch=batch)
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "program.mlir").write_text(dynamic_gemm_mlir(problem, rows=(5, 16)))
        flags = Target.parse("cpu").compile_flags
        words = ["program.mlir", *flags, "-o", "program.vmfb"]
        assert process.run([tools.iree_compile, *words], timeout=120, cwd=folder).ok
        data = Data.write(problem, folder / "data", seed=0)
        assert Checker(ProcessDevice(tools, "local-task", data.folder), data, 60).check(folder / "program.vmfb").ok


def test_products_with_a_dynamic_m_get_matrix_instructions(tools: Tools, tmp_path: Path) -> None:
    """IREE's own code has none for a batch, so the default is kept nowhere, however good it is where M is static."""
    target, output, counts = Target.parse("gfx942"), tmp_path / "all.mlir", []
    options = Options(device="none", trials=1, effort=EFFORT, workspace=tmp_path, output=output, command=("test",))
    family = Family.parse(Gemm.parse(shape="64x128x128", batch=4), "16,any")
    result = tune_family(family, target, options=options, tools=tools)
    assert [bucket.kept for bucket in result.details.buckets] == ["tuned", "tuned"], result.details.buckets
    (tmp_path / "program.mlir").write_text(dynamic_gemm_mlir(target.prepare(family.gemm), rows=(17, 64)))
    for number, spec in enumerate(([], [f"{target.spec_flag}={output}"])):
        dumps = f"--iree-hal-dump-executable-intermediates-to=dumps{number}"
        words = ["program.mlir", *target.compile_flags, *spec, dumps, "-o", "program.vmfb"]
        done = process.run([tools.iree_compile, *words], timeout=120, cwd=tmp_path)
        assert done.ok, done.stderr
        counts.append(sum(file.read_text().count("v_mfma") for file in tmp_path.glob(f"dumps{number}/*.rocmasm")))
    assert counts[0] == 0
    assert counts[1] > 0


def test_without_a_device_buckets_are_built_and_proven(tools: Tools, tmp_path: Path) -> None:
    output = tmp_path / "all.mlir"
    options = Options(device="none", trials=2, effort=EFFORT, workspace=tmp_path, output=output, command=("test",))
    family = Family.parse(Gemm.parse(shape="128x128x64", batch=2), "16")
    result = tune_family(family, Target.parse("gfx942"), options=options, tools=tools)
    assert result.verdict == "compile-only"
    (bucket,) = result.details.buckets
    if bucket.kept == "default":  # the candidate that promises most fits one size only
        assert bucket.reason.startswith("its winner fails")
        assert (result.spec, output.is_file()) == (None, False)
        return
    assert [(one.m, one.failure, one.speedup) for one in bucket.members] == [
        (m, "", None) for m in (*bucket.bucket.members, None)
    ]
    said = [entry.provenance.verdict for entry in read(output).entries if entry.provenance and entry.lowering_config]
    assert said == ["compile-only: an estimate, never timed"]
