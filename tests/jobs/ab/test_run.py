"""Experiments with a problem of its own: real compiles, proofs and checks; the times are chosen."""

from __future__ import annotations

import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from autotuner import Gemm
from autotuner.errors import NoCandidateError
from autotuner.iree.tools import Tools
from autotuner.jobs.ab.result import AbResult
from autotuner.problems import Problem
from autotuner.store.store import Store
from autotuner.system.progress import Stop
from autotuner.tuning.plan import Plan
from autotuner.tuning.printer import Printer
from tests.jobs.ab.conftest import PLAIN, PROBLEM, TILED
from tests.support.fake_tools import BASE_MS, DATA_TILING, SPEC, FakeTools
from tests.support.pretended_device import pretend

Fake = Callable[..., FakeTools]
Run = Callable[..., AbResult]
Write = Callable[..., Path]


@pytest.fixture
def spec(tmp_path: Path, make_plan: Callable[[Problem, str], Plan]) -> Path:
    """A tuning spec for the problem, of another configuration than the compiler's own."""
    plan = make_plan(PROBLEM, "plain")
    config = next(c for c in (plan.space[i] for i in range(len(plan.space))) if c["route"] == "plain" and c["peel"])
    path = tmp_path / "tuned.mlir"
    path.write_text(plan.candidate(config, id="x").carrier.carried().spec or "")
    return path


def test_two_flagfiles_race_and_the_faster_wins(fake: Fake, experiment: Run, flagfile: Write, workspace: Path) -> None:
    tools = fake((f"*{PLAIN}*", BASE_MS), (DATA_TILING, BASE_MS / 2)).tools
    result = experiment(f"@{flagfile('plain', PLAIN)}", flagfile("tiled", TILED), tools)
    document = result.to_json()
    assert (result.verdict, document["baseline"]["us"], document["best"]["us"]) == ("win", 100_000.0, 50_000.0)
    assert result.speedup is not None
    assert result.speedup.median == pytest.approx(2.0)
    assert [arm["kind"] for arm in document["arms"]] == ["flagfile", "flagfile"]
    assert document["arms"][0]["flags"] == [PLAIN]
    assert all(0 < arm["error"] < 1e-6 for arm in document["arms"])
    assert document["difference"] < 2e-6
    assert document["counts"]["failed"]["wrong-result"] == 0
    with Store.open(None, workspace=workspace, create=False) as store:
        rows = store.candidates(result.run)
        phases = {timing.phase for timing in store.timings(result.run)}
        assert store.run(result.run).status == "finished"
    assert [(row.kind, row.state, row.us) for row in rows] == [
        ("baseline", "timed", 100_000.0),
        ("codegen", "timed", 50_000.0),
    ]
    assert phases == {"screen", "confirm"}


def executables(module: Path) -> dict[str, bytes]:
    """What the device runs: all but the host's program, which repeats its dispatches in a loop or one by one."""
    with zipfile.ZipFile(module) as parts:
        found = {name: parts.read(name) for name in parts.namelist() if name != "module.fb"}
    assert found
    return found


@pytest.mark.long
def test_the_commands_of_both_arms_can_be_pasted(
    fake: Fake, experiment: Run, flagfile: Write, tools: Tools, workspace: Path
) -> None:
    """Arms so short that their dispatches are repeated, in a module beside that of single calls, which cold times need.
    In the end the lines are run by the real programs."""
    wrapped = fake(("*", 15.0)).tools
    result = experiment("default", flagfile("tiled", TILED), wrapped)
    for key, arm in zip("ab", result.details.arms, strict=True):
        folder = workspace / "candidates" / result.run / key
        once, module = folder / "once.vmfb", folder / "module.vmfb"
        code = executables(module)
        assert executables(once) == code
        assert once.read_bytes() != module.read_bytes()
        module.unlink()
        compile_line, benchmark_line = arm.command
        subprocess.run(["sh", "-c", compile_line], check=True, capture_output=True)
        assert executables(module) == code
        real_line = benchmark_line.replace(str(wrapped.iree_benchmark_module), str(tools.iree_benchmark_module))
        done = subprocess.run(["sh", "-c", real_line], check=True, capture_output=True, text=True)
        assert "real_time" in done.stdout
        assert {path.name for path in folder.iterdir()} >= {"problem.mlir", "command.txt", "stderr.txt"}
        assert arm.repeat > 1
        assert f"divide the time by {arm.repeat}" in (folder / "command.txt").read_text()


