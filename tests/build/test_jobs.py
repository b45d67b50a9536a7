"""A build is a plain job: it goes through JSON, runs in another process and folder, and its answer is plain too."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import autotuner
from autotuner.build import Builder, BuildJob
from autotuner.build.jobs import answer_from_json, answer_to_json, job_from_json, job_to_json, work
from autotuner.carriers.calls import KernelCall
from autotuner.carriers.carrier import SUBSTITUTED
from autotuner.carriers.render import problem_mlir
from autotuner.errors import EnvironmentFailure
from autotuner.iree.tools import Tools
from autotuner.problems import Gemm
from autotuner.space.gpu_config import CompilationInfo
from autotuner.system.cache import Cache
from autotuner.targets import Target

WORKER = """
import json, sys
from autotuner.build.jobs import work
print(json.dumps(work(json.load(sys.stdin))))
"""


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
        document = json.loads(json.dumps(job_to_json(one, key="k")))
        assert job_from_json(document) == one


def test_a_job_runs_in_a_fresh_process_in_another_folder(here: Builder, job: BuildJob, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    checkout = str(Path(autotuner.__file__).parent.parent)
    done = subprocess.run(
        [sys.executable, "-c", WORKER],
        cwd=elsewhere,
        env={**os.environ, "AUTOTUNE_CACHE_DIR": str(tmp_path / "there"), "PYTHONPATH": checkout},
        input=json.dumps(job_to_json(job, key=here.key(job))),
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    answer = json.loads(done.stdout)
    assert str(tmp_path) not in json.dumps({name: value for name, value in answer.items() if name != "command"})
    made = answer_from_json(answer, here.cache)
    assert made.ok
    assert not made.cached
    assert made.vmfb.is_relative_to(tmp_path / "here")
    assert made.vmfb.read_bytes() == Builder(here.tools, Cache(tmp_path / "there")).build(job).vmfb.read_bytes()
    again = here.build(job)
    assert again.cached
    assert (again.vmfb, again.binary, again.isa) == (made.vmfb, made.binary, made.isa)


def test_a_failure_is_an_answer_too(here: Builder, job: BuildJob) -> None:
    broken = replace(job, program="nonsense")
    answer = json.loads(json.dumps(work(job_to_json(broken, key=here.key(broken)), here)))
    assert answer["module"] is None
    made = answer_from_json(answer, here.cache)
    assert made.failure == "compile-error"
    assert "error:" in made.stderr
    assert answer_to_json(made) == answer


def test_a_machine_that_would_build_something_else_refuses(here: Builder, job: BuildJob, tmp_path: Path) -> None:
    other = Builder(replace(here.tools, iree_compile=tmp_path / "iree-compile"), here.cache)
    (tmp_path / "iree-compile").write_text("#!/bin/sh\necho 'IREE compiler version 3.9.0'\n")
    (tmp_path / "iree-compile").chmod(0o755)
    with pytest.raises(EnvironmentFailure, match="something else"):
        work(job_to_json(job, key=other.key(job)), here)


def test_a_whole_model_is_no_plain_job(job: BuildJob, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="where its file lies"):
        job_to_json(replace(job, program=tmp_path / "model.mlir"), key="k")
