"""Dispatches that iree-compile dumps as benchmarks are programs that can be tuned."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotuner.errors import UsageError
from autotuner.iree.tools import Tools
from autotuner.programs.imports import dispatch_program
from autotuner.system import process
from autotuner.targets import Target
from tests.support.command_line import in_this_process
from tests.support.models import EXAMPLES


def dumped(name: str, target: str, folder: Path) -> list[Path]:
    flags = [*Target.parse(target).compile_flags, "--iree-codegen-add-tuner-attributes"]
    dump = f"--iree-hal-dump-executable-benchmarks-to={folder}"
    tool = Tools.find().iree_compile
    done = process.run([tool, EXAMPLES / f"{name}.mlir", *flags, dump, "-o", folder / "x.vmfb"], timeout=60)
    assert done.ok, done.stderr
    return sorted(folder.glob("*_benchmark.mlir"))


def test_the_dispatch_of_a_benchmark_takes_and_returns_tensors(tmp_path: Path) -> None:
    """One for a GPU is tuned below."""
    files = dumped("three", "cpu", tmp_path)
    assert len(files) == 3
    first, *others = (dispatch_program(file.read_text(), path=file) for file in files)
    for text in (first, *others):
        assert "lowering_config" not in text
        assert "translation_info" not in text
        assert "hal." not in text
    assert (
        "(%arg0: tensor<64x96xf32>, %arg1: tensor<96x128xf32>, %arg2: tensor<128xf32>) -> tensor<64x128xf32>" in first
    )
    program = tmp_path / "again.mlir"
    program.write_text(first)
    flags = Target.parse("cpu").compile_flags
    again = process.run([Tools.find().iree_compile, program, *flags, "-o", tmp_path / "again.vmfb"], timeout=60)
    assert again.ok, again.stderr


def test_autotune_model_takes_a_benchmark(tmp_path: Path) -> None:
    (file,) = dumped("conv", "gfx942", tmp_path)
    words = ("model", str(file), "--target", "gfx942", "--device", "none", "--dry-run")
    done = in_this_process(*words, cwd=tmp_path, cache=tmp_path / "cache")
    assert done.returncode == 0, done.stderr
    assert "1 call of linalg.generic 16x16x32x3x3x16" in done.stdout


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("module {}", "computes nothing on tensors"),
        ("module { func.func @f() { hal.no.such.op } }", "does not parse as MLIR of this IREE"),
    ],
)
def test_what_is_no_benchmark_of_this_iree_is_refused(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        dispatch_program(text, path=Path("x_benchmark.mlir"))