@pytest.mark.parametrize(("cache", "warm", "cold"), [("both", 0.5, 0.6), ("cold", 1.05, 0.97)])
def test_both_arms_are_timed_with_a_cold_cache_too(
    cache: str,
    warm: float,
    cold: float,
    fake: Fake,
    experiment: Run,
    flagfile: Write,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = pretend(monkeypatch, warm=warm, cold=cold)
    result = experiment("default", flagfile("tiled", TILED), fake().tools, cache=cache)
    assert result.verdict == "win"
    assert result.caches is not None
    assert result.caches.cold.gain == pytest.approx(1 / cold)
    assert result.caches.warm.gain == pytest.approx(1 / warm)
    assert result.to_json()["timing"]["cache"] == ("cold" if cache == "cold" else "warm")
    assert ("fresh" in made[0].taken) == (cache == "both"), "a fresh process has a warm cache"
    assert ("cold" in made[0].taken) == (cache == "cold")
    assert bool([note for note in result.notes if "disagree" in note]) == (cache == "cold")
    words = f"cold cache A 110.000 ms, B {110 * cold:.3f} ms ({1 / cold:.3f}x); warm in the same turns: A 100.000 ms"
    assert words in Printer.of(result).text(verbose=True)


def test_the_slower_arm_does_not_win_and_the_ratio_is_told(fake: Fake, experiment: Run, flagfile: Write) -> None:
    tools = fake((f"*{PLAIN}*", BASE_MS), (DATA_TILING, BASE_MS * 2)).tools
    result = experiment("default", flagfile("tiled", TILED), tools)
    assert result.verdict == "no-winner"
    assert "slower than IREE's default" in result.reason
    assert result.speedup is not None
    assert result.speedup.high == pytest.approx(0.5)


def test_arms_of_the_same_code_are_not_raced(fake: Fake, experiment: Run, flagfile: Write, workspace: Path) -> None:
    tools = fake()
    result = experiment("default", flagfile("plain", PLAIN), tools.tools)
    assert (result.verdict, result.details.same_code) == ("no-winner", True)
    assert "the same code" in result.reason
    assert tools.timed() == 1
    assert (result.counts.asked, result.counts.timed, result.counts.duplicate) == (2, 1, 1)
    with Store.open(None, workspace=workspace, create=False) as store:
        assert [row.state for row in store.candidates(result.run)] == ["timed", "duplicate"]


def test_a_spec_is_proven_and_raced(fake: Fake, experiment: Run, spec: Path) -> None:
    result = experiment("default", spec, fake((SPEC, BASE_MS / 2)).tools)
    assert (result.verdict, result.carrier) == ("win", "spec")
    assert result.details.arms[1].applied == 1
    assert result.spec == spec


def test_a_spec_brings_the_flags_of_the_flagfile_beside_it(fake: Fake, experiment: Run, spec: Path) -> None:
    spec.with_suffix(".flags").write_text(
        f"--iree-opt-level=O1\n--iree-codegen-tuning-spec-path={spec}\n--iree-hal-target-device=local\n"
    )
    result = experiment("default", spec, fake().tools, device="none")
    assert result.details.arms[1].flags == ("--iree-opt-level=O1", f"--iree-codegen-tuning-spec-path={spec}")
    assert result.verdict == "compile-only"


@pytest.mark.parametrize("named", [True, False])
def test_a_spec_that_does_not_apply_is_an_error_that_says_what_was_found(
    fake: Fake, experiment: Run, spec: Path, flagfile: Write, workspace: Path, *, named: bool
) -> None:
    """Also one that a flagfile names."""
    arm = flagfile("carried", f"--iree-codegen-tuning-spec-path={spec}") if named else spec
    with pytest.raises(NoCandidateError) as error:
        experiment("default", arm, fake().tools, problem=Gemm.parse(shape="96x64x64", dtype="f32"))
    assert "does not apply" in str(error.value)
    assert "m=96 n=64 k=128" in str(error.value)
    assert "tensor<64x64xf32>" in str(error.value)
    with Store.open(None, workspace=workspace, create=False) as store:
        (run,) = store.runs()
        assert run.status == "failed"
        assert [row.failure for row in store.candidates(run.id)] == ["", "not-applied"]


def test_an_arm_that_does_not_compile_is_told_in_the_compilers_words(
    fake: Fake, experiment: Run, flagfile: Write, workspace: Path
) -> None:
    with pytest.raises(NoCandidateError, match="Unknown CPU for target architecture"):
        experiment("default", flagfile("wrong", "--iree-llvmcpu-target-cpu=no_such_processor"), fake().tools)
    (stderr,) = workspace.glob("candidates/*/b/stderr.txt")
    assert "Unknown CPU" in stderr.read_text()


def test_without_a_device_both_arms_are_built_and_proven(fake: Fake, experiment: Run) -> None:
    result = experiment("default", "sgemm_c", fake().tools, device="none")
    assert result.verdict == "compile-only"
    assert [arm.applied for arm in result.details.arms] == [0, 1]
    assert [len(arm.command) for arm in result.details.arms] == [1, 1]
    assert all(arm.us is None for arm in result.details.arms)


def test_nothing_is_kept_where_nothing_is_wanted(fake: Fake, experiment: Run, workspace: Path) -> None:
    result = experiment("default", "default", fake().tools, keep=("none",))
    assert not (workspace / "candidates" / result.run).exists()


def test_an_interrupted_experiment_keeps_its_rows(
    fake: Fake, experiment: Run, flagfile: Write, workspace: Path
) -> None:
    stop = Stop()
    stop.request()
    result = experiment("default", flagfile("tiled", TILED), fake().tools, stop=stop)
    assert (result.verdict, result.interrupted) == ("inconclusive", True)
    with Store.open(None, workspace=workspace, create=False) as store:
        assert store.run(result.run).status == "interrupted"
        assert [row.state for row in store.candidates(result.run)] == ["checked", "checked"]


def test_a_resumed_experiment_with_other_files_begins_anew(
    fake: Fake, experiment: Run, flagfile: Write, workspace: Path
) -> None:
    """A flagfile that is another now is another question: the run begins anew, and says so."""
    stop = Stop()
    stop.request()
    first = experiment("default", flagfile("tiled", TILED), fake().tools, stop=stop, device="none")
    flagfile("tiled", TILED, "--iree-opt-level=O1")
    second = experiment("default", workspace.parent / "tiled.flags", fake().tools, resume=True, device="none")
    assert second.run != first.run
    assert any(f"run {first.run} is not continued" in note for note in second.notes)
