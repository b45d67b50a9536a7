"""Experiments with a problem of its own: real compiles, proofs and checks; the times are chosen."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from autotuner import Gemm
from autotuner.errors import NoCandidateError
from autotuner.jobs.ab.result import AbResult
from autotuner.problems import Problem
from autotuner.store.store import Store
from autotuner.system.progress import Stop
from autotuner.tuning.plan import Plan
from autotuner.tuning.printer import Printer
from tests.jobs.ab.conftest import PROBLEM, TILED
from tests.support.fake_tools import BASE_MS, SPEC, FakeTools
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
