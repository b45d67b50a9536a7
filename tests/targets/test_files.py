"""Files in `--flag` are found from wherever the compiler runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotuner import Target


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
