"""`-o` is tried at the very start: before a compiler is called, a model is read or an earlier suite's state is lost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from autotuner.iree.tools import Tools
from tests.support.kernels import autotune as call

Autotune = Callable[..., tuple[int, str]]
SHAPE = ("--shape", "96x64x128", "--dtype", "f32")
COMMANDS = {
    "gemm": ("gemm", *SHAPE),
    "conv": ("conv", "--shape", "1x8x8x4", "--filter", "3x3x8", "--dtype", "f32"),
    "attention": ("attention", "--shape", "1x2x8x8x4", "--dtype", "f32"),
    "microkernels": ("gemm", *SHAPE, "--microkernels", "auto"),
    "buckets": ("gemm", *SHAPE, "--bucket-m", "16,any"),
    "model": ("model", "model.onnx"),
    "ab": ("ab", "default", "sgemm_c", *SHAPE),
    "ab of variants": ("ab", "sgemm_c", "--shape", "96x64x128"),
    "ab in a model": ("ab", "sgemm_c", "--model", "model.onnx"),
    "suite": ("suite", "shapes.csv"),
}


@pytest.fixture
def autotune(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Autotune:
    """autotune(word, …): exit code and stderr, with a compiler that only says its version, and notes other calls."""
    compiler = tmp_path / "iree-compile"
    real = Tools.find()
    compiler.write_text(f"""#!/bin/sh
[ "$*" != --version ] || exec '{real.iree_compile}' --version
echo "$*" >> '{tmp_path}/called'
exit 1
""")
    compiler.chmod(0o755)
    monkeypatch.setattr(Tools, "find", lambda _folder=None: replace(real, iree_compile=compiler))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.onnx").write_bytes(b"this is no model")
    (tmp_path / "shapes.csv").write_text("op,shape,dtype,calls\ngemm,96x64x128,f32,3\n")

    def run(*words: str) -> tuple[int, str]:
        code, _, err = call(capsys, monkeypatch, *words, "--quiet")
        return code, err

    return run


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_a_place_that_cannot_be_written_or_is_somebody_elses_is_told_before_any_compile(
    command: tuple[str, ...], autotune: Autotune, tmp_path: Path
) -> None:
    code, err = autotune(*command, "-o", "/proc/x.mlir")
    assert code == 5, err
    assert err.startswith("autotune: cannot write ")
    assert "Choose another -o" in err
    (tmp_path / "mine.mlir").write_text("mine\n")
    code, err = autotune(*command, "-o", "mine.mlir")
    assert code == 2, err
    assert "not written by autotune" in err
    assert (tmp_path / "mine.mlir").read_text() == "mine\n"
    assert not (tmp_path / "called").exists()
    assert not list(tmp_path.glob("candidates/*/*/"))


def test_an_earlier_suite_can_still_be_resumed_after_an_output_that_was_refused(
    autotune: Autotune, tmp_path: Path
) -> None:
    state = tmp_path / "results" / "suites" / "shapes-cpu" / "state.json"
    state.parent.mkdir(parents=True)
    state.write_text("{}")
    assert autotune("suite", "shapes.csv", "-o", "/proc/x.mlir")[0] == 5
    assert state.read_text() == "{}"
