"""Which backends take part: by name, by what is installed, by what each can compute; and what `tuned` is."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from autotuner.devices import child_base
from autotuner.errors import UsageError
from autotuner.jobs.ab.arms import FlagfileArm, SpecArm
from autotuner.jobs.bench.backends import NAMES, Terms
from autotuner.jobs.bench.given import Task, task_of
from autotuner.jobs.bench.libraries import numpy_library, torch_library, triton_library
from autotuner.jobs.bench.libraries.child import Server
from autotuner.jobs.bench.library import torch_device
from autotuner.problems import Gemm, Problem
from autotuner.problems.attention import Attention
from autotuner.problems.conv import Conv
from autotuner.problems.epilogue import Epilogue
from autotuner.store.rows import RunRow
from autotuner.targets import Target


def test_backends_are_those_that_are_named_once_or_all() -> None:
    assert (Terms.parse(None).names, Terms.parse(None).named) == (NAMES, False)
    assert Terms.parse("iree, torch,iree").names == ("iree", "torch")


@pytest.mark.parametrize(
    ("backends", "pythons", "says"),
    [
        ("iree,cublas", (), "there is no backend 'cublas'"),
        ("", (), "there is no backend ''"),
        ("iree,torch", ("torch",), "is not LIBRARY=PYTHON"),
        ("iree,torch", ("iree=/usr/bin/python3",), "is not LIBRARY=PYTHON"),
        ("iree,torch", ("numpy=/usr/bin/python3",), "numpy is not among the backends"),
        ("iree,torch", ("torch=/nowhere/python",), "there is no program /nowhere/python"),
    ],
)
def test_what_names_no_backend_or_no_python_is_refused(backends: str, pythons: tuple[str, ...], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        Terms.parse(backends, pythons)


def test_the_python_of_a_library_is_the_one_that_is_named_and_not_what_it_links_to(tmp_path: Path) -> None:
    link = tmp_path / "python"
    link.symlink_to(sys.executable)
    terms = Terms.parse("numpy,torch", [f"torch={link}"])
    assert (terms.python("torch"), terms.python("numpy")) == (link, Path(sys.executable))


@pytest.mark.parametrize(("uri", "device"), [("cuda", "cuda:0"), ("cuda://1", "cuda:1"), ("hip://2?x=1", "cuda:2")])
def test_a_gpu_has_the_same_number_for_torch(uri: str, device: str) -> None:
    assert torch_device(uri) == device


CONV, ATTENTION = partial(Conv, 1, 8, 8, 4, 3, 3, 4), partial(Attention, 1, 1, 8, 8, 8)


def library(name: str) -> Any:
    """One that is not opened: what it does not compute it says at once."""
    module = {"numpy": numpy_library, "triton": triton_library}.get(name, torch_library)
    found = module.Library.__new__(module.Library)
    found.on_gpu = name == "torch on a GPU"
    return found


@pytest.mark.parametrize(
    ("name", "problem", "says"),
    [
        ("numpy", Gemm(8, 8, 8, dtype="bf16"), "numpy's BLAS has no bf16"),
        ("torch", Gemm(8, 8, 8, dtype="f16"), "torch has no f32 result of f16 factors here"),
        ("torch on a GPU", Gemm(8, 8, 8, dtype="f16", out="bf16"), "torch has no bf16 result of f16 factors"),
        ("torch on a GPU", Gemm(8, 8, 8, batch=2, dtype="i8", acc="i32"), "torch has no batched product of i8"),
        (
            "torch on a GPU",
            Gemm(8, 8, 8, dtype="f8", layout="nn"),
            "torch multiplies f8 on a GPU and in layout nt",
        ),
        ("torch on a GPU", CONV(dtype="i8"), "torch has no conv of i8"),
        ("torch on a GPU", ATTENTION(dtype="f8"), "torch has no attention of f8"),
        ("triton", Gemm(8, 8, 8, dtype="i8", acc="i32"), "there is no Triton kernel for products of i8"),
        ("triton", Gemm(8, 8, 8, epilogue=Epilogue(low=0.0)), "there is no Triton kernel with an epilogue"),
    ],
)
def test_a_library_says_what_it_does_not_compute(name: str, problem: Problem, says: str) -> None:
    with pytest.raises(NotImplementedError, match=says):
        getattr(library(name), problem.op)(task_of(problem), [])


@pytest.mark.parametrize(
    ("task", "says"),
    [
        (task_of(CONV(dtype="f32")), "numpy has no conv here"),
        (task_of(Gemm(8, 8, 8, dtype="f32", epilogue=Epilogue.parse("gelu"))), "numpy is not asked for gelu here"),
        ({"op": "model", "path": "a.onnx", "format": "onnx"}, "numpy has no model here"),
        ({"op": "model", "path": "a.mlir", "format": "mlir"}, "numpy is given models in ONNX only"),
    ],
)
def test_what_no_library_is_asked_for_is_refused_for_all(task: Task, says: str) -> None:
    server = Server(numpy_library, child_base, 1)
    server.open({"device": "cpu"})
    assert server.answer({"ask": "prepare", "task": task, "inputs": []}) == {"refused": says}


# --- what `tuned` is --------------------------------------------------------------------------------------------------

CPU = Target.parse("cpu")


def run(number: int, verdict: str = "win", target: str = "cpu", **files: Any) -> RunRow:
    return RunRow(
        id=f"run{number}",
        kind="single",
        parent=None,
        key="",
        command=(),
        problem={"name": "gemm"},
        target=target,
        device="local-task",
        seed=0,
        status="finished",
        started=datetime.now(UTC),
        ended=None,
        space_size=None,
        result={"verdict": verdict, **{name: str(path) for name, path in files.items()}},
    )


def test_the_newest_run_that_won_and_whose_files_are_there_counts(tmp_path: Path) -> None:
    flags, spec, gone = tmp_path / "a.flags", tmp_path / "b.mlir", tmp_path / "gone.flags"
    flags.touch()
    spec.touch()
    lost, older = run(3, "no-winner", flagfile=flags), run(1, spec=spec)
    both = run(2, flagfile=flags, spec=spec)
    assert Terms().tuned("gemm", [lost, both, older], CPU) == FlagfileArm(str(flags), flags)
    assert Terms().tuned("gemm", [lost, run(2, flagfile=gone), older], CPU) == SpecArm(str(spec), spec)


@pytest.mark.parametrize(
    ("runs", "says"),
    [
        ([run(1, target="sm_80")], "it was not tuned in this workspace"),
        ([run(1, "no-winner")], "it was tuned, and nothing won"),
        ([run(1, flagfile=Path("/nowhere/a.flags"))], "the files of run run1 are gone"),
    ],
)
def test_where_there_is_nothing_the_reason_is_said(runs: list[RunRow], says: str) -> None:
    assert Terms().tuned("gemm", runs, CPU) == says


def test_a_folder_has_a_spec_or_a_flagfile_of_each_problems_name(tmp_path: Path) -> None:
    spec, flags, target = tmp_path / "a-sm_80.mlir", tmp_path / "b-sm_80.flags", Target.parse("sm_80")
    spec.touch()
    flags.touch()
    terms = Terms(spec=tmp_path, trust=True)
    assert terms.tuned("a", [], target) == SpecArm(str(spec), spec, trust=True)
    assert terms.tuned("b", [], target) == FlagfileArm(str(flags), flags, trust=True)
    assert "has no a-gfx942.mlir" in str(terms.tuned("a", [], Target.parse("gfx942")))
