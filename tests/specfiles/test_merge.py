"""Merging: one file that applies all of it, the faster of two, and no guess where nothing tells."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from autotuner.build import Builder
from autotuner.build.proof import proven
from autotuner.carriers.flagfile import flagfile_text
from autotuner.carriers.provenance import ENTRY, Provenance
from autotuner.errors import UsageError
from autotuner.iree.tools import Tools
from autotuner.problems import Gemm, Problem
from autotuner.specfiles.entries import read, read_spec
from autotuner.specfiles.merge import Merged, merge, merge_files
from autotuner.targets import Target
from autotuner.tuning.plan import Plan
from tests.support.spec_files import FRAME, TIMED, make_spec

MakePlan = Callable[[Problem, str], Plan]
SMALL, OTHER = Gemm.parse(shape="64x32x48", dtype="f32"), Gemm.parse(shape="96x64x128", dtype="f32")


@pytest.fixture(scope="module")
def small(make_plan: MakePlan) -> Plan:
    return make_plan(SMALL, "plain")


@pytest.fixture(scope="module")
def other(make_plan: MakePlan) -> Plan:
    return make_plan(OTHER, "plain")


def configurations(merged: Merged) -> list[str]:
    return [entry.compilation_info for entry in merged.entries]


def test_the_merged_file_applies_each_entry_and_keeps_its_provenance(
    small: Plan, other: Plan, tools: Tools, builder: Builder
) -> None:
    merged = merge([make_spec(small), make_spec(other, provenance=replace(TIMED, problem=OTHER.name))], tools=tools)
    assert not merged.dropped
    assert [entry.provenance for entry in merged.entries] == [TIMED, replace(TIMED, problem=OTHER.name)]
    assert merged.text.count(ENTRY) == 2
    comment = "\n".join(line for line in merged.text.splitlines() if line.startswith("//"))
    assert TIMED.command in comment
    assert "1.500x (1.400 to 1.600)" in comment
    for plan in (small, other):
        target = Target.parse("cpu")
        text = builder.inspect(
            plan.source, target.compile_flags, timeout=60, spec=merged.text, spec_flag=target.spec_flag
        )
        candidate = plan.candidate(plan.space[plan.space.nearest({"route": "plain"})], id="c")
        expected = next(e for e in merged.entries if f"@match_{plan.problem.name}" == f"@{e.name}")
        assert candidate.info is not None
        info = replace(
            candidate.info,
            lowering_config=expected.lowering_config,
            translation_info=expected.translation_info.removeprefix("#iree_codegen.translation_info"),
        )
        assert proven([text], info) == (1, "")


@pytest.mark.parametrize(
    ("first", "second", "winner", "why"),
    [
        (TIMED, replace(TIMED, us=90.0), 1, "slower: 100.0 µs"),
        (TIMED, replace(TIMED, us=110.0, median=9.0), 0, "slower: 110.0 µs"),
        (TIMED, replace(TIMED, device="local-sync", us=1.0, median=1.2), 0, "gains less: 1.200x"),
        (replace(TIMED, us=None), replace(TIMED, us=None, median=1.7), 1, "gains less: 1.500x"),
    ],
)
def test_of_two_that_match_the_same_the_faster_by_its_figures_stays(
    small: Plan, tools: Tools, first: Provenance, second: Provenance, winner: int, why: str
) -> None:
    texts = [make_spec(small, 0, provenance=first), make_spec(small, 1, provenance=second)]
    merged = merge(texts, tools=tools)
    (kept,) = merged.entries
    assert kept.compilation_info == read_spec(texts[winner]).entries[0].compilation_info
    (dropped,) = merged.dropped
    assert why in dropped.reason
    assert dropped.source == f"spec {2 - winner}"
    assert read_spec(merged.text).entries == merged.entries


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_what_was_timed_stays_before_what_was_not_and_it_is_said(
    small: Plan, tools: Tools, order: tuple[int, int]
) -> None:
    both = [make_spec(small, 0), make_spec(small, 1, provenance=None)]
    merged = merge([both[number] for number in order], tools=tools)
    assert configurations(merged) == [read_spec(both[0]).entries[0].compilation_info]
    (dropped,) = merged.dropped
    timed, other = (f"spec {order.index(number) + 1}" for number in (0, 1))
    assert (dropped.source, dropped.reason) == (other, f"it has no figures, and {timed} was timed")


def test_without_figures_it_is_an_error_unless_forced(small: Plan, tools: Tools) -> None:
    texts = [make_spec(small, 0, provenance=None), make_spec(small, 1, provenance=None)]
    with pytest.raises(UsageError, match="neither was timed: nothing tells which is faster"):
        merge(texts, tools=tools)
    merged = merge(texts, tools=tools, force=True)
    assert configurations(merged) == [read_spec(texts[1]).entries[0].compilation_info]
    assert "--force" in merged.dropped[0].reason


def test_the_same_configuration_twice_needs_no_figures(small: Plan, tools: Tools) -> None:
    merged = merge([make_spec(small, provenance=None), make_spec(small)], tools=tools)
    assert [entry.provenance for entry in merged.entries] == [TIMED]
    assert "the same configuration as in spec 2" in merged.dropped[0].reason


@pytest.mark.parametrize(
    ("changed", "words"),
    [({"target": "gfx942"}, "different targets: cpu"), ({"iree": "3.0.0"}, "different IREE versions")],
)
def test_specs_of_several_targets_or_compilers_are_not_merged(
    small: Plan, other: Plan, tools: Tools, changed: dict[str, str], words: str
) -> None:
    texts = [make_spec(small), make_spec(other, provenance=replace(TIMED, **changed))]  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=words):
        merge(texts, tools=tools, force=True)


def test_files_of_others_that_use_the_same_names_are_kept_apart(tmp_path: Path, tools: Tools) -> None:
    paths = []
    for size in (16, 32):
        paths.append(tmp_path / f"{size}.mlir")
        paths[-1].write_text(_exact(size))
    merged = merge(paths, tools=tools)
    assert [entry.name for entry in merged.entries] == ["match", "match_1"]
    assert [entry.key.count("[16]") for entry in merged.entries] == [1, 0]
    assert merged.text.count("@apply(") == 1, "actions that do the same are one"


def test_exact_sizes_are_tried_before_ranges(tools: Tools) -> None:
    merged = merge([_with_range(), _exact(8)], tools=tools)
    assert [entry.matches.exact for entry in merged.entries] == [True, False]


def test_a_flagfile_is_written_when_those_of_the_inputs_agree(
    small: Plan, other: Plan, tools: Tools, tmp_path: Path
) -> None:
    paths = []
    for plan in (small, other):
        path = tmp_path / f"{plan.problem.name} cpu.mlir"
        path.write_text(make_spec(plan))
        flags = [*plan.target.compile_flags, f"--iree-codegen-tuning-spec-path={path}"]
        path.with_suffix(".flags").write_text(flagfile_text(flags))
        paths.append(path)
    done = merge_files(paths, output=tmp_path / "all.mlir", tools=tools)
    assert done.flagfile == tmp_path / "all.flags"
    lines = done.flagfile.read_text().splitlines()
    assert lines == [*small.target.compile_flags, f"--iree-codegen-tuning-spec-path={tmp_path / 'all.mlir'}"]
    assert read(done.spec).entries == done.merged.entries
    paths[1].with_suffix(".flags").write_text("--iree-opt-data-tiling\n")
    done = merge_files(paths, output=tmp_path / "again.mlir", tools=tools)
    assert done.flagfile is None
    assert not (tmp_path / "again.flags").exists()
    assert "--iree-opt-data-tiling" in done.notes[0]


_CONTRACTION = """%batch, %m, %n, %k = transform.iree.match.contraction %op,
      lhs_type = f32, rhs_type = f32, output_type = f32,
      indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>,
                       affine_map<(d0, d1, d2) -> (d0, d1)>] : !transform.any_op -> !transform.param<i64>
    transform.iree.match.dims_equal %batch, [] : !transform.param<i64>
    transform.iree.match.dims_equal %n, [64] : !transform.param<i64>
    transform.iree.match.dims_equal %k, [64] : !transform.param<i64>"""


def _exact(size: int) -> str:
    body = f"{_CONTRACTION}\n    transform.iree.match.dims_equal %m, [{size}] : !transform.param<i64>"
    return FRAME.replace("HELPER", "").replace("BODY", body)


def _with_range() -> str:
    body = f"""{_CONTRACTION}
    %lhs = transform.get_operand %op[0] : (!transform.any_op) -> !transform.any_value
    transform.iree.match.dim_bounds %lhs[0], umin = 1, umax = 64 : !transform.any_value"""
    return FRAME.replace("HELPER", "").replace("BODY", body)


def test_a_library_without_an_entry_point_is_refused_with_what_to_do(tools: Tools) -> None:
    asked = 'transform.match.operation_name %op ["linalg.matmul"] : !transform.any_op'
    spec = FRAME.replace("HELPER", "").replace("BODY", asked)
    library = (
        spec.replace("iree_codegen.tuning_spec_with_default_entrypoint, ", "")
        .replace(" -> !transform.any_op\n      attributes {iree_codegen.tuning_spec_entrypoint} {", " {")
        .replace("transform.yield %r : !transform.any_op", "transform.yield")
    )
    with pytest.raises(UsageError, match=r"another form .* Merge the specs that it was linked from"):
        merge([library], tools=tools)


def test_matchers_that_include_others_are_not_merged(tools: Tools) -> None:
    helper = """transform.named_sequence @size(%m: !transform.param<i64> {transform.readonly}) {
    transform.iree.match.dims_equal %m, [16] : !transform.param<i64>
    transform.yield
  }"""
    body = f"{_CONTRACTION}\n    transform.include @size failures(propagate) (%m) : (!transform.param<i64>) -> ()"
    with pytest.raises(UsageError, match="has matchers that include others"):
        merge([FRAME.replace("HELPER", helper).replace("BODY", body)], tools=tools)
