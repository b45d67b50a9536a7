"""Each operation of BOO's is a program that IREE reads; `python -m benchmarks.boo` tunes them."""

from __future__ import annotations

from pathlib import Path

import pytest
from iree.compiler import ir

from autotuner import Options, Target
from autotuner.jobs.model.tuner import tune_model
from autotuner.programs.model import Model
from benchmarks.boo import SIGNATURES, written


@pytest.mark.parametrize("name", SIGNATURES)
def test_a_signature_is_a_program(name: str, tmp_path: Path) -> None:
    with ir.Context():
        module = ir.Module.parse(written(name, tmp_path, dtype="bf16").read_text())
        assert module.operation.verify()


@pytest.mark.parametrize("name", ["conv2d, weight", "conv2d, 4 groups"])
def test_what_iree_has_no_constraints_for_or_crashes_over_is_tuned_near_its_own_choice(
    name: str, tmp_path: Path
) -> None:
    model = Model(written(name, tmp_path, dtype="f16"))
    options = Options(workspace=tmp_path, device="none", trials=1, microkernels=())
    (row,) = tune_model(model, Target.parse("gfx942"), options=options).details.rows
    assert row.state in ("estimated", "no-gain"), row.reason
    assert row.reason.startswith("1 candidate built and proven")
