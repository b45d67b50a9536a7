"""A part of a program that a compile refuses as it refuses the whole."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from autotuner.iree.compile import Compile, compile_program
from autotuner.iree.tools import Tools
from autotuner.programs.reproducer import LONGEST, reproduce
from autotuner.targets import Target

WHOLE = Compile(Path(__file__).parent / "examples" / "free_tokens.mlir", Target.parse("cpu").compile_flags, 60.0)


def _stderr(job: Compile, folder: Path) -> str:
    folder.mkdir()
    return compile_program(job, Tools.find(), folder).stderr


def test_the_operation_that_is_refused_is_left_with_what_it_needs(tmp_path: Path) -> None:
    """IREE 3.13 makes a size of -1 of a recurrent network's free number of tokens."""
    part = tmp_path / "part.mlir"
    stderr = _stderr(WHOLE, tmp_path / "whole")
    assert "unexpected result less than 0" in stderr
    found = reproduce(WHOLE, stderr, Tools.find(), part)
    text = part.read_text()
    assert found == f"a part that fails alike: {part}"
    assert ("onnx.GRU" in text, "onnx.Add" in text, "onnx.Constant" in text) == (True, False, False)
    assert text.count("\n") < LONGEST
    assert "unexpected result less than 0" in _stderr(replace(WHOLE, program=part), tmp_path / "again")


def test_what_has_no_place_or_fails_in_no_part_is_told(tmp_path: Path) -> None:
    part = tmp_path / "part.mlir"
    assert "names no place" in reproduce(WHOLE, "error: killed", Tools.find(), part)
    elsewhere = f"{WHOLE.program}:8:10: error: another\n"
    assert f"no part of at most {LONGEST} lines fails alike" in reproduce(WHOLE, elsewhere, Tools.find(), part)
    assert not part.exists()
