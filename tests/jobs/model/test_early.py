"""What is wrong with a command is told before the model is compiled: here the compiler never ends."""

from __future__ import annotations

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

CPU = Target.parse("cpu")
READS_ONLY = f"""case "$*" in *--compile-to=preprocessing*) exec REAL "$@" ;; esac
exec sleep {HANGING}"""


@pytest.fixture
def reads_only(tools: Tools, tmp_path: Path) -> Tools:
    """A compiler that comes as far as what a program takes and gives."""
    return instead_of_compiler(tools, tmp_path, READS_ONLY)


def tune(model: Model, options: Options, tools: Tools) -> object:
    return tune_model(model, CPU, options=options, tools=tools)


def race(model: Model, options: Options, tools: Tools) -> object:
    return run_experiment(Experiment(DEFAULT, DEFAULT, model=model), CPU, options=options, tools=tools)


def bench(model: Model, options: Options, tools: Tools) -> object:
    return bench_model(model, Terms(("iree",)), CPU, options=options, tools=tools)


GOOD = ("48x96xf32", "96x128xf32")
UNKNOWN = r"takes \?x96xf32: these sizes are not known"


@pytest.mark.parametrize(
    ("job", "wanted", "device", "says"),
    [
        *((job, {"inputs": ("48x96xf16", GOOD[1])}, None, "48x96xf16 is f16, and the") for job in (tune, race, bench)),
        *((job, {}, None, UNKNOWN) for job in (tune, race, bench)),
        *((tune, {"function": "other"}, device, "no function 'other'") for device in (None, "none")),
        (tune, {"inputs": ("48x97xf32", GOOD[1])}, "none", "--input 48x97xf32 does not fit"),
        (tune, {"inputs": GOOD, "expected": (Path("a.npy"),)}, None, "--expected .*a.npy does not fit"),
        (race, {"inputs": GOOD[:1]}, None, "takes 2 inputs"),
        (race, {"inputs": ("48x96xf32=@absent.bin", GOOD[1])}, None, "there is no file absent.bin"),
        (bench, {"inputs": (GOOD[0], "@a.npy")}, None, "which is 96x128xf32"),
    ],
)
def test_a_wrong_call_is_told_while_the_default_compiles(
    job: Callable[[Model, Options, Tools], object],
    wanted: dict[str, Any],
    device: str | None,
    says: str,
    reads_only: Tools,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("a.npy", np.zeros((3, 3), np.float32))
    options = Options(workspace=tmp_path / "workspace", device=device)
    with pytest.raises(UsageError, match=says):
        job(Model(EXAMPLES / "dynamic.mlir", **wanted), options, reads_only)


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
