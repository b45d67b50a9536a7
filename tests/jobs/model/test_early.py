"""What is wrong with a command is told before the model is compiled: here the compiler never ends."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autotuner import Options, Target
from autotuner.errors import UsageError
from autotuner.iree.tools import Tools
from autotuner.jobs.ab.arms import DEFAULT
from autotuner.jobs.ab.opening import Experiment
from autotuner.jobs.ab.run import run_experiment
from autotuner.jobs.bench.backends import Terms
from autotuner.jobs.bench.run import bench_model
from autotuner.jobs.model.tuner import check_words, tune_model
from autotuner.microkernels.variants import Kernel
from autotuner.programs.model import Model
from tests.support.fake_tools import HANGING
from tests.support.models import EXAMPLES
from tests.support.other_compiler import instead_of_compiler
from tests.support.patience import ENOUGH

CPU = Target.parse("cpu")
READS_ONLY = f"""case "$*" in *--compile-to=preprocessing*) exec REAL "$@" ;; esac
exec sleep {HANGING}"""


@pytest.fixture
def reads_only(tools: Tools, tmp_path: Path) -> Tools:
    """A compiler that comes as far as what a program takes and gives."""
    return instead_of_compiler(tools, tmp_path, READS_ONLY)


@pytest.mark.parametrize(
    ("wanted", "device", "says"),
    [
        ({"inputs": ("48x96xf16", "96x128xf32")}, None, "--input 48x96xf16 is f16, and the input is"),
        ({}, None, r"takes \?x96xf32: these sizes are not known"),
        ({"function": "other"}, None, "no function 'other'"),
        ({"function": "other"}, "none", "no function 'other'"),
        ({"inputs": ("48x97xf32", "96x128xf32")}, "none", "--input 48x97xf32 does not fit"),
        ({"inputs": ("48x96xf32", "96x128xf32"), "expected": "a.npy"}, None, "--expected .*a.npy does not fit"),
    ],
)
def test_a_wrong_call_is_told_while_the_default_compiles(
    wanted: dict[str, Any], device: str | None, says: str, reads_only: Tools, tmp_path: Path
) -> None:
    np.save(tmp_path / "a.npy", np.zeros((3, 3), np.float32))
    if name := wanted.get("expected"):
        wanted = {**wanted, "expected": (tmp_path / name,)}
    began = time.monotonic()
    with pytest.raises(UsageError, match=says):
        tune_model(
            Model(EXAMPLES / "dynamic.mlir", **wanted),
            CPU,
            options=Options(workspace=tmp_path / "workspace", device=device),
            tools=reads_only,
        )
    assert time.monotonic() - began < ENOUGH


def race(model: Model, options: Options, tools: Tools) -> object:
    return run_experiment(Experiment(DEFAULT, DEFAULT, model=model), CPU, options=options, tools=tools)


def bench(model: Model, options: Options, tools: Tools) -> object:
    return bench_model(model, Terms(("iree",)), CPU, options=options, tools=tools)


@pytest.mark.parametrize("job", [race, bench])
@pytest.mark.parametrize(
    ("inputs", "says"),
    [
        (("48x96xf16", "96x128xf32"), "--input 48x96xf16 is f16, and the input is"),
        (("48x96xf32",), "takes 2 inputs"),
        ((), r"takes \?x96xf32: these sizes are not known"),
        (("48x96xf32=@absent.bin", "96x128xf32"), "there is no file absent.bin"),
        (("48x96xf32", "@a.npy"), "which is 96x128xf32"),
    ],
)
def test_experiments_and_comparisons_tell_it_as_early(
    job: Callable[[Model, Options, Tools], object],
    inputs: tuple[str, ...],
    says: str,
    reads_only: Tools,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("a.npy", np.zeros((3, 3), np.float32))
    began = time.monotonic()
    with pytest.raises(UsageError, match=says):
        job(Model(EXAMPLES / "dynamic.mlir", inputs=inputs), Options(workspace=tmp_path / "workspace"), reads_only)
    assert time.monotonic() - began < ENOUGH


def test_wrong_words_are_told_before_anything_is_read(tmp_path: Path) -> None:
    def check(*, kernels: tuple[Kernel, ...] = (), **wanted: Any) -> None:
        model = Model(EXAMPLES / "dynamic.mlir", **wanted)
        check_words(model, CPU, Options(microkernels=kernels), workspace=tmp_path)

    check(routes=("im2col+O3",), kernels=(Kernel("auto"), Kernel("sgemm_c")), parameters=("model=a.irpa",))
    with pytest.raises(UsageError, match="unknown route 'fast'"):
        check(routes=("fast",))
    with pytest.raises(UsageError, match="no microkernel 'fast'"):
        check(kernels=(Kernel("fast"),))
    with pytest.raises(UsageError, match=r"--input @absent\.npy: there is no file absent\.npy"):
        check(inputs=("@absent.npy",))
    with pytest.raises(UsageError, match=r"--expected .*absent\.npy: No such file"):
        check(expected=(tmp_path / "absent.npy",))
    with pytest.raises(UsageError, match=r"model=a\.bin: its name ends in none of \.irpa, \.gguf, \.safetensors"):
        check(parameters=("model=a.bin",))
