"""`autotune ab` for GPUs that are not there: every check that needs none, up to the kernel's dispatch in the module."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from autotuner import Conv, Gemm, Options, Problem, Target
from autotuner.errors import UsageError
from autotuner.jobs.ab.variants import ALONE
from autotuner.microkernels.instance import search_folders
from autotuner.microkernels.library import find
from autotuner.microkernels.variants import Kernel
from autotuner.tuning.options import Effort
from autotuner.tuning.result import Result
from autotuner.tuning.session import Session
from autotuner.tuning.tune import search
from tests.support.stand_in import misa_stand_in

MISA = "misa_igemm_fwd_nhwc_fp16"
CONV = Conv.parse(shape="2x32x32x1280", filter="3x3x1280", pad="1x1")
ONE = Effort(trials=1, budget=60, compile_only_trials=1, race_entrants=2)


def experiment(workspace: Path, kernel: Kernel, *, problem: Problem = CONV, target: str = "gfx942") -> Result:
    options = Options(effort=ONE, workspace=workspace, microkernels=(kernel,), device="none", command=())
    chip = Target.parse(target)
    with Session.open(chip, options) as session:
        return search(chip.prepare(problem), chip, options=options, session=session, task=ALONE).result


def test_an_object_with_misas_abi_is_embedded_and_found(tmp_path: Path) -> None:
    symbol = find(MISA, search_folders(tmp_path)).symbol
    misa_stand_in(tmp_path / "misa.hsaco", symbol=symbol)
    result = experiment(tmp_path / "workspace", Kernel(MISA, (tmp_path / "misa.hsaco",), symbol))
    assert result.verdict == "compile-only"
    assert sum(result.counts.failed.values()) == 0
    assert result.counts.built == result.counts.asked >= 2


def test_without_an_object_the_user_is_asked_for_one(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no object for gfx942") as caught:
        experiment(tmp_path / "workspace", Kernel(MISA))
    assert "Give one yourself" in caught.value.remedy


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")
def test_a_triton_kernel_is_built_embedded_and_found_without_a_gpu(tmp_path: Path) -> None:
    problem = Gemm.parse(shape="64x64x64")
    result = experiment(tmp_path / "workspace", Kernel("gemm_triton"), problem=problem, target="sm_80")
    assert result.verdict == "compile-only"
    assert sum(result.counts.failed.values()) == 0
    assert result.counts.built == result.counts.asked >= 2
