"""A rehearsal shows the space, a sample and commands that work when pasted, and leaves nothing behind."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from autotuner import Gemm, Options, Target
from autotuner.carriers.render import MARKER
from autotuner.tuning.dry_run import rehearse
from tests.support.command_line import Here


def pasted(document: dict[str, Any], folder: Path, commands: list[str]) -> str:
    """What the commands print in a folder with what is shown."""
    folder.mkdir()
    (folder / "problem.mlir").write_text(document["problem_mlir"])
    (folder / "spec.mlir").write_text(document["spec_mlir"])
    words = ["bash", "-e", "-c", "\n".join(commands)]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-500:]
    dumped = "".join(path.read_text() for path in (folder / "configurations").glob("*.mlir"))
    assert MARKER in dumped, "the sample spec applies"
    assert (folder / "module.vmfb").is_file()
    return done.stdout


def test_without_a_device_nothing_is_built_and_the_command_works_when_pasted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AUTOTUNE_CACHE_DIR", str(tmp_path / "cache"))
    options = Options(workspace=tmp_path / "workspace", device="none", microkernels=())
    plan = rehearse(Gemm.parse(shape="64x64x64", dtype="f16"), Target.parse("gfx942"), options=options)
    assert not (tmp_path / "workspace").exists()
    files = {path.name for path in (tmp_path / "cache" / "builds").rglob("*") if path.is_file()}
    assert files <= {"CACHEDIR.TAG"}, "no build in the cache"
    document = plan.to_json()
    assert document["space"] == sum(document["pieces"].values()) > 10
    (compile_line,) = document["commands"]
    pasted(document, tmp_path / "pasted", [compile_line])


def test_the_command_line_prints_the_whole_of_it_with_the_same_sample_and_all_works_when_pasted(here: Here) -> None:
    no_routes = ("--flag=--iree-opt-data-tiling=false", "--flag=--iree-llvmcpu-enable-ukernels=none")
    words = ("gemm", "--shape", "64x64x64", "--dtype", "f32", "--dry-run", "--microkernels", "none", *no_routes)
    as_json, as_text = (here(*words, *more) for more in (("--json",), ()))
    assert (as_json.returncode, as_text.returncode) == (0, 0)
    assert {p.name for p in here.folder.iterdir()} <= {"cache"}
    document, out = json.loads(as_json.stdout), as_text.stdout
    assert document["problem"]["name"] == "gemm_64x64x64_f32_f32_nn"
    assert document["space"] > 1000
    assert document["config"]["route"] in document["pieces"]
    assert re.search(r"^space: \d+ configurations \(plain \d+", out, re.MULTILINE)
    assert "func.func @main" in out
    assert len([line for line in out.splitlines() if "iree-compile problem.mlir" in line]) == 1
    assert document["spec_mlir"].strip() in out, "the same sample"
    _, benchmark_line = document["commands"]
    assert "iree-benchmark-module" in benchmark_line
    assert "--device=local-task" in benchmark_line
    assert json.loads(pasted(document, here.folder / "pasted", document["commands"]))["benchmarks"]
