"""What a rehearsal says of a model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from autotuner import Options, Target
from autotuner.jobs.model.rehearse import rehearse_model
from autotuner.programs.model import Model
from tests.support.models import EFFORT, EXAMPLES


def test_a_rehearsal_names_dynamic_sizes_as_the_inputs_tell_them(tmp_path: Path) -> None:
    wanted = Model(EXAMPLES / "dynamic.mlir", inputs=("48x96xf32", "96x128xf32"))
    options = Options(effort=EFFORT, workspace=tmp_path, microkernels=())
    told = rehearse_model(wanted, Target.parse("cpu"), options=options)
    assert "1 dispatch, 1 different root" in told.text()
    assert "1 call of linalg.matmul 48x128x96" in told.text()
    assert told.to_json()["dispatches"][0]["loops"] == [48, 128, 96]
    assert len(told.text().splitlines()) <= 40
    unknown = rehearse_model(replace(wanted, inputs=()), Target.parse("cpu"), options=options)
    assert "1 call of linalg.matmul Dx128x96" in unknown.text()
    assert unknown.to_json()["dispatches"][0]["loops"] == [None, 128, 96]
