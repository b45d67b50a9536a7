"""What `tuned` is: the user's file, or what the last run that won has shipped; and why there is none."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from autotuner.errors import UsageError
from autotuner.jobs.ab.arms import FlagfileArm, SpecArm
from autotuner.jobs.bench.backends import Chosen, SpecFolder, Terms, given_arm, won_arm
from autotuner.store.rows import RunRow
from autotuner.targets import Target

CPU = Target.parse("cpu")


def run(number: int, verdict: str = "win", target: str = "cpu", **files: Any) -> RunRow:
    return RunRow(
        id=f"run{number}",
        kind="single",
        parent=None,
        key="",
        command=(),
        problem={"name": "gemm"},
        target=target,
        device="local-task",
        seed=0,
        status="finished",
        started=datetime.now(UTC),
        ended=None,
        space_size=None,
        result={"verdict": verdict, **{name: str(path) for name, path in files.items()}},
    )


def test_the_newest_run_that_won_and_whose_files_are_there_counts(tmp_path: Path) -> None:
    flags, spec, gone = tmp_path / "a.flags", tmp_path / "b.mlir", tmp_path / "gone.flags"
    flags.touch()
    spec.touch()
    lost, older = run(3, "no-winner", flagfile=flags), run(1, spec=spec)
    found = won_arm([lost, run(2, flagfile=flags, spec=spec), older], CPU)
    assert isinstance(found, FlagfileArm)
    assert found.path == flags
    found = won_arm([lost, run(2, flagfile=gone), older], CPU)
    assert isinstance(found, SpecArm)
    assert found.path == spec


@pytest.mark.parametrize(
    ("runs", "says"),
    [
        ([], "it was not tuned in this workspace"),
        ([run(1, target="sm_80")], "it was not tuned in this workspace"),
        ([run(1, "no-winner")], "it was tuned, and nothing won"),
        ([run(1, flagfile=Path("/nowhere/a.flags"))], "the files of run run1 are gone"),
    ],
)
def test_where_there_is_nothing_the_reason_is_said(runs: list[RunRow], says: str) -> None:
    assert won_arm(runs, CPU) == says


def test_a_file_of_the_users_is_a_spec_or_a_flagfile(tmp_path: Path) -> None:
    flags, spec = tmp_path / "a.flags", tmp_path / "b.mlir"
    flags.touch()
    spec.write_text("module {}")
    assert given_arm(None, workspace=tmp_path, trust=False) is None
    for path, kind in ((flags, FlagfileArm), (spec, SpecArm)):
        found = given_arm(path, workspace=tmp_path, trust=False)
        assert isinstance(found, kind)
        assert found.path == path
        assert Terms(arm=found).tuned("gemm", [], CPU) is found
        assert Terms(Chosen(("iree",)), found).tuned("gemm", [], CPU) == "it is not asked for"


def test_a_folder_has_a_spec_or_a_flagfile_of_each_problems_name(tmp_path: Path) -> None:
    (tmp_path / "gemm_a-sm_80.mlir").write_text("module {}")
    (tmp_path / "gemm_b-sm_80.flags").touch()
    folder = given_arm(tmp_path, workspace=tmp_path, trust=False)
    assert isinstance(folder, SpecFolder)
    a, b = (Terms(arm=folder).tuned(name, [], Target.parse("sm_80")) for name in ("gemm_a", "gemm_b"))
    assert isinstance(a, SpecArm)
    assert isinstance(b, FlagfileArm)
    assert (a.path.name, b.path.name) == ("gemm_a-sm_80.mlir", "gemm_b-sm_80.flags")
    for problem, target in (("gemm_c", "sm_80"), ("gemm_a", "gfx942")):
        assert f"has no {problem}-{target}.mlir" in str(folder.arm(problem, Target.parse(target)))


def test_what_is_neither_spec_nor_flagfile_nor_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nor a folder"):
        given_arm(tmp_path / "a.txt", workspace=tmp_path, trust=False)
