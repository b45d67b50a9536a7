"""Reading specs: ours, hand-written ones, microkernels, substituted executables, and what is none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from iree.compiler import ir

from autotuner.carriers.carrier import FileHeader
from autotuner.carriers.microkernel import spec_mlir as microkernel_spec
from autotuner.carriers.provenance import Provenance
from autotuner.errors import UsageError
from autotuner.problems import Gemm, Problem
from autotuner.problems.attention import Attention
from autotuner.problems.conv import Conv
from autotuner.specfiles.entries import read, read_spec
from autotuner.specfiles.provenance import read_provenance
from autotuner.tuning.plan import Plan
from tests.support.spec_files import TIMED, Answer, make_spec, microkernel_call

MakePlan = Callable[[Problem, str], Plan]


@pytest.mark.parametrize(
    ("problem", "target", "words"),
    [
        (Gemm.parse(shape="64x32x48", dtype="f32"), "cpu", "contraction m=64 n=32 k=48"),
        (
            Conv.parse(shape="2x16x16x32", filter="3x3x64"),
            "gfx942",
            "convolution batch=2 image=14x14 channel=64 filter=3x3 input=32 strides=1x1 dilations=1x1",
        ),
        (Attention.parse(shape="1x4x256x256x64"), "gfx942", "online_attention batch=4 m=256 n=64 k1=64 k2=256"),
    ],
    ids=["gemm", "conv", "attention"],
)
def test_our_specs_read_back_with_what_they_match_and_who_says_so(
    make_plan: MakePlan, problem: Problem, target: str, words: str
) -> None:
    plan = make_plan(problem, target)
    file = read_spec(make_spec(plan))
    assert file.kind == "tuning"
    (entry,) = file.entries
    assert (entry.name, entry.matches.text, entry.matches.exact) == (f"match_{problem.name}", words, True)
    assert entry.compilation_info.startswith("#iree_codegen.compilation_info<lowering_config = #iree_")
    assert entry.lowering_config in entry.compilation_info
    assert bool(entry.decomposition_config) == (problem.op == "attention")
    assert (entry.provenance, entry.text) == (TIMED, TIMED.problem)
    (nameless,) = read_spec(make_spec(plan, provenance=None)).entries
    assert (nameless.provenance, nameless.text) == (None, words)


def test_the_same_matcher_has_the_same_key_whatever_it_sets(make_plan: MakePlan) -> None:
    plan = make_plan(Gemm.parse(shape="64x32x48", dtype="f32"), "plain")
    other = make_plan(Gemm.parse(shape="64x32x64", dtype="f32"), "plain")
    keys = [read_spec(make_spec(p, i)).entries[0].key for p, i in ((plan, 0), (plan, 1), (other, 0))]
    assert keys[0] == keys[1] != keys[2]
    assert read_spec(make_spec(plan).replace("%m", "%rows")).entries[0].key == keys[0]


def test_a_microkernel_spec_is_read_by_its_kernels(tmp_path: Path, autotune: Callable[..., Answer]) -> None:
    calls = [microkernel_call(tmp_path, Gemm.parse(shape=shape)) for shape in ("64x96x32", "64x96x48")]
    text = microkernel_spec(calls, provenances=[TIMED] * len(calls))
    file = read_spec(text)
    assert file.kind == "microkernel"
    assert [entry.name for entry in file.entries] == ["kernel", "kernel"]
    assert [entry.objects for entry in file.entries] == [("kernel.ptx",)] * 2
    assert len({entry.key for entry in file.entries}) == 2
    assert [entry.provenance for entry in file.entries] == [TIMED] * 2
    assert list(file.hashes) == ["kernel.ptx"]
    assert len(file.hashes["kernel.ptx"]) == 64
    (path := tmp_path / "spec.mlir").write_text(text)
    assert autotune("spec", "show", path).out.count(TIMED.command) == 1, "what all entries say is said once"


def test_a_substituted_executable_says_what_it_is(make_plan: MakePlan) -> None:
    plan = make_plan(Conv.parse(shape="1x12x12x16", filter="3x3x32", pad="1x1", dtype="f32"), "plain")
    candidate = plan.candidate(next(c for c in plan.first if c["route"] == "plain"), id="c")
    assert candidate.carrier.name == "substitution"
    assert candidate.info is not None
    file = read_spec(candidate.carrier.carried(FileHeader(provenance=TIMED)).spec or "")
    assert file.kind == "executable"
    assert "substituted by name" in file.what
    (entry,) = file.entries
    assert entry.name == "main_dispatch_1"
    assert entry.provenance == TIMED
    with ir.Context():
        assert ir.Attribute.parse(entry.lowering_config) == ir.Attribute.parse(candidate.info.lowering_config)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no foreach_match"),
        ("nonsense", "is not a spec that this IREE reads"),
        ("func.func @main() { return }", "no foreach_match"),
    ],
)
def test_what_is_no_spec_is_an_error_of_one_line(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "no.mlir"
    path.write_text(text)
    with pytest.raises(UsageError, match=words) as caught:
        read(path)
    assert "\n" not in str(caught.value)


def test_provenance_from_a_stranger_is_taken_only_as_far_as_it_makes_sense() -> None:
    with ir.Context():
        odd = '{problem = "a\\1B[31m\\0Ab", us = -3.0 : f64, low = "x", verdict = 7, median = 0x7FF0000000000000 : f64}'
        assert read_provenance(ir.Attribute.parse(odd)) == Provenance(problem="a [31m b")
        assert read_provenance(ir.Attribute.parse("3 : i32")) is None


def test_show_lists_entries_with_their_figures(
    make_plan: MakePlan, tmp_path: Path, autotune: Callable[..., Answer]
) -> None:
    plan = make_plan(Gemm.parse(shape="64x32x48", dtype="f32"), "plain")
    path = tmp_path / "spec.mlir"
    path.write_text(make_spec(plan))
    answer = autotune("spec", "show", path)
    assert answer.code == 0
    for words in (TIMED.problem, "1.500x (1.400 to 1.600)", "100.0 µs, default 150.0 µs", "win"):
        assert words in answer.out
    assert TIMED.command in answer.out
    assert autotune("spec", "show", tmp_path / "none.mlir").code == 2


def test_a_flagfile_is_no_spec_and_the_line_of_an_error_is_told(tmp_path: Path) -> None:
    flagfile = tmp_path / "model-cpu.flags"
    flagfile.write_text("--iree-opt-data-tiling\n")
    with pytest.raises(UsageError, match=r"model-cpu\.flags is a flagfile, not a spec\. Name the \.mlir file in it"):
        read(flagfile)
    with pytest.raises(UsageError, match="is not a spec that this IREE reads: error: line 2:"):
        read_spec("module {\n  nonsense\n}")
