"""Which file is the tuned one of a problem."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotuner.errors import UsageError
from autotuner.jobs.ab.arms import SpecArm
from autotuner.jobs.bench.tuned import SpecFolder, given_arm
from autotuner.targets import Target


def test_a_folder_has_a_spec_of_each_problems_name(tmp_path: Path) -> None:
    (tmp_path / "gemm_a-sm_80.mlir").write_text("module {}")
    folder = given_arm(tmp_path, workspace=tmp_path, trust=False)
    assert isinstance(folder, SpecFolder)
    found = folder.arm("gemm_a", Target.parse("sm_80"))
    assert isinstance(found, SpecArm)
    assert found.path.name == "gemm_a-sm_80.mlir"
    for problem, target in (("gemm_b", "sm_80"), ("gemm_a", "gfx942")):
        assert f"has no {problem}-{target}.mlir" in str(folder.arm(problem, Target.parse(target)))


def test_what_is_neither_spec_nor_flagfile_nor_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nor a folder"):
        given_arm(tmp_path / "a.txt", workspace=tmp_path, trust=False)
