"""Candidates of one problem share the first half of their compile; the module is the same as without."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from autotuner.build import Builder, BuildJob
from autotuner.carriers.microkernel import SPEC_FLAG
from autotuner.iree.compile import DISPATCHES, compile_program
from autotuner.iree.program import spliced, with_repeats
from autotuner.iree.tools import Tools
from autotuner.problems import Gemm, Problem
from autotuner.problems.conv import Conv
from autotuner.problems.render import problem_mlir
from autotuner.space.prune import RULES, STRIDED
from autotuner.system import process
from autotuner.system.cache import Cache
from autotuner.targets import Target
from autotuner.tuning.plan import Candidate, Plan
from benchmarks import success

MakePlan = Callable[[Problem, str], Plan]
MakeJob = Callable[[Plan, Candidate], BuildJob]

SMALL = Gemm.parse(shape="64x64x64", dtype="f32")
HALF = Gemm.parse(shape="64x64x64", dtype="f16")
IMAGE = Conv.parse(shape="1x12x12x16", filter="3x3x32", pad="1x1", dtype="f32")
"""A batch of one: on cpu a spec does not reach it, so an executable is substituted."""


@pytest.fixture
def job(make_plan: MakePlan, make_job: MakeJob) -> BuildJob:
    plan = make_plan(SMALL, "plain")
    return make_job(plan, plan.candidate(plan.first[0], id="c0"))


def logged(tools: Tools, folder: Path, script: str = "", *, passes: str = "") -> Tools:
    """The programs, which write down what they are told; before, iree-compile does what the script says, iree-opt what
    `passes` says."""
    for program, before in ((tools.iree_compile, script), (tools.iree_opt, passes)):
        wrapper = folder / program.name
        wrapper.write_text(
            f'#!/bin/sh\n[ "$1" = --version ] && exec "{program}" --version\necho "$@" >> {folder}/log\n'
            f'{before}\nexec "{program}" "$@"\n'
        )
        wrapper.chmod(0o755)
    return replace(tools, iree_compile=folder / tools.iree_compile.name)


def compiles(folder: Path) -> list[str]:
    """Which part of a compile each call was."""
    lines = (folder / "log").read_text().splitlines()
    named = {
        "--compile-to=executable-sources": "start",
        "--compile-from=executable-sources": "rest",
        "--compile-from=hal": "link",
        "--pass-pipeline=": "executables",
    }
    return [next((part for flag, part in named.items() if flag in line), "whole") for line in lines]


def calls(tools: Tools, module: Path) -> dict[str, int]:
    """How often a call of a module calls each of its dispatches, as IREE's own statistics have it."""
    inputs = [f"--input={size}" for size in ("64x64xf32=1", "64x64xf32=1", "64x64xf32")]
    words = [f"--module={module}", "--function=main", "--device=local-task", *inputs]
    told = ["--dispatch_statistics=true", "--benchmark_format=json", "--benchmark_min_time=1x"]
    done = process.run([tools.iree_benchmark_module, *words, *told], timeout=60)
    rows = json.loads(done.stdout)["benchmarks"]
    return {row["name"]: int(row["calls"]) for row in rows if "calls" in row}


