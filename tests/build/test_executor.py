"""Builds in threads of this machine, or on other machines, which get a job and its key."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import pytest

from autotuner.build import Builder, BuildJob
from autotuner.build.executor import Answer, BuildExecutor, explicit, work
from autotuner.errors import EnvironmentFailure, OutOfTimeError
from autotuner.iree.compile import CONFIGURED, CompilerRefusal
from autotuner.iree.folder import MODULE
from autotuner.iree.tools import Tools
from autotuner.problems import Gemm
from autotuner.problems.render import problem_mlir
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


def _work(folder: Path, job: BuildJob, key: str) -> Answer:
    os.chdir(folder)
    return work(job, key, Builder(Tools.find(), Cache(folder)))


def test_processes_that_share_nothing_build_the_same(here: Builder, job: BuildJob, tmp_path: Path) -> None:
    """As other machines would: their own cache, and the processor by its name."""
    there = tmp_path / "there"
    there.mkdir()
    with ProcessPoolExecutor(1, get_context("spawn")) as workers, ThreadPoolExecutor(1) as threads:
        executor = BuildExecutor(here, threads, threads, lambda *sent: workers.submit(_work, there, *sent))
        made = executor.start(job).result()
        broken = executor.start(replace(job, program="nonsense")).result()
    assert (made.ok, made.cached) == (True, False)
    assert made.vmfb.is_relative_to(here.cache.root)
    assert made.vmfb.read_bytes() == Cache(there).module(made.key).read_bytes()
    again = here.build(explicit(job, here.tools))
    assert (again.cached, again.vmfb, again.binary, again.isa) == (True, made.vmfb, made.binary, made.isa)
    assert made.binary == here.build(job).binary
    assert broken.failure == "compile-error"
    assert "error:" in broken.stderr
    assert broken.command[0] == str(here.tools.iree_compile), "the command is one of this machine"


def test_a_model_is_compiled_where_its_file_lies(here: Builder, job: BuildJob, tmp_path: Path) -> None:
    model = tmp_path / "model.mlir"
    model.write_text(str(job.program))

    def send(job: BuildJob, key: str) -> Future[Answer]:
        raise AssertionError(f"{job} was sent with {key}")

    with ThreadPoolExecutor(1) as threads:
        assert BuildExecutor(here, threads, threads, send).start(replace(job, program=model)).result().ok


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
    local: BuildExecutor, job: BuildJob, tmp_path: Path
) -> None:
    made = local.start_in(tmp_path / "a", job).result()
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


# --- On another machine ---------------------------------------------------------------------------------------------


def test_a_machine_that_would_build_something_else_refuses(here: Builder, job: BuildJob, tmp_path: Path) -> None:
    other = Builder(replace(here.tools, iree_compile=tmp_path / "iree-compile"), here.cache)
    (tmp_path / "iree-compile").write_text("#!/bin/sh\necho 'IREE compiler version 3.9.0'\n")
    (tmp_path / "iree-compile").chmod(0o755)
    with pytest.raises(EnvironmentFailure, match="something else"):
        work(job, other.key(job), here)


def test_a_job_for_this_processor_gives_the_same_code_on_a_machine_with_another(
    here: Builder, job: BuildJob, tools: Tools, tmp_path: Path
) -> None:
    """The other processor is pretended; what it would build of `host` is its own, so it refuses that."""
    there = Builder(replace(tools), Cache(tmp_path / "there"))
    there.tools.__dict__["processor"] = "another"
    with pytest.raises(EnvironmentFailure, match="its processor"):
        work(job, here.key(job), there)
    named = explicit(job, here.tools)
    assert not any(flag.endswith("=host") for flag in named.flags)
    made, _ = work(named, here.key(named), there)
    assert made.binary == here.build(job).binary


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
