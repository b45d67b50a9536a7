"""A build is a plain job: it goes through JSON, runs in another process and folder, and its answer is plain too."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from autotuner.build import Builder, BuildJob
from autotuner.build.jobs import explicit, job_from_json, job_to_json, read_answer, work
from autotuner.carriers.calls import KernelCall
from autotuner.carriers.carrier import SUBSTITUTED
from autotuner.errors import EnvironmentFailure
from autotuner.iree.tools import Tools
from autotuner.problems import Gemm
from autotuner.problems.render import problem_mlir
from autotuner.space.gpu_config import CompilationInfo
from autotuner.system.cache import Cache
from autotuner.targets import Target


@pytest.fixture
def job() -> BuildJob:
    source = problem_mlir(Gemm.parse(shape="16x16x32", dtype="f32"))
    return BuildJob(source, Target.parse("cpu").compile_flags, 120, figures="code")


@pytest.fixture
def here(tools: Tools, tmp_path: Path) -> Builder:
    return Builder(tools, Cache(tmp_path / "here"))


def test_all_of_a_job_goes_through_json(job: BuildJob) -> None:
    full = replace(
        job,
        spec="a spec",
        spec_flag="--spec",
        repeat=3,
        dumps=SUBSTITUTED,
        figures="ptxas",
        files=(("objects/k.o", bytes(range(256))),),
        expected=CompilationInfo("#config<a>", "#pipeline<b>", "{c}"),
        kernels=(KernelCall("k", ("symbol", "tensor<4xf32>"), "a launch"),),
    )
    for one in (job, full):
        document = json.loads(json.dumps(job_to_json(one, key="k", whole=True)))
        assert job_from_json(document) == one


def test_a_failure_is_an_answer_too(here: Builder, job: BuildJob) -> None:
    broken = replace(job, program="nonsense")
    answer = json.loads(json.dumps(work(job_to_json(broken, key=here.key(broken), whole=True), here)))
    assert answer["module"] is None
    made = read_answer(broken, here, answer, key=here.key(broken))
    assert made.failure == "compile-error"
    assert "error:" in made.stderr
    assert made.command == broken.command(here.tools)


def test_a_machine_that_would_build_something_else_refuses(here: Builder, job: BuildJob, tmp_path: Path) -> None:
    other = Builder(replace(here.tools, iree_compile=tmp_path / "iree-compile"), here.cache)
    (tmp_path / "iree-compile").write_text("#!/bin/sh\necho 'IREE compiler version 3.9.0'\n")
    (tmp_path / "iree-compile").chmod(0o755)
    with pytest.raises(EnvironmentFailure, match="something else"):
        work(job_to_json(job, key=other.key(job), whole=True), here)


def test_a_whole_model_is_no_plain_job(job: BuildJob, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="where its file lies"):
        job_to_json(replace(job, program=tmp_path / "model.mlir"), key="k", whole=True)


def test_a_job_for_this_processor_gives_the_same_code_on_a_machine_with_another(
    here: Builder, job: BuildJob, tools: Tools, tmp_path: Path
) -> None:
    """The other processor is pretended; what it would build of `host` is its own, so it refuses that."""
    there = Builder(replace(tools), Cache(tmp_path / "there"))
    there.tools.__dict__["processor"] = "another"
    with pytest.raises(EnvironmentFailure, match="its processor"):
        work(job_to_json(job, key=here.key(job), whole=True), there)
    named = explicit(job, here.tools)
    assert not any(flag.endswith("=host") for flag in named.flags)
    answer = work(job_to_json(named, key=here.key(named), whole=True), there)
    assert answer["binary"] == here.build(job).binary


def test_what_is_not_for_this_processor_has_the_same_key_everywhere(
    here: Builder, job: BuildJob, tools: Tools, tmp_path: Path
) -> None:
    there = Builder(replace(tools), Cache(tmp_path / "there"))
    there.tools.__dict__["processor"] = "another"
    gpu = replace(job, flags=Target.parse("gfx942").compile_flags)
    assert there.key(gpu) == here.key(gpu)
    assert there.key(job) != here.key(job)
    in_a_file = replace(gpu, flags=("@some.flags",))
    assert there.key(in_a_file) != here.key(in_a_file)
