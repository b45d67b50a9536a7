"""Builds go out as plain jobs and come back as plain answers, to threads of this machine or to other machines."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import pytest

from autotuner.build import Builder, BuildJob
from autotuner.build.executor import BuildExecutor
from autotuner.build.jobs import explicit, job_from_json, job_to_json, read_answer, work
from autotuner.carriers.calls import KernelCall
from autotuner.carriers.carrier import SUBSTITUTED
from autotuner.errors import EnvironmentFailure, OutOfTimeError
from autotuner.iree.compile import CONFIGURED, CompilerRefusal
from autotuner.iree.folder import MODULE
from autotuner.iree.tools import Tools
from autotuner.problems import Gemm
from autotuner.problems.render import problem_mlir
from autotuner.space.gpu_config import CompilationInfo
from autotuner.system import process
from autotuner.system.cache import Cache
from autotuner.targets import Target
from tests.support.patience import ENOUGH


@pytest.fixture
def job() -> BuildJob:
    source = problem_mlir(Gemm.parse(shape="16x16x32", dtype="f32"))
    return BuildJob(source, Target.parse("cpu").compile_flags, 120, figures="code")


@pytest.fixture
def here(tools: Tools, tmp_path: Path) -> Builder:
    return Builder(tools, Cache(tmp_path / "here"))


@pytest.fixture
def local(here: Builder) -> Iterator[BuildExecutor]:
    with BuildExecutor.local(here, 1) as executor:
        yield executor


def _elsewhere(folder: str) -> None:
    os.chdir(folder)
    os.environ["AUTOTUNE_CACHE_DIR"] = folder


def test_processes_that_share_nothing_build_the_same(here: Builder, job: BuildJob, tmp_path: Path) -> None:
    """As other machines would: their own cache, and the processor by its name."""
    there = tmp_path / "there"
    there.mkdir()
    with (
        ProcessPoolExecutor(1, get_context("spawn"), _elsewhere, (str(there),)) as workers,
        ThreadPoolExecutor(1) as threads,
    ):
        made = BuildExecutor(here, workers, threads, work).start(job).result()
    assert (made.ok, made.cached) == (True, False)
    assert made.vmfb.is_relative_to(here.cache.root)
    assert made.vmfb.read_bytes() == Cache(there).module(made.key).read_bytes()
    again = here.build(explicit(job, here.tools))
    assert (again.cached, again.vmfb, again.binary, again.isa) == (True, made.vmfb, made.binary, made.isa)
    assert made.binary == here.build(job).binary


def test_a_job_that_is_made_first_needs_no_second_thread_and_its_refusal_is_a_failure(
    local: BuildExecutor, job: BuildJob
) -> None:
    def refuse() -> BuildJob:
        raise KeyError("no such kernel")

    futures = [local.start_made(make, (KeyError,)) for make in (lambda: job, refuse, lambda: job)]
    first, refused, second = (future.result(timeout=ENOUGH) for future in futures)
    assert (first.ok, second.ok, second.cached) == (True, True, True)
    assert refused.failure == "compile-error"
    assert "no such kernel" in refused.stderr


def test_what_is_printed_where_a_job_stops_comes_back_and_a_refusal_in_the_compilers_words(
    local: BuildExecutor, job: BuildJob
) -> None:
    stopped = replace(job, stop=CONFIGURED, dumps=())
    assert "lowering_config" in local.inspect(stopped).result()
    with pytest.raises(CompilerRefusal, match="error:"):
        local.inspect(replace(stopped, program="nonsense")).result()


def test_a_folder_gets_the_module_and_what_it_was_made_from(
    local: BuildExecutor, job: BuildJob, tools: Tools, tmp_path: Path
) -> None:
    made = local.start_in(tmp_path / "a", job, tools).result()
    assert made.vmfb == tmp_path / "a" / MODULE
    assert made.vmfb.read_bytes() == local.builder.build(job).vmfb.read_bytes()
    assert (tmp_path / "a" / "problem.mlir").read_text() == job.program


def test_builds_keep_to_the_deadline_of_whoever_asked(local: BuildExecutor, job: BuildJob) -> None:
    starts: list[Callable[[], object]] = [
        lambda: local.start(job).result(),
        lambda: local.start_made(lambda: job, ()).result(),
    ]
    for start in starts:
        with process.until(time.monotonic() - 1), pytest.raises(OutOfTimeError):
            start()


def test_what_waits_can_be_cancelled(here: Builder, job: BuildJob) -> None:
    busy = threading.Event()
    with ThreadPoolExecutor(1) as threads:
        threads.submit(busy.wait, 60)
        waiting = BuildExecutor.on(threads, here).start(job)
        cancelled = waiting.cancel()
        busy.set()
        assert cancelled
        with pytest.raises(CancelledError):
            waiting.result()
    assert here.cache.read(here.key(job)) is None


# --- A build as plain data ------------------------------------------------------------------------------------------


def test_all_of_a_job_goes_through_json(job: BuildJob) -> None:
    full = replace(
        job,
        spec="a spec",
        spec_flag="--spec",
        repeat=3,
        dumps=SUBSTITUTED,
        figures="code",
        files=(("objects/k.o", bytes(range(256))),),
        expected=CompilationInfo("#config<a>", "#pipeline<b>", "{c}"),
        kernels=(KernelCall("k", ("symbol", "tensor<4xf32>"), "a launch"),),
    )
    for one in (job, full):
        document = json.loads(json.dumps(job_to_json(one, key="k")))
        assert job_from_json(document) == one


def test_a_failure_is_an_answer_too(here: Builder, job: BuildJob) -> None:
    broken = replace(job, program="nonsense")
    answer = json.loads(json.dumps(work(job_to_json(broken, key=here.key(broken)), here)))
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
        work(job_to_json(job, key=other.key(job)), here)


def test_a_whole_model_is_no_plain_job(job: BuildJob, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="where its file lies"):
        job_to_json(replace(job, program=tmp_path / "model.mlir"), key="k")


def test_a_job_for_this_processor_gives_the_same_code_on_a_machine_with_another(
    here: Builder, job: BuildJob, tools: Tools, tmp_path: Path
) -> None:
    """The other processor is pretended; what it would build of `host` is its own, so it refuses that."""
    there = Builder(replace(tools), Cache(tmp_path / "there"))
    there.tools.__dict__["processor"] = "another"
    with pytest.raises(EnvironmentFailure, match="its processor"):
        work(job_to_json(job, key=here.key(job)), there)
    named = explicit(job, here.tools)
    assert not any(flag.endswith("=host") for flag in named.flags)
    answer = work(job_to_json(named, key=here.key(named)), there)
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
