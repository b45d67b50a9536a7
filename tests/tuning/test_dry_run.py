"""A rehearsal shows the space, a sample and commands that work when pasted, and leaves nothing behind."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from autotuner import Gemm, Options, Target
from autotuner.carriers.render import MARKER
from autotuner.cli.app import main
from autotuner.tuning.dry_run import Rehearsal, rehearse

TARGETS = ["cpu", "gfx942", "sm_80"]


def rehearsal(target: str, tmp_path: Path, **options: object) -> Rehearsal:
    problem = Gemm.parse(shape="64x64x64", dtype="f16")
    chosen = Options(workspace=tmp_path / "workspace", **options)  # type: ignore[arg-type]
    return rehearse(problem, Target.parse(target), options=chosen)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("AUTOTUNE_CACHE_DIR", str(folder))
    return folder


@pytest.mark.parametrize("target", TARGETS)
def test_nothing_is_built_and_the_commands_work_when_pasted(target: str, tmp_path: Path, cache: Path) -> None:
    plan = rehearsal(target, tmp_path)
    assert not (tmp_path / "workspace").exists()
    assert not [p for p in (cache / "builds").rglob("*") if p.is_file()], "no build in the cache"
    assert plan.space == sum(plan.pieces.values()) > 10
    assert plan.spec is not None
    folder = tmp_path / "pasted"
    folder.mkdir()
    (folder / "problem.mlir").write_text(plan.source)
    (folder / "spec.mlir").write_text(plan.spec)
    compile_line, benchmark_line = plan.commands
    done = subprocess.run(["bash", "-c", compile_line], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    dumped = "".join(path.read_text() for path in (folder / "configurations").glob("*.mlir"))
    assert MARKER in dumped, "the sample spec applies"
    assert (folder / "module.vmfb").is_file()
    assert "iree-benchmark-module" in benchmark_line
    assert f"--device={Target.parse(target).device}" in benchmark_line


def test_the_benchmark_line_works_when_pasted_after_the_compile_line(tmp_path: Path) -> None:
    plan = rehearsal("cpu", tmp_path)
    folder = tmp_path / "pasted"
    folder.mkdir()
    (folder / "problem.mlir").write_text(plan.source)
    (folder / "spec.mlir").write_text(plan.spec or "")
    done = subprocess.run(
        ["bash", "-e", "-c", "\n".join(plan.commands)], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-500:]
    assert json.loads(done.stdout)["benchmarks"]


def test_without_a_device_there_is_no_benchmark_line(tmp_path: Path) -> None:
    (line,) = rehearsal("gfx942", tmp_path, device="none").commands
    assert "iree-compile" in line


def test_the_same_seed_shows_the_same_sample(tmp_path: Path) -> None:
    first, again, other = (rehearsal("cpu", tmp_path, seed=seed) for seed in (5, 5, 6))
    assert first == again
    assert first.spec != other.spec


@pytest.mark.parametrize("as_json", [False, True])
def test_the_command_line_prints_the_whole_of_it(
    as_json: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["gemm", "--shape", "64x64x64", "--dtype", "f32", "--dry-run", *(["--json"] if as_json else [])]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["autotune", *words])
    with pytest.raises(SystemExit) as end:
        main()
    out = capsys.readouterr().out
    assert not end.value.code
    assert {p.name for p in tmp_path.iterdir()} <= {"cache"}
    if as_json:
        document = json.loads(out)
        assert document["problem"]["name"] == "gemm_64x64x64_f32_f32_nn"
        assert document["space"] > 1000
        assert document["config"]["route"] in document["pieces"]
        assert "func.func @main" in document["problem_mlir"]
        assert MARKER in document["spec_mlir"]
        assert len(document["commands"]) == 2
    else:
        assert re.search(r"^space: \d+ configurations \(plain \d+", out, re.MULTILINE)
        assert "func.func @main" in out
        assert "transform.named_sequence" in out
        assert len([line for line in out.splitlines() if "iree-compile problem.mlir" in line]) == 1