@pytest.mark.parametrize(
    ("problem", "target", "timed"),
    [(SMALL, "plain", True), (IMAGE, "plain", False), (HALF, "gfx942", True)],
)
def test_a_module_is_the_same_whether_its_parts_were_shared_or_not(
    make_plan: MakePlan, make_job: MakeJob, tools: Tools, tmp_path: Path, problem: Problem, target: str, timed: bool
) -> None:
    plan = make_plan(problem, target)
    # In the middle of the space: not what the compiler would do by itself.
    asked = replace(make_job(plan, plan.candidate(plan.space[len(plan.space) // 2], id="c1")), timed=timed)
    (tmp_path / "log").touch()
    shared = Builder(logged(tools, tmp_path), Cache(tmp_path / "cache")).build(asked)
    # IREE's own configuration is compiled with the host's program and without, and the candidate without.
    assert compiles(tmp_path) == (["start", "rest", *["executables"] * 2, "link"] if timed else ["start", "rest"])
    whole = compile_program(asked, tools, tmp_path / "whole")
    assert (shared.failure, shared.applied) == (None, 1)
    assert (shared.binary, shared.isa, shared.stderr) == (whole.binary, whole.isa, whole.stderr)
    assert shared.vmfb.read_bytes() == whole.vmfb.read_bytes()
    assert shared.command[1:] == whole.command[1:]


@pytest.mark.parametrize("end", ["kill -SEGV $$", "echo no >module.vmfb; exit"])
def test_executables_that_fail_alone_are_compiled_as_a_user_would(
    job: BuildJob, tools: Tools, tmp_path: Path, end: str
) -> None:
    passes = f'case "$*" in *tuning-spec*) {end};; esac'
    build = Builder(logged(tools, tmp_path, passes=passes), Cache(tmp_path / "cache")).build(replace(job, timed=True))
    assert (build.failure, build.applied, build.stderr) == (None, 1, "")
    assert compiles(tmp_path)[:4] == ["start", "rest", "executables", "executables"]
    assert len(compiles(tmp_path)) == 6


def test_a_flag_that_only_the_compiler_knows_costs_one_try(job: BuildJob, tools: Tools, tmp_path: Path) -> None:
    builder = Builder(logged(tools, tmp_path), Cache(tmp_path / "cache"))
    asked = replace(job, flags=(*job.flags, "--iree-opt-level=O1"), timed=True)
    assert asked.spec is not None
    for spec in (asked.spec, f"{asked.spec}\n"):
        assert builder.build(replace(asked, spec=spec)).applied == 1
    assert compiles(tmp_path) == ["start", "rest", "executables", "rest", "link", "rest", "link"]


def test_a_build_of_iree_without_iree_opt_will_do(job: BuildJob, tools: Tools, tmp_path: Path) -> None:
    for program in (tools.iree_compile, tools.iree_run_module, tools.iree_benchmark_module):
        (tmp_path / program.name).symlink_to(program)
    own = Tools.find(tmp_path)
    assert not own.passes_match
    build = Builder(own, Cache(tmp_path / "cache")).build(replace(job, timed=True, repeat=2))
    assert (build.failure, build.applied) == (None, 1)


def test_executables_of_another_problem_do_not_fit(builder: Builder) -> None:
    flags = Target.parse("cpu").compile_flags
    small, half = (BuildJob(problem_mlir(problem), flags, 120).translation for problem in (SMALL, HALF))
    host, own, other = (builder.build(each).vmfb.read_bytes() for each in (small, small.executables, half.executables))
    program = spliced(host, own)
    assert program is not None
    assert with_repeats(program, 1) == with_repeats(host, 1)
    assert spliced(host, other) is None
    assert spliced(host, b"no bytecode") is None


def test_the_executables_are_compiled_once_for_all_repeats(tools: Tools, tmp_path: Path) -> None:
    flags = Target.parse("cpu").compile_flags
    asked = BuildJob(problem_mlir(SMALL), flags, 120, dumps=("configurations", "binaries"), timed=True)
    logging = logged(tools, tmp_path)
    once, often = (
        Builder(logging, Cache(tmp_path / "cache")).build(replace(asked, repeat=repeat)) for repeat in (1, 9)
    )
    assert compiles(tmp_path) == ["start", "rest", "link", "link"]
    assert once.binary == often.binary
    assert (once.repeat, often.repeat) == (1, 9)
    assert once.cached is False


@pytest.mark.parametrize(("route", "dispatches"), [((), 1), (("--iree-opt-data-tiling",), 3)])
def test_a_call_repeats_each_dispatch_as_often_as_asked(
    builder: Builder, tools: Tools, route: tuple[str, ...], dispatches: int
) -> None:
    asked = BuildJob(problem_mlir(SMALL), (*Target.parse("cpu").compile_flags, *route), 120, timed=True)
    once, often = (calls(tools, builder.build(replace(asked, repeat=repeat)).vmfb) for repeat in (1, 9))
    assert list(once.values()) == [1] * dispatches
    assert often == dict.fromkeys(once, 9)


@pytest.mark.parametrize(
    "script",
    [
        'case "$*" in *--compile-from*) echo "x.mlir:1:1: error: halfway" >&2; exit 1;; esac',
        'case "$*" in *--compile-to*) echo "x.mlir:1:1: error: no start" >&2; exit 1;; esac',
    ],
)
def test_what_fails_halfway_is_compiled_as_a_user_would(
    job: BuildJob, tools: Tools, tmp_path: Path, script: str
) -> None:
    build = Builder(logged(tools, tmp_path, script), Cache(tmp_path / "cache")).build(job)
    assert (build.failure, build.applied, build.stderr) == (None, 1, "")
    assert compiles(tmp_path)[-1] == "whole"


def test_a_failure_has_the_words_that_a_user_gets(job: BuildJob, tools: Tools, tmp_path: Path) -> None:
    script = (
        'case "$*" in *--compile-from*) echo "error: half" >&2; exit 1;; *spec*) echo "error: all" >&2; exit 1;; esac'
    )
    build = Builder(logged(tools, tmp_path, script), Cache(tmp_path / "cache")).build(job)
    assert (build.failure, build.stderr) == ("compile-error", "error: all")
    assert build.lasting


def test_what_only_the_verifier_refuses_is_refused(tools: Tools, executor: Executor, tmp_path: Path) -> None:
    """Without the verifier IREE makes a module of it."""
    builder = Builder(logged(tools, tmp_path), Cache(tmp_path / "cache"))
    problem = Conv.parse(shape="2x17x17x64", filter="3x3x64", stride="2x2", dtype="f16")
    plan = success.make_plan(problem, "sm_80", builder, executor)
    rules = [success.inverted(STRIDED), *(rule for rule in RULES if rule is not STRIDED)]
    strided = success.with_space(plan, success.read_space(plan, builder, rules))
    rows = strided.space.sample(2, np.random.default_rng(0))
    candidates = [strided.candidate(strided.space[int(row)], id="c") for row in rows]
    builds = [builder.build(strided.job(each, timeout=120, repeat=2, timed=True)) for each in candidates]
    assert [build.failure for build in builds] == ["compile-error"] * 2
    assert all("projected permutation" in build.stderr for build in builds)
    assert compiles(tmp_path).count("executables") == 3


def test_a_time_out_is_not_tried_again(job: BuildJob, tools: Tools, tmp_path: Path) -> None:
    builder = Builder(
        logged(tools, tmp_path, 'case "$*" in *--compile-from*) sleep 60;; esac'), Cache(tmp_path / "cache")
    )
    assert job.start is not None
    assert builder.build(job.start).ok
    late = builder.build(replace(job, timeout=1.0))
    assert late.failure == "compile-timeout"
    assert compiles(tmp_path) == ["start", "rest"]


@pytest.mark.parametrize("target", ["cpu", "gfx942", "sm_80"])
def test_a_spec_is_read_after_the_start_but_for_what_changes_the_program_before(target: str, tmp_path: Path) -> None:
    chip = Target.parse(target)
    asked = BuildJob(problem_mlir(HALF), chip.compile_flags, 60, "module {}", chip.spec_flag)
    assert asked.start is not None
    assert asked.start.spec is None
    assert replace(asked, spec_flag=SPEC_FLAG).start is None
    assert replace(asked, program=tmp_path / "model.mlir").start is None


def test_a_dispatch_that_comes_from_a_later_phase_goes_on_from_where_its_start_ended(
    job: BuildJob, tools: Tools
) -> None:
    """Of two phases to begin with the compiler takes the last: with that of the dispatch no spec would be read."""
    words = replace(job, flags=("--compile-from=flow", *job.flags)).rest(tools, DISPATCHES)
    assert [word for word in words if word.startswith("--compile-from=")] == ["--compile-from=executable-sources"]
