"""All that a compile reads is part of its key: what is left out would be served from another build."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from autotuner.build import Builder, BuildJob
from autotuner.iree.tools import Tools
from autotuner.microkernels.instance import Call, Instance
from autotuner.problems import Gemm
from autotuner.space.gpu_config import CompilationInfo
from autotuner.system.cache import Cache

EXPECTED = CompilationInfo("#config<a>", "#pipeline<a>")


@pytest.fixture
def kernel(tmp_path: Path) -> Path:
    path = tmp_path / "kernel.o"
    path.write_bytes(b"an object")
    return path


@pytest.fixture
def job(tmp_path: Path, kernel: Path) -> BuildJob:
    instance = Instance("k", "k", "x86_64", (kernel,), (), (), (1, 1, 1), None, 0, (1, 1, 1))
    call = Call(instance, Gemm.parse(shape="8x8x8", dtype="f32"))
    return BuildJob(
        "a problem",
        ("--iree-opt-level=O2",),
        tmp_path / "job",
        timeout=60,
        spec="a spec",
        spec_flag="--spec",
        expected=EXPECTED,
        calls=(call,),
    )


@pytest.fixture
def fresh(tools: Tools, tmp_path: Path) -> Builder:
    return Builder(tools, Cache(tmp_path / "cache"))


Change = Callable[[BuildJob], BuildJob]
CHANGES: dict[str, Change] = {
    "problem": lambda job: replace(job, problem="another problem"),
    "spec": lambda job: replace(job, spec="another spec"),
    "no spec": lambda job: replace(job, spec=None),
    "spec flag": lambda job: replace(job, spec_flag="--other"),
    "flags": lambda job: replace(job, flags=("--iree-opt-level=O3",)),
    "repeat": lambda job: replace(job, repeat=2),
    "lowering config": lambda job: replace(job, expected=replace(EXPECTED, lowering_config="#config<b>")),
    "translation": lambda job: replace(job, expected=replace(EXPECTED, translation_info="#pipeline<b>")),
    "nothing expected": lambda job: replace(job, expected=None),
    "substitution": lambda job: replace(job, substitutes=True),
    "remarks": lambda job: replace(job, backend="rocm"),
    "no kernel": lambda job: replace(job, calls=()),
}


@pytest.mark.parametrize("what", CHANGES)
def test_what_a_compile_is_told_is_part_of_its_key(fresh: Builder, job: BuildJob, what: str) -> None:
    assert fresh.key(CHANGES[what](job)) != fresh.key(job)


def test_the_folder_and_the_patience_are_not_part_of_the_key(fresh: Builder, job: BuildJob, tmp_path: Path) -> None:
    assert fresh.key(replace(job, folder=tmp_path / "elsewhere", timeout=1)) == fresh.key(job)


def test_an_object_that_changes_and_keeps_its_name_changes_the_key(fresh: Builder, job: BuildJob, kernel: Path) -> None:
    before = fresh.key(job)
    kernel.write_bytes(b"AN OBJECT")
    assert fresh.key(job) != before


def test_files_beside_an_object_that_a_flag_leads_to_are_not_part_of_the_key(
    fresh: Builder, job: BuildJob, kernel: Path
) -> None:
    """The folder of objects has more in it than one compile reads."""
    led = replace(job, flags=(f"--iree-hal-executable-object-search-path={kernel.parent}",))
    before = fresh.key(led)
    (kernel.parent / "another.o").write_bytes(b"another")
    assert fresh.key(led) == before
    kernel.write_bytes(b"AN OBJECT")
    assert fresh.key(led) != before


def test_a_file_that_a_flag_names_is_part_of_the_key(fresh: Builder, job: BuildJob, tmp_path: Path) -> None:
    spec = tmp_path / "my-spec.mlir"
    named = replace(job, flags=(f"--iree-codegen-tuning-spec-path={spec}",))
    absent = fresh.key(named)
    spec.write_text("module {}")
    before = fresh.key(named)
    spec.write_text("module { }")
    assert len({absent, before, fresh.key(named)}) == 3


def test_another_compiler_gives_another_key(fresh: Builder, job: BuildJob, tmp_path: Path) -> None:
    script = tmp_path / "iree-compile"

    def key(version: str) -> str:
        script.write_text(f"#!/bin/sh\necho 'IREE compiler version {version}'\n")
        script.chmod(0o755)
        return Builder(replace(fresh.tools, iree_compile=script), fresh.cache).key(job)

    assert key("3.12.0") != key("3.13.0")
    assert key("3.12.0") == key("3.12.0")


def test_another_ptxas_gives_another_key_for_cuda(fresh: Builder, job: BuildJob, tmp_path: Path) -> None:
    ptxas = tmp_path / "ptxas"
    ptxas.write_text("1")
    with_it = Builder(replace(fresh.tools, ptxas=ptxas), fresh.cache)
    without = Builder(replace(fresh.tools, ptxas=None), fresh.cache)
    cuda = replace(job, backend="cuda")
    first = with_it.key(cuda)
    ptxas.write_text("2")
    assert len({first, with_it.key(cuda), without.key(cuda)}) == 3
    assert with_it.key(job) == without.key(job)
