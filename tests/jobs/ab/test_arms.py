"""How arms are named, and what their files may say: all before anything is compiled."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from autotuner import Target
from autotuner.errors import UsageError
from autotuner.jobs.ab.arms import parse_arm
from autotuner.jobs.ab.recipe import file_flags
from tests.jobs.ab.conftest import CPU


def test_an_arm_is_told_by_its_form(tmp_path: Path, flagfile: Callable[..., Path]) -> None:
    flags, spec = flagfile("one", "--x"), tmp_path / "spec.mlir"
    spec.write_text("")
    words = ("default", "sgemm_c", f"@{flags}", str(flags), str(spec))
    kinds = [parse_arm(word, workspace=tmp_path).kind for word in words]
    assert kinds == ["default", "microkernel", "flagfile", "flagfile", "spec"]


@pytest.mark.parametrize("word", ["sgem_c", "@", "@nothing", "nothing.flags", "nothing.mlir", "./nothing", "../evil"])
def test_what_is_no_arm_is_refused(word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError):
        parse_arm(word, workspace=tmp_path)


def test_flags_of_a_file_take_the_place_of_the_targets() -> None:
    target = Target.parse("cpu", flags=["--iree-opt-data-tiling"])
    flags = file_flags(target, ["--iree-llvmcpu-target-cpu=generic", "--iree-opt-data-tiling=false"], path=Path("f"))
    assert "--iree-llvmcpu-target-cpu=generic" in flags
    assert sum(flag.startswith(("--iree-llvmcpu-target-cpu", "--iree-opt-data-tiling")) for flag in flags) == 2


def test_a_flagfile_for_another_target_is_refused() -> None:
    with pytest.raises(UsageError, match="another target"):
        file_flags(CPU, ["--iree-hal-target-device=hip", "--iree-rocm-target=gfx942"], path=Path("f.flags"))
