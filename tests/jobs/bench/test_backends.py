"""Which backends take part: by name, by what is installed, by what each can compute."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from autotuner.devices import child_base
from autotuner.errors import UsageError
from autotuner.jobs.bench.backends import LIBRARIES, NAMES, Chosen
from autotuner.jobs.bench.given import Task, task_of
from autotuner.jobs.bench.libraries import numpy_library, onnxruntime_library, torch_library, triton_library
from autotuner.jobs.bench.libraries.child import ELEMENTS, Arrays, Server
from autotuner.jobs.bench.library import torch_device
from autotuner.problems import Attention, Conv, Gemm, Problem
from autotuner.problems.epilogue import Epilogue
from autotuner.targets import Target


def test_all_backends_are_tried_where_none_is_named() -> None:
    assert Chosen.parse(None) == Chosen(NAMES, named=False, pythons={})


def test_a_backend_that_is_named_twice_takes_part_once() -> None:
    assert Chosen.parse("iree, torch,iree").names == ("iree", "torch")


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
        Chosen.parse(backends, pythons)


def test_the_python_of_a_library_is_the_one_that_is_named_and_not_what_it_links_to(tmp_path: Path) -> None:
    link = tmp_path / "python"
    link.symlink_to(sys.executable)
    chosen = Chosen.parse("numpy,torch", [f"torch={link}"])
    assert (chosen.python("torch"), chosen.python("numpy")) == (link, Path(sys.executable))


@pytest.mark.parametrize(("name", "target", "there"), [("numpy", "cpu", True), ("numpy", "sm_80", False)])
def test_a_library_runs_where_it_has_a_device(name: str, target: str, there: bool) -> None:
    assert (LIBRARIES[name].objection(Target.parse(target)) == "") is there


@pytest.mark.parametrize(("uri", "device"), [("cuda", "cuda:0"), ("cuda://1", "cuda:1"), ("hip://2?x=1", "cuda:2")])
def test_a_gpu_has_the_same_number_for_torch(uri: str, device: str) -> None:
    assert torch_device(uri) == device


CONV, ATTENTION = partial(Conv, 1, 8, 8, 4, 3, 3, 4), partial(Attention, 1, 1, 8, 8, 8)


def library(name: str) -> Any:
    """One that is not opened: what it does not compute it says at once."""
    module = {"numpy": numpy_library, "onnxruntime": onnxruntime_library, "triton": triton_library}.get(
        name, torch_library
    )
    found = module.Library.__new__(module.Library)
    found.on_gpu = name == "torch on a GPU"
    return found


@pytest.mark.parametrize(
    ("name", "problem", "says"),
    [
        ("numpy", Gemm(8, 8, 8, dtype="bf16"), "numpy's BLAS has no bf16"),
        ("numpy", ATTENTION(dtype="f16"), "numpy's BLAS has no f16"),
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
        ("onnxruntime", Gemm(8, 8, 8, dtype="f16"), "ONNX Runtime has no gemm of f16 with a result of f32"),
        ("triton", Gemm(8, 8, 8, dtype="i8", acc="i32"), "there is no Triton kernel for products of i8"),
        ("triton", Gemm(8, 8, 8, epilogue=Epilogue(low=0.0)), "there is no Triton kernel with an epilogue"),
    ],
)
def test_a_library_says_what_it_does_not_compute(name: str, problem: Problem, says: str) -> None:
    with pytest.raises(NotImplementedError, match=says):
        getattr(library(name), problem.op)(task_of(problem), [])


@pytest.mark.parametrize(
    "problem",
    [
        Gemm(8, 8, 8, dtype="f16"),  # torch.mm(..., out_dtype=float32)
        Gemm(8, 8, 8, dtype="f16", out="f16"),
        Gemm(8, 8, 8, dtype="f8", layout="nt"),
    ],
    ids=lambda problem: problem.name,
)
def test_torch_multiplies_these_on_a_gpu(problem: Problem) -> None:
    library("torch on a GPU")._refuse_product(task_of(problem))


@pytest.mark.parametrize(
    ("task", "says"),
    [
        (task_of(CONV(dtype="f32")), "numpy has no conv here"),
        (task_of(Gemm(8, 8, 8, dtype="f32", epilogue=Epilogue.parse("rms=1e-5"))), "numpy is not asked for rms here"),
        (task_of(Gemm(8, 8, 8, dtype="f32", epilogue=Epilogue.parse("gelu"))), "numpy is not asked for gelu here"),
        ({"op": "model", "path": "a.onnx", "format": "onnx"}, "numpy has no model here"),
        ({"op": "model", "path": "a.mlir", "format": "mlir"}, "numpy is given models in ONNX only"),
    ],
)
def test_what_no_library_is_asked_for_is_refused_for_all(task: Task, says: str) -> None:
    server = Server(numpy_library, child_base, 1)
    server.open({"device": "cpu"})
    assert server.answer({"ask": "prepare", "task": task, "inputs": []}) == {"refused": says}


def test_libraries_are_given_inputs_of_every_type_that_they_have() -> None:
    types = {"f64", "f32", "f16", "i64", "i32", "i16", "i8", "i1"}
    assert types <= torch_library.TYPES.keys() & ELEMENTS.keys()
    found = library("torch")
    found.torch = ModuleType("torch")
    with pytest.raises(NotImplementedError, match="torch has no i4"):
        found.dtype("i4")
    with pytest.raises(NotImplementedError, match="has no bf16"):
        Arrays().array({"file": "", "element": "bf16", "shape": [1]})
