"""Convolution and attention go the way of a GEMM: tuned, checked, and a verdict at the end."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from autotuner import Attention, Conv, Problem
from autotuner.carriers.render import MARKER
from autotuner.iree.tools import Tools
from autotuner.problems.render import problem_mlir
from autotuner.tuning.options import Effort
from tests.support.fake_tools import SPEC, FakeTools, codegen, failures, run

Fake = Callable[..., FakeTools]
QUICK = Effort(trials=2, budget=1200, compile_only_trials=3, race_entrants=2)
SUBSTITUTED = "*substitute-executable-configuration*"
ONE_IMAGE = Conv.parse(shape="1x12x12x16", filter="3x3x32", pad="1x1", dtype="f32")


@pytest.mark.parametrize(
    "problem",
    [
        Conv.parse(shape="2x16x16x32", filter="3x3x32", pad="1x1", dtype="f32"),
        Attention.parse(shape="1x2x64x64x32", dtype="f32", causal=True),
    ],
    ids=lambda problem: problem.name,
)
def test_every_operation_is_tuned_checked_and_judged(problem: Problem, fake: Fake, workspace: Path) -> None:
    """Real times of each are in the tests of the budget."""
    result = run(fake(rules=[(SPEC, 50.0)]), workspace, problem=problem, effort=QUICK)
    assert (result.verdict, result.carrier) == ("win", "spec")
    assert result.problem["op"] == problem.op
    assert result.counts.checked >= 2
    assert failures(workspace, result.run) == {}
    assert {row.state for row in codegen(workspace, result.run)} <= {"timed", "duplicate"}
    assert all(row.error is not None for row in codegen(workspace, result.run) if row.state == "timed")


@pytest.mark.long
def test_what_a_spec_cannot_carry_ships_as_an_executable(fake: Fake, workspace: Path, tmp_path: Path) -> None:
    tools = fake(rules=[(SUBSTITUTED, 50.0)])
    result = run(tools, workspace, problem=ONE_IMAGE, effort=QUICK)
    assert (result.verdict, result.carrier) == ("win", "substitution")
    assert result.spec is not None
    assert result.flagfile is not None
    assert result.spec.read_text().startswith("// Configured executable, to be substituted, by autotune")
    flag = f"--iree-hal-substitute-executable-configuration=main_dispatch_1={result.spec}"
    assert flag in result.flagfile.read_text().splitlines()
    assert any("substituted executable" in note for note in result.notes)
    (tmp_path / "problem.mlir").write_text(problem_mlir(ONE_IMAGE))
    words = [str(Tools.find().iree_compile), "problem.mlir", f"@{result.flagfile}", "-o", "out.vmfb"]
    words.append("--iree-hal-dump-executable-benchmarks-to=dump")
    subprocess.run(words, cwd=tmp_path, check=True, capture_output=True)
    assert MARKER in "".join(path.read_text() for path in (tmp_path / "dump").glob("*.mlir"))


def test_where_there_are_no_knobs_the_default_is_kept(fake: Fake, workspace: Path) -> None:
    grouped = Conv.parse(shape="1x8x8x16", filter="3x3x16", groups=4, dtype="f32")
    result = run(fake(), workspace, problem=grouped, effort=QUICK)
    assert result.verdict == "no-winner"
    why = "its root operation has no tile sizes that a spec could set"
    assert result.reason == f"no knobs here, IREE's default is kept: {why}"
    assert result.counts.space == 0
    assert result.spec is None
    assert any("no knobs for its dispatch" in note for note in result.notes)
