"""Spec files, and the command line in this process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from autotuner.carriers.provenance import Provenance
from autotuner.carriers.render import spec_mlir
from autotuner.cli import app
from autotuner.errors import AutotuneError
from autotuner.iree.tools import Tools
from autotuner.microkernels.instance import Binding, Call, Instance
from autotuner.problems import Gemm
from autotuner.tuning.plan import Plan

TIMED = Provenance(
    problem="gemm_64x32x48_f32_f32_nn",
    target="cpu",
    device="local-task",
    iree=Tools.find().release,
    verdict="win",
    us=100.0,
    baseline_us=150.0,
    low=1.4,
    median=1.5,
    high=1.6,
    date="2026-01-02 03:04 UTC",
    command="autotune gemm --shape 64x32x48 'and \"quotes\"'",
)
FRAME = """module attributes {iree_codegen.tuning_spec_with_default_entrypoint, transform.with_named_sequence} {
  transform.named_sequence @apply(
      %op: !transform.any_op {transform.readonly}, %c: !transform.any_param {transform.readonly}) {
    transform.annotate %op "compilation_info" = %c : !transform.any_op, !transform.any_param
    transform.yield
  }
  HELPER
  transform.named_sequence @match(
      %op: !transform.any_op {transform.readonly}) -> (!transform.any_op, !transform.any_param) {
    BODY
    %c = transform.param.constant #iree_codegen.compilation_info<
      lowering_config = #iree_cpu.lowering_config<vector_common_parallel = [8, 8, 0], vector_reduction = [0, 0, 4]>,
      translation_info = <pipeline = #iree_cpu.pipeline<DoubleTilingExpert>>> -> !transform.any_param
    transform.yield %op, %c : !transform.any_op, !transform.any_param
  }
  transform.named_sequence @__kernel_config(%root: !transform.any_op {transform.consumed}) -> !transform.any_op
      attributes {iree_codegen.tuning_spec_entrypoint} {
    %r = transform.foreach_match in %root @match -> @apply : (!transform.any_op) -> !transform.any_op
    transform.yield %r : !transform.any_op
  }
}
"""
"""A spec that somebody wrote by hand: HELPER and BODY are to be replaced."""


def make_spec(plan: Plan, position: int = 0, *, provenance: Provenance | None = TIMED) -> str:
    """A spec with one of the plain route's configurations."""
    rows = range(len(plan.space))
    plain = [i for i in rows if plan.space[i]["route"] == "plain"] if plan.cpu else list(rows)
    candidate = plan.candidate(plan.space[plain[position]], id=f"c{position}")
    assert candidate.dispatch is not None
    assert candidate.info is not None
    return spec_mlir(name=plan.problem.name, dispatch=candidate.dispatch, info=candidate.info, provenance=provenance)


def microkernel_call(folder: Path, gemm: Gemm, *, symbol: str = "kernel") -> Call:
    """Of a kernel whose object is in this folder, and which nobody runs."""
    (path := folder / "kernel.ptx").write_text("// not read here")
    last = len(gemm.operands) - 1
    bindings = tuple(Binding(i, "write" if i == last else "read", o) for i, o in enumerate(gemm.operands))
    return Call(Instance("mine", symbol, "sm_80", (path,), bindings, (), (32, 1, 1), 32, 0, (1, 1, 1)), gemm)


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str


@pytest.fixture
def autotune(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Answer]:
    """autotune(*words): exit code, stdout and stderr (of errors that become one line: that line)."""

    def run(*words: object) -> Answer:
        monkeypatch.setattr("sys.argv", ["autotune", *map(str, words)])
        monkeypatch.setenv("COLUMNS", "200")
        line = ""
        try:
            code = app.app(standalone_mode=False) or 0
        except AutotuneError as error:
            code, line = error.exit_code, str(error)
        captured = capsys.readouterr()
        return Answer(code, captured.out, captured.err + line)

    return run
