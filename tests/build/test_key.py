"""All that a compile reads is part of its key: what is left out would be served from another build."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from autotuner.build import Builder, BuildJob
from autotuner.carriers.calls import kernel_calls
from autotuner.carriers.carrier import SUBSTITUTED
from autotuner.carriers.microkernel import object_files
from autotuner.iree.tools import Tools
from autotuner.microkernels.instance import Binding, Call, Instance
from autotuner.problems import Gemm
from autotuner.problems.render import problem_mlir
from autotuner.space.dispatch import CompilationInfo
from autotuner.system.cache import Cache
from autotuner.targets import Target
from tests.support.patience import ENOUGH

PROBLEM = Gemm.parse(shape="8x8x8", dtype="f32")
EXPECTED = CompilationInfo("#config<a>", "#pipeline<a>")


@pytest.fixture
def kernel(tmp_path: Path) -> Path:
    path = tmp_path / "kernel.o"
    path.write_bytes(b"an object")
    return path


def make_job(kernel: Path) -> BuildJob:
    bindings = tuple(Binding(i, "write" if i == 2 else "read", operand) for i, operand in enumerate(PROBLEM.operands))
    instance = Instance("k", "k", "x86_64", (kernel,), bindings, (), (1, 1, 1), None, 0, (1, 1, 1))
    return BuildJob(
        "a problem",
        ("--iree-opt-level=O2",),
        timeout=60,
        spec="a spec",
        spec_flag="--spec",
        expected=EXPECTED,
        files=object_files([instance]),
        kernels=kernel_calls([Call(instance, PROBLEM)]),
    )


@pytest.fixture
def job(kernel: Path) -> BuildJob:
    return make_job(kernel)


Change = Callable[[BuildJob], BuildJob]
CHANGES: dict[str, Change] = {
    "problem": lambda job: replace(job, program="another problem"),
    "spec": lambda job: replace(job, spec="another spec"),
    "no spec": lambda job: replace(job, spec=None),
    "spec flag": lambda job: replace(job, spec_flag="--other"),
    "flags": lambda job: replace(job, flags=("--iree-opt-level=O3",)),
    "repeat": lambda job: replace(job, repeat=2),
    "lowering config": lambda job: replace(job, expected=replace(EXPECTED, lowering_config="#config<b>")),
    "translation": lambda job: replace(job, expected=replace(EXPECTED, translation_info="#pipeline<b>")),
    "nothing expected": lambda job: replace(job, expected=None),
    "substitution": lambda job: replace(job, dumps=SUBSTITUTED),
    "remarks": lambda job: replace(job, figures="remarks"),
    "figures": lambda job: replace(job, figures="code"),
    "no kernel": lambda job: replace(job, kernels=()),
    "another launch": lambda job: replace(job, kernels=(replace(job.kernels[0], launch="another"),)),
    "no object": lambda job: replace(job, files=()),
    "another name": lambda job: replace(job, files=(("objects/other.o", job.files[0][1]),)),
}


@pytest.mark.parametrize("what", CHANGES)
def test_what_a_compile_is_told_is_part_of_its_key(fresh: Builder, job: BuildJob, what: str) -> None:
    assert fresh.key(CHANGES[what](job)) != fresh.key(job) == fresh.key(replace(job, timeout=1))


def test_a_models_file_counts_by_its_content_wherever_it_lies(fresh: Builder, job: BuildJob, tmp_path: Path) -> None:
    one, other = tmp_path / "one.mlir", tmp_path / "other.mlir"
    for path in (one, other):
        path.write_text("a problem")
    as_file = replace(job, program=one)
    assert fresh.key(as_file) == fresh.key(replace(job, program=other)) != fresh.key(job)
    other.write_text("another problem")
    assert fresh.key(as_file) != fresh.key(replace(job, program=other))


def test_a_models_module_is_the_same_wherever_its_file_lies(tools: Tools, tmp_path: Path) -> None:
    """Where it lies would be part of the binaries: a build that is kept would not be what ships from another place."""
    made = []
    for place in ("here", "there"):
        (tmp_path / place).mkdir()
        path = tmp_path / place / f"{place}.mlir"
        path.write_text(problem_mlir(Gemm.parse(shape="8x8x8", dtype="f32")))
        builder = Builder(tools, Cache(tmp_path / f"cache-{place}"))
        made.append(builder.build(BuildJob(path, Target.parse("cpu").compile_flags, timeout=ENOUGH)))
        assert not made[-1].cached
        assert made[-1].command[1] == str(path)
        assert path.is_file()
    one, other = made
    assert one.binary == other.binary
    assert one.vmfb.read_bytes() == other.vmfb.read_bytes()


def test_what_the_compiler_says_of_a_model_names_its_file(tools: Tools, tmp_path: Path) -> None:
    path = tmp_path / "broken.mlir"
    path.write_text("func.func @main() { no }")
    broken = Builder(tools, Cache(tmp_path)).build(BuildJob(path, Target.parse("cpu").compile_flags, timeout=ENOUGH))
    assert broken.failure == "compile-error"
    assert f"{path}:1:" in broken.stderr


def test_an_object_that_changes_and_keeps_its_name_changes_the_key(fresh: Builder, job: BuildJob, kernel: Path) -> None:
    kernel.write_bytes(b"AN OBJECT")
    assert fresh.key(make_job(kernel)) != fresh.key(job)


def test_a_folder_that_a_flag_names_is_part_of_the_key_with_all_that_is_in_it(
    fresh: Builder, job: BuildJob, kernel: Path
) -> None:
    """Nobody here knows which of its files a compile reads."""
    led = replace(job, flags=(f"--iree-hal-executable-object-search-path={kernel.parent}",))
    kernel.unlink()
    absent = fresh.key(led)
    kernel.write_bytes(b"an object")
    before = fresh.key(led)
    assert before != absent
    (kernel.parent / "another.o").write_bytes(b"another")
    beside = fresh.key(led)
    assert beside != before
    kernel.write_bytes(b"AN OBJECT")
    assert fresh.key(led) not in (before, beside)


def test_another_compiler_gives_another_key(fresh: Builder, job: BuildJob, tmp_path: Path) -> None:
    script = tmp_path / "iree-compile"

    def key(version: str) -> str:
        script.write_text(f"#!/bin/sh\necho 'IREE compiler version {version}'\n")
        script.chmod(0o755)
        return Builder(replace(fresh.tools, iree_compile=script), fresh.cache).key(job)

    assert key("3.12.0") != key("3.13.0")
    assert key("3.12.0") == key("3.12.0")
