"""What becomes of a compile: every way to fail has its class and keeps its words; the same job is compiled once."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autotuner.build import Builder, BuildJob
from autotuner.carriers.render import spec_mlir
from autotuner.errors import EnvironmentFailure, StorageError
from autotuner.iree.compile import compile_program
from autotuner.iree.folder import write_inputs
from autotuner.iree.tools import Tools
from autotuner.problems import Gemm
from autotuner.problems.render import problem_mlir
from autotuner.targets import Target
from autotuner.tuning.plan import Candidate, Plan
from tests.support.other_compiler import instead_of_compiler
from tests.support.patience import ENOUGH

MakePlan = Callable[[Gemm, str], Plan]
MakeJob = Callable[[Plan, Candidate], BuildJob]

SMALL = Gemm.parse(shape="16x16x16", dtype="f32")


@pytest.fixture
def job() -> BuildJob:
    return BuildJob(problem_mlir(SMALL), Target.parse("cpu").compile_flags, timeout=120)


def test_a_build_gives_a_module_leaves_nothing_else_and_is_kept(fresh: Builder, job: BuildJob) -> None:
    first, second = fresh.build(job), fresh.build(job)
    assert (first.failure, first.ok, first.cached, first.applied) == (None, True, False, 0)
    assert len(first.binary) == 64
    assert {path.name for path in fresh.cache.builds.iterdir()} == {first.key[:2], "CACHEDIR.TAG"}
    assert (second.cached, second.seconds) == (True, 0.0)
    assert (second.key, second.binary, second.vmfb) == (first.key, first.binary, first.vmfb)
    assert second.took == first.took == first.seconds > 0


def test_the_command_repeats_the_build_by_hand(fresh: Builder, job: BuildJob, tmp_path: Path) -> None:
    build = fresh.build(job)
    by_hand = tmp_path / "by-hand"
    write_inputs(job, by_hand)
    subprocess.run(build.command, cwd=by_hand, check=True, timeout=ENOUGH)
    assert (by_hand / "module.vmfb").read_bytes() == build.vmfb.read_bytes()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"program": "func.func @main( {"}, "problem.mlir:1:"),
        ({"flags": ("--iree-no-such-flag",)}, "--iree-no-such-flag"),
    ],
)
def test_a_compile_error_keeps_what_the_compiler_said_and_is_served_from_the_cache(
    fresh: Builder, job: BuildJob, changes: dict[str, Any], words: str
) -> None:
    build, again = (fresh.build(replace(job, **changes)) for _ in range(2))
    assert (build.failure, build.ok, build.binary) == ("compile-error", False, "")
    assert words in build.stderr
    assert not build.vmfb.exists()
    assert (again.failure, again.stderr, again.cached) == (build.failure, build.stderr, True)


def test_a_time_out_is_not_remembered(fresh: Builder, job: BuildJob) -> None:
    late = fresh.build(replace(job, timeout=0.01))
    assert late.failure == "compile-timeout"
    assert "killed after" in late.stderr
    assert not late.vmfb.exists()
    assert fresh.cache.size() == (0, 0)
    patient = fresh.build(job)
    assert patient.ok
    assert not patient.cached
    assert patient.key == late.key
    again = fresh.build(replace(job, timeout=0.01))
    assert again.ok
    assert again.cached


ILL_ENDS = {
    "kill -KILL $$": "ended by SIGKILL",
    "echo 'PLEASE submit a bug report' >&2; kill -SEGV $$": "ended by SIGSEGV\nPLEASE submit",
    "echo 'x.mlir:1:1: error: assertion' >&2; kill -ABRT $$": "ended by SIGABRT\nx.mlir:1:1",
    "exit 137": "exit code 137",
    "echo 'x.mlir:1:1: error: no' >&2; exit 143": "x.mlir:1:1: error: no",
    "exit 7": "exit code 7",
    "echo 'error: std::bad_alloc' >&2; exit 1": "error: std::bad_alloc",
    "echo 'LLVM ERROR: out of memory' >&2; exit 1": "LLVM ERROR",
    "echo 'error: cannot open: Cannot allocate memory' >&2; exit 1": "error: cannot open",
    "echo 'error: cannot open: Too many open files' >&2; exit 1": "error: cannot open",
    "echo 'Linking failed: command line returned exit code 137' >&2; echo 'error: linking' >&2; exit 1": "Linking",
}


def test_an_end_that_may_be_the_machines_doing_is_told_and_not_remembered(
    tools: Tools, fresh: Builder, job: BuildJob, tmp_path: Path
) -> None:
    """The compiler does in `tmp_path` what a file there says, and is well when there is none."""
    end = tmp_path / "end"
    ill = Builder(instead_of_compiler(tools, tmp_path, f'[ -e {end} ] || exec REAL "$@"\n. {end}'), fresh.cache)
    keys = set()
    for script, words in ILL_ENDS.items():
        end.write_text(script)
        failed = ill.build(job)
        assert failed.failure == "compile-error", script
        assert failed.stderr.startswith(words)
        assert fresh.cache.size() == (0, 0), script
        keys.add(failed.key)
    end.unlink()
    again = ill.build(job)
    assert {again.key} == keys
    assert again.ok
    assert not again.cached


def test_a_compiler_that_ends_by_itself_with_an_error_is_believed(
    tools: Tools, fresh: Builder, job: BuildJob, tmp_path: Path
) -> None:
    refusing = Builder(instead_of_compiler(tools, tmp_path, "echo 'x.mlir:1:1: error: no' >&2; exit 1"), fresh.cache)
    assert not refusing.build(job).cached
    assert refusing.build(job).cached


def test_a_full_disk_is_neither_a_result_nor_remembered(
    tools: Tools, fresh: Builder, job: BuildJob, tmp_path: Path
) -> None:
    full = instead_of_compiler(tools, tmp_path, "echo 'error: No space left on device' >&2; exit 1")
    with pytest.raises(StorageError, match="No space left"):
        Builder(full, fresh.cache).build(job)
    assert fresh.cache.size() == (0, 0)


def test_what_an_interrupted_compile_left_behind_does_not_count(tools: Tools, job: BuildJob, tmp_path: Path) -> None:
    clean = compile_program(job, tools, tmp_path / "clean")
    used = tmp_path / "used"
    for name in ("binaries", "configurations"):
        (used / name).mkdir(parents=True)
        (used / name / "left_behind.mlir").write_text("module {}")
    (used / "module.vmfb").write_text("half")
    again = compile_program(job, tools, used)
    assert (again.binary, again.texts) == (clean.binary, clean.texts)
    assert again.vmfb.read_bytes() == clean.vmfb.read_bytes()
    assert sorted(path.name for path in used.iterdir()) == ["module.vmfb", "problem.mlir"]
    assert (clean.command, list(clean.executables)) == (again.command, ["main_dispatch_0"])


def test_a_folder_that_cannot_be_written_says_what_to_do(tools: Tools, job: BuildJob, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EnvironmentFailure, match="cannot write") as caught:
        compile_program(job, tools, tmp_path / "file" / "job")
    assert "--workspace" in caught.value.remedy


def test_threads_that_build_the_same_job_compile_it_once(fresh: Builder, job: BuildJob) -> None:
    with ThreadPoolExecutor(2) as pool:
        builds = list(pool.map(fresh.build, [job] * 2))
    assert all(b.ok for b in builds)
    assert sorted(b.cached for b in builds) == [False, True]
    assert len({(b.key, b.binary, b.vmfb) for b in builds}) == 1
    assert fresh.cache.size()[0] == 1
    assert list(fresh.cache.builds.glob(".making-*")) == []


def test_binaries_are_equal_when_specs_mean_the_same(
    make_plan: MakePlan, make_job: MakeJob, builder: Builder, executor: Executor
) -> None:
    plan = make_plan(Gemm.parse(shape="64x64x64", dtype="f32"), "plain")
    own = plan.first[0]
    assert own["route"] == "plain"
    candidate = plan.candidate(own, id="c0")
    assert candidate.info is not None
    assert candidate.dispatch is not None
    spelt = replace(candidate.info, lowering_config=candidate.info.lowering_config.replace(", ", ",   "))
    renamed = spec_mlir(name="another_name", dispatch=candidate.dispatch, info=spelt, header=["a comment"])
    other = plan.candidate(plan.space[plan.space.nearest({**own.as_dict(), "vector_m": 2, "vector_k": 1})], id="c1")
    assert other.info != candidate.info
    job = make_job(plan, candidate)
    jobs = [job, replace(make_job(plan, candidate), spec=renamed, expected=spelt), make_job(plan, other)]
    jobs.append(replace(make_job(plan, candidate), repeat=8))
    first, same, different, repeated = executor.map(builder.build, jobs)
    assert all(b.ok for b in (first, same, different, repeated))
    assert len({b.key for b in (first, same, different, repeated)}) == 4
    assert same.binary == first.binary
    assert different.binary != first.binary
    assert repeated.binary == first.binary
    assert repeated.vmfb.read_bytes() != first.vmfb.read_bytes()
    assert (repeated.repeat, first.repeat) == (8, 1)
