"""What brings an arm into a program: each kind of spec by its own flag, also for GPUs that are not there."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from autotuner import Conv, Gemm, Options, Problem, Target
from autotuner.errors import NoCandidateError, UsageError
from autotuner.jobs.ab.arms import parse_arm
from autotuner.jobs.ab.opening import Experiment
from autotuner.jobs.ab.recipe import Recipe
from autotuner.jobs.ab.result import AbResult
from autotuner.jobs.ab.run import run_experiment
from autotuner.microkernels.instance import search_folders
from autotuner.microkernels.library import find
from autotuner.problems.operations import OPERATIONS
from autotuner.problems.render import problem_mlir
from autotuner.programs.model import Model
from autotuner.space import Config
from autotuner.tuning.plan import Plan
from tests.jobs.ab.conftest import CPU, EFFORT
from tests.support.stand_in import misa_stand_in

MISA = "misa_igemm_fwd_nhwc_fp16"
MakePlan = Callable[[Problem, str], Plan]


def compiled(
    workspace: Path,
    arm: str,
    *,
    target: Target = CPU,
    problem: Problem | None = None,
    model: Path | None = None,
    objects: tuple[Path, ...] = (),
    symbol: str | None = None,
) -> AbResult:
    """The default against an arm, compiled and proven."""
    a, b = (parse_arm(word, workspace=workspace, objects=objects, symbol=symbol) for word in ("default", arm))
    program = Model(model) if model else None
    options = Options(effort=EFFORT, workspace=workspace, device="none", command=())
    return run_experiment(Experiment(a, b, problem, program), target, options=options)


def spec_of(plan: Plan, config: Config, path: Path) -> Path:
    path.write_text(plan.candidate(config, id="x").carrier.carried().spec or "")
    return path


def test_a_configured_executable_is_substituted_by_its_name(
    make_plan: MakePlan, tmp_path: Path, workspace: Path
) -> None:
    problem = Conv.parse(shape="1x16x16x8", filter="3x3x16", dtype="f32")
    plan = make_plan(problem, "plain")
    assert "plain" in plan.executables
    config = next(c for c in (plan.space[i] for i in range(len(plan.space))) if c["route"] == "plain")
    spec = spec_of(plan, config, tmp_path / "conv.mlir")
    result = compiled(workspace, str(spec), problem=problem)
    assert result.details.arms[1].applied == 1
    assert result.details.arms[1].flags == (f"{plan.executables['plain'].flag}={spec}",)
    assert not result.details.same_code


def test_an_experiment_can_be_of_a_product_that_learns_its_m_when_it_runs(workspace: Path) -> None:
    """As a range of `--bucket-m` races its entry; executed, for both must compute what the static product does."""
    default = parse_arm("default", workspace=workspace)
    problem = Gemm.parse(shape="9x16x24", batch=2, dtype="f32")
    options = Options(effort=EFFORT, workspace=workspace, command=())
    result = run_experiment(Experiment(default, default, problem, rows=(5, 16)), CPU, options=options)
    assert result.details.same_code
    assert result.baseline.us is not None
    (program,) = {path.read_text() for path in workspace.glob("candidates/*/?/problem.mlir")}
    assert "umin = 5, umax = 16" in program


def test_cuda_takes_a_tuning_spec_by_the_flag_that_it_does_not_ignore(
    make_plan: MakePlan, tmp_path: Path, workspace: Path
) -> None:
    problem, target = Gemm.parse(shape="256x256x256"), Target.parse("sm_80")
    plan = make_plan(problem, "sm_80")
    spec = spec_of(plan, plan.space[0], tmp_path / "cuda.mlir")
    result = compiled(workspace, str(spec), target=target, problem=problem)
    assert result.details.arms[1].flags == (f"--iree-codegen-transform-dialect-library={spec}",)
    assert result.details.arms[1].applied == 1
    ignored = tmp_path / "ignored.flags"
    ignored.write_text(f"--iree-codegen-tuning-spec-path={spec}\n")
    with pytest.raises(NoCandidateError, match="IREE ignores it there"):
        compiled(workspace, f"@{ignored}", target=target, problem=problem)


def test_an_object_of_the_users_is_put_into_a_model_for_another_chip(tmp_path: Path, workspace: Path) -> None:
    """With the padding that stands before the convolution."""
    conv = Conv.parse(shape="2x32x32x1280", filter="3x3x1280", pad="1x1")
    model = tmp_path / "unet.mlir"
    model.write_text(problem_mlir(conv))
    symbol = find(MISA, search_folders(tmp_path), OPERATIONS).symbol
    misa_stand_in(tmp_path / "misa.hsaco", symbol=symbol)
    gfx942, objects = Target.parse("gfx942"), (tmp_path / "misa.hsaco",)
    result = compiled(workspace, MISA, target=gfx942, model=model, objects=objects, symbol=symbol)
    assert [(kernel["problem"], kernel["calls"]) for kernel in result.details.arms[1].kernels] == [(conv.name, 1)]
    assert result.verdict == "compile-only"
    misa_stand_in(tmp_path / "misa.hsaco", symbol=symbol, chip="gfx950")
    with pytest.raises(UsageError, match="gfx950"):
        compiled(workspace, MISA, target=gfx942, model=model, objects=objects, symbol=symbol)


@pytest.mark.skipif(not any(map(shutil.which, ("cc", "gcc", "clang"))), reason="there is no C compiler")
def test_a_microkernel_spec_is_an_arm_with_its_objects(tmp_path: Path, workspace: Path) -> None:
    problem = Gemm.parse(shape="96x64x128", dtype="f32")
    kernel = compiled(workspace, "sgemm_c", problem=problem).details.arms[1]
    assert kernel.spec is not None
    spec = tmp_path / "mine.mlir"
    shutil.copy(kernel.spec, spec)
    with pytest.raises(UsageError, match="is not in"):
        compiled(workspace, str(spec), problem=problem)
    shutil.copytree(kernel.spec.parent / "objects", spec.with_suffix(".objects"))
    again = compiled(workspace, str(spec), problem=problem).details.arms[1]
    assert (again.kind, again.applied) == ("spec", 1)
    assert again.flags[0] == f"--iree-preprocessing-transform-spec-filename={spec}"
    assert Recipe(again.flags).brings_objects, "so it must hold as a kernel of strangers"
    _add_a_counter(next(spec.with_suffix(".objects").iterdir()), tmp_path)
    with pytest.raises(UsageError, match="could do more than compute: writable data"):
        compiled(workspace, str(spec), problem=problem)


def _add_a_counter(code: Path, folder: Path) -> None:
    (folder / "counter.c").write_text("int counter(void) { static int calls; return ++calls; }\n")
    subprocess.run(["cc", "-c", "-fPIC", "counter.c", "-o", "counter.o"], cwd=folder, check=True)
    subprocess.run(["ld", "-r", code, "counter.o", "-o", "both.o"], cwd=folder, check=True)
    (folder / "both.o").replace(code)
