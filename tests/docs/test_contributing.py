"""What docs/adding shows for a chip, an operation and a backend is all that it takes, done to a copy."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.docs.documents import ROOT
from tests.support.fake_tools import FakeTools
from tests.support.patience import ENOUGH

Run = Callable[..., str]


@pytest.fixture
def patched(tmp_path: Path) -> Callable[[str, int], Run]:
    """patched(name, most): a copy of the package with this diff, of so many files at the most, and its commands."""

    def patch(name: str, most: int) -> Run:
        diff = (ROOT / "docs" / "adding" / f"{name}.diff").read_text()
        assert len(re.findall(r"^\+\+\+ b/", diff, re.MULTILINE)) <= most
        for room in ("autotuner", "templates"):
            shutil.copytree(ROOT / room, tmp_path / room)
        (tmp_path / "specs").symlink_to(ROOT / "specs")
        (tmp_path / "work").mkdir()
        subprocess.run(["git", "apply", "-"], input=diff, text=True, cwd=tmp_path, check=True, timeout=ENOUGH)
        return lambda *words: _run(tmp_path, *words)

    return patch


def _run(folder: Path, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "autotuner", *words],
        cwd=folder / "work",
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
        timeout=ENOUGH,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_product_is_a_word_in_one_file(patched: Callable[[str, int], Run]) -> None:
    run = patched("chip", 1)
    words = ("gemm", "--shape", "64x64x64", "--target", "v710", "--device", "none", "--dry-run")
    assert "--iree-rocm-target=v710" in run(*words)


def test_an_operation_is_four_files(patched: Callable[[str, int], Run], tmp_path: Path) -> None:
    run = patched("operation", 4)
    # Its times are chosen: the compiler and the check are real.
    fake = FakeTools(tmp_path / "fake", tmp_path / "labels").folder
    words = ("--trials", "2", "--budget", "20m", "--iree-tools", str(fake), "--json")
    document = json.loads(run("softmax", "--shape", "32x64", *words))
    assert document["problem"]["name"] == "softmax_32x64_f32"
    assert document["baseline"]["us"] > 0
    assert not any(document["counts"]["failed"].values())
    (tmp_path / "work" / "mine.csv").write_text("op,shape,dtype\nsoftmax,8x16,f16\n")
    assert "softmax_8x16_f16" in run("suite", "mine.csv", "--dry-run")
    assert "linalg.softmax" in run("softmax", "--shape", "8x16", "--target", "gfx942", "--device", "none", "--dry-run")


def test_a_backend_is_two_files(patched: Callable[[str, int], Run]) -> None:
    run = patched("backend", 2)
    words = ("gemm", "--shape", "64x64x64", "--target", "mali-g715", "--device", "none", "--trials", "1", "--json")
    document = json.loads(run(*words))
    assert document["target"] == "valhall4"
    assert document["counts"]["built"] == 1
