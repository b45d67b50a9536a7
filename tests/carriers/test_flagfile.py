"""Flagfiles whose files were moved with them."""

from __future__ import annotations

from pathlib import Path

from autotuner.carriers.flagfile import Flagfile
from autotuner.carriers.flags import SUBSTITUTION, SUBSTITUTIONS
from autotuner.carriers.microkernel import OBJECTS_FLAG, SPEC_FLAG
from autotuner.targets.backends import TUNING_SPEC


def test_files_that_are_gone_are_those_of_the_same_name_in_the_folder(tmp_path: Path) -> None:
    there, folder = tmp_path / "there.mlir", tmp_path / "moved"
    there.write_text("")
    flags = (
        "--iree-opt-level=O3",
        f"{TUNING_SPEC}=gone/a.mlir",
        f"{SPEC_FLAG}={there}",
        f"{SUBSTITUTION}=main_dispatch_1=gone/b.mlir",
        f"{SUBSTITUTIONS}=gone/a.executables",
        f"{OBJECTS_FLAG}=gone/a.objects",
    )
    assert Flagfile(tmp_path / "a.flags", flags).found_in(folder) == (
        "--iree-opt-level=O3",
        f"{TUNING_SPEC}={folder}/a.mlir",
        f"{SPEC_FLAG}={there}",
        f"{SUBSTITUTION}=main_dispatch_1={folder}/b.mlir",
        f"{SUBSTITUTIONS}={folder}/a.executables",
        f"{OBJECTS_FLAG}={folder}/a.objects",
    )


def test_what_is_there_stays_as_it_is_written(tmp_path: Path) -> None:
    (tmp_path / "a.mlir").write_text("")
    flags = (f"{TUNING_SPEC}={tmp_path}/./a.mlir",)
    assert Flagfile(tmp_path / "a.flags", flags).found_in(tmp_path / "moved") == flags
