"""Which backends take part: by name, by what is installed, by what each can compute."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from autotuner.errors import UsageError
from autotuner.jobs.bench import hipblaslt
from autotuner.jobs.bench.backends import LIBRARIES, NAMES, Chosen
from autotuner.jobs.bench.given import Task, task_of
from autotuner.jobs.bench.libraries import numpy_library, onnxruntime_library, torch_library, triton_library
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


REFUSALS: dict[str, Callable[[Task], str]] = {
    "numpy": numpy_library.refusal,
    "torch": partial(torch_library.refusal, on_gpu=False),
    "torch on a GPU": partial(torch_library.refusal, on_gpu=True),
    "onnxruntime": onnxruntime_library.refusal,
    "triton": triton_library.refusal,
}
CONV, ATTENTION = partial(Conv, 1, 8, 8, 4, 3, 3, 4), partial(Attention, 1, 1, 8, 8, 8)


@pytest.mark.parametrize(
    ("library", "problem", "says"),
    [
        ("numpy", Gemm(8, 8, 8, dtype="f32"), ""),
        ("numpy", Gemm(8, 8, 8, dtype="bf16"), "numpy's BLAS has no bf16"),
        ("numpy", CONV(dtype="f32"), "numpy has no conv"),
        ("numpy", ATTENTION(dtype="f32"), ""),
        ("numpy", ATTENTION(dtype="f16"), "numpy's BLAS has no f16"),
        ("torch on a GPU", Gemm(8, 8, 8, dtype="f16"), ""),  # torch.mm(..., out_dtype=float32)
        ("torch", Gemm(8, 8, 8, dtype="f16"), "torch has no f32 result of f16 factors here"),
        ("torch", Gemm(8, 8, 8, dtype="f16", out="f16"), ""),
        ("torch on a GPU", Gemm(8, 8, 8, dtype="f16", out="bf16"), "torch has no bf16 result of f16 factors"),
        ("torch on a GPU", Gemm(8, 8, 8, batch=2, dtype="i8", acc="i32"), "torch has no batched product of i8"),
        (
            "torch on a GPU",
            Gemm(8, 8, 8, dtype="f8", layout="nn"),
            "torch multiplies f8 on a GPU and in layout nt only",
        ),
        ("torch on a GPU", Gemm(8, 8, 8, dtype="f8", layout="nt"), ""),
        ("torch on a GPU", CONV(dtype="i8"), "torch has no convolution of i8"),
        ("torch on a GPU", ATTENTION(dtype="f8"), "torch has no attention of f8"),
        ("onnxruntime", Gemm(8, 8, 8, dtype="f32"), ""),
        ("onnxruntime", Gemm(8, 8, 8, dtype="i8", acc="i32"), ""),
        ("onnxruntime", Gemm(8, 8, 8, dtype="f16"), "ONNX Runtime has no gemm of f16 with a result of f32"),
        ("onnxruntime", CONV(dtype="f32"), ""),
        ("triton", Gemm(8, 8, 8, dtype="bf16"), ""),
        ("triton", Gemm(8, 8, 8, dtype="i8", acc="i32"), "there is no Triton kernel for products of i8"),
        ("triton", Gemm(8, 8, 8, epilogue=Epilogue(low=0.0)), "there is no Triton kernel with an epilogue"),
        ("triton", ATTENTION(), "there is a Triton kernel for products here, and none for attention"),
    ],
)
def test_a_library_says_what_it_does_not_compute(library: str, problem: Problem, says: str) -> None:
    found = REFUSALS[library](task_of(problem))
    assert found.startswith(says)
    assert bool(found) == bool(says)


@pytest.mark.parametrize(
    ("epilogue", "says"),
    [("rms=1e-5", "a norm (rms) here"), ("layer=1e-5,bias", "a norm (layer)"), ("gelu", "gelu here")],
)
def test_a_norm_and_an_activation_are_each_refused_by_name(epilogue: str, says: str) -> None:
    task = task_of(Gemm(8, 8, 8, dtype="f32", epilogue=Epilogue.parse(epilogue)))
    assert (task["norm"], task["activation"]) == (("", "gelu") if epilogue == "gelu" else (epilogue.split("=")[0], ""))
    assert f"numpy is not asked for {says}" in numpy_library.refusal(task)
    assert f"torch is not asked for {says}" in torch_library.refusal(task, on_gpu=True)
    assert f"ONNX Runtime is not asked for {says}" in onnxruntime_library.refusal(task)
    assert "epilogue" in triton_library.refusal(task)
    assert "epilogue" in hipblaslt.refusal(task)


@pytest.mark.parametrize("module", [torch_library, onnxruntime_library])
def test_libraries_are_given_inputs_of_every_type_that_they_have(module: ModuleType, tmp_path: Path) -> None:
    """Without the library: an input of a type that it does not have is refused before anything else is asked of it."""
    types = {"f64", "f32", "f16", "i64", "i32", "i16", "i8", "i1"}
    known = module.TYPES if module is torch_library else module.ELEMENTS
    assert types <= known.keys()
    library = module.Library.__new__(module.Library)
    if module is torch_library:
        library.torch = SimpleNamespace(bool=bool)
        assert library.type("i1") is bool
        with pytest.raises(module.Refusal, match="torch has no i4"):
            library.type("i4")
    else:
        task = {"op": "model", "format": "onnx", "path": str(tmp_path)}
        with pytest.raises(module.Refusal, match="has no bf16"):
            library.prepare(task, [{"file": "", "element": "bf16", "shape": [1]}])


@pytest.mark.parametrize(("ending", "taken"), [("onnx", True), ("mlir", False), ("mlirbc", False)])
def test_other_libraries_take_models_in_onnx(ending: str, taken: bool) -> None:
    task = {"op": "model", "path": f"a.{ending}", "format": ending}
    assert (torch_library.refusal(task, on_gpu=True) == "") is taken
    assert (onnxruntime_library.refusal(task) == "") is taken
    assert numpy_library.refusal(task) == "numpy executes no models"
