"""Files in `--flag` are found from wherever the compiler runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotuner import Target
from autotuner.errors import UsageError
from autotuner.targets.base import refuse_missing


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "spec.mlir").touch()
    (tmp_path / "host").touch()
    (tmp_path / "folder").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("flag", "becomes"),
    [
        ("--iree-codegen-tuning-spec-path=spec.mlir", "--iree-codegen-tuning-spec-path={here}/spec.mlir"),
        ("--iree-codegen-tuning-spec-path=./spec.mlir", "--iree-codegen-tuning-spec-path={here}/spec.mlir"),
        ("--iree-hal-dump-executable-sources-to=./folder", "--iree-hal-dump-executable-sources-to={here}/folder"),
        ("--iree-hal-substitute-x=NAME=spec.mlir", "--iree-hal-substitute-x=NAME={here}/spec.mlir"),
        ("--iree-x=absent.mlir", "--iree-x=absent.mlir"),
        ("--iree-llvmcpu-target-cpu=host", "--iree-llvmcpu-target-cpu=host"),
        ("--iree-opt-level=O3", "--iree-opt-level=O3"),
        ("--iree-opt-data-tiling", "--iree-opt-data-tiling"),
        ("--iree-x=/etc/hostname", "--iree-x=/etc/hostname"),
        ("--iree-x=" + "a." * 3000, "--iree-x=" + "a." * 3000),
    ],
)
def test_a_file_of_the_current_folder_is_given_by_its_whole_path(flag: str, becomes: str, here: Path) -> None:
    assert Target.parse("cpu", flags=[flag]).user_flags == (becomes.format(here=here),)


def test_a_spec_that_is_not_there_is_refused_before_anything_is_compiled() -> None:
    refuse_missing(["--iree-codegen-tuning-spec-path=spec.mlir", "--iree-opt-level=O3", "--iree-x=absent.mlir"])
    refuse_missing(["--iree-codegen-transform-dialect-library=spec.mlir@sequence"])
    for name in ("codegen-tuning-spec-path", "preprocessing-transform-spec-filename"):
        with pytest.raises(UsageError, match=f"--flag --iree-{name}: there is no file absent.mlir. Is the path right"):
            refuse_missing([f"--iree-{name}=absent.mlir"])
