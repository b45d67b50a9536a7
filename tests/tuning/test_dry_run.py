"""A rehearsal shows the space, a sample and commands that work when pasted, and leaves nothing behind."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from autotuner import Gemm, Options, Target
from autotuner.carriers.render import MARKER
from autotuner.tuning.dry_run import Rehearsal, rehearse
from tests.support.command_line import Here


def rehearsal(target: str, tmp_path: Path, **options: object) -> Rehearsal:
    problem = Gemm.parse(shape="64x64x64", dtype="f16")
    chosen = Options(workspace=tmp_path / "workspace", **{"microkernels": (), **options})  # type: ignore[arg-type]
    return rehearse(problem, Target.parse(target), options=chosen)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("AUTOTUNE_CACHE_DIR", str(folder))
    return folder


@pytest.mark.parametrize(("target", "device"), [("cpu", None), ("gfx942", "none")])
def test_nothing_is_built_and_the_commands_work_when_pasted(
    target: str, device: str | None, tmp_path: Path, cache: Path
) -> None:
    plan = rehearsal(target, tmp_path, device=device)
    assert not (tmp_path / "workspace").exists()
    files = {path.name for path in (cache / "builds").rglob("*") if path.is_file()}
    assert files <= {"CACHEDIR.TAG"}, "no build in the cache"
    document = plan.to_json()
    assert document["space"] == sum(document["pieces"].values()) > 10
    folder = tmp_path / "pasted"
    folder.mkdir()
    (folder / "problem.mlir").write_text(document["problem_mlir"])
    (folder / "spec.mlir").write_text(document["spec_mlir"])
    compile_line, *benchmark_lines = document["commands"]
    assert len(benchmark_lines) == (device is None)
    pasted = document["commands"] if target == "cpu" else [compile_line]
    done = subprocess.run(
        ["bash", "-e", "-c", "\n".join(pasted)], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-500:]
    dumped = "".join(path.read_text() for path in (folder / "configurations").glob("*.mlir"))
    assert MARKER in dumped, "the sample spec applies"
    assert (folder / "module.vmfb").is_file()
    for line in benchmark_lines:
        assert "iree-benchmark-module" in line
        assert f"--device={Target.parse(target).device}" in line
    if target == "cpu":
        assert json.loads(done.stdout)["benchmarks"]


def test_the_command_line_prints_the_whole_of_it_and_the_same_sample_for_the_same_seed(here: Here) -> None:
    no_routes = ("--flag=--iree-opt-data-tiling=false", "--flag=--iree-llvmcpu-enable-ukernels=none")
    words = ("gemm", "--shape", "64x64x64", "--dtype", "f32", "--dry-run", "--microkernels", "none", *no_routes)
    as_json, as_text, other = (here(*words, *more) for more in (("--json",), (), ("--seed", "6", "--json")))
    assert (as_json.returncode, as_text.returncode) == (0, 0)
    assert {p.name for p in here.folder.iterdir()} <= {"cache"}
    document, out = json.loads(as_json.stdout), as_text.stdout
    assert document["problem"]["name"] == "gemm_64x64x64_f32_f32_nn"
    assert document["space"] > 1000
    assert document["config"]["route"] in document["pieces"]
    assert "func.func @main" in document["problem_mlir"]
    assert MARKER in document["spec_mlir"]
    assert len(document["commands"]) == 2
    assert re.search(r"^space: \d+ configurations \(plain \d+", out, re.MULTILINE)
    assert "func.func @main" in out
    assert "transform.named_sequence" in out
    assert len([line for line in out.splitlines() if "iree-compile problem.mlir" in line]) == 1
    assert document["spec_mlir"].strip() in out, "the same sample"
    assert json.loads(other.stdout)["spec_mlir"] != document["spec_mlir"]
