"""The command line, in a process of its own or in this one."""

from __future__ import annotations

import io
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import pytest

from autotuner.cli.app import main

AUTOTUNE = [sys.executable, "-m", "autotuner"]
GEMM = ("gemm", "--shape", "64x64x64", "--dtype", "f32")


def in_this_process(
    *words: str, cwd: Path, cache: Path | None = None, **settings: str
) -> subprocess.CompletedProcess[str]:
    """The command in this process: it need not import everything again. `settings` are environment variables."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="") for _ in range(2))
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.chdir(cwd)
        for name, value in {**settings, **({"AUTOTUNE_CACHE_DIR": str(cache)} if cache else {})}.items():
            patch.setenv(name, value)
        patch.setattr("sys.argv", ["autotune", *words])
        with pytest.raises(SystemExit) as end:
            main()
    said = [stream.detach().getvalue().decode() for stream in (out, err)]
    return subprocess.CompletedProcess(words, int(end.value.code or 0), *said)


@dataclass(frozen=True)
class Here:
    """The command in this process, in a folder of its own: quicker where the process itself does not matter."""

    folder: Path
    monkeypatch: pytest.MonkeyPatch
    capsys: pytest.CaptureFixture[str]

    def __call__(self, *words: str) -> subprocess.CompletedProcess[str]:
        self.monkeypatch.chdir(self.folder)
        self.monkeypatch.setenv("AUTOTUNE_CACHE_DIR", str(self.folder / "cache"))
        self.monkeypatch.setenv("NO_COLOR", "1")
        self.monkeypatch.setattr("sys.argv", ["autotune", *words])
        with pytest.raises(SystemExit) as end:
            main()
        out, err = self.capsys.readouterr()
        return subprocess.CompletedProcess(words, int(end.value.code or 0), out, err)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Here:
    return Here(tmp_path, monkeypatch, capsys)


def complaint(done: subprocess.CompletedProcess[str], code: int) -> str:
    """The one line that says what is wrong; everything else about a refusal is checked here."""
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("autotune: ")]
    assert len(lines) == 1, done.stderr
    assert done.stderr.splitlines()[-1] == lines[0]
    assert lines[0].rstrip().endswith("."), "it ends with a remedy, in a sentence"
    return lines[0]
