"""Experiments inside a model: whole-model time, outputs compared."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from autotuner import Gemm
from autotuner.devices.device import Computed
from autotuner.errors import NoCandidateError, WrongResultError
from autotuner.iree.tools import Tools
from autotuner.jobs.ab.result import AbResult
from autotuner.targets.base import decomposed_attention
from autotuner.tuning.printer import Printer
from tests.jobs.ab.conftest import TILED, TWO_PRODUCTS
from tests.support import wrapped
from tests.support.fake_tools import BASE_MS, DATA_TILING, FakeTools
from tests.support.kernels import own_kernel
from tests.support.models import EXAMPLES
from tests.support.other_compiler import instead_of_compiler

Fake = Callable[..., FakeTools]
Run = Callable[..., AbResult]
KERNEL = "*transform-spec-filename*"

needs_c = pytest.mark.skipif(
    not any(map(shutil.which, ("cc", "gcc", "clang"))), reason="there is no C compiler on this machine"
)


@needs_c
def test_a_kernel_takes_the_place_of_all_that_it_fits_and_ships_when_it_wins(
    fake: Fake, experiment: Run, model: Path, workspace: Path, tools: Tools
) -> None:
    result = experiment("default", "sgemm_c", fake((KERNEL, BASE_MS / 2)).tools, model=model)
    assert (result.verdict, result.carrier, result.problem["op"]) == ("win", "microkernel", "model")
    b = result.details.arms[1]
    assert {kernel["problem"]: kernel["calls"] for kernel in b.kernels} == {
        "gemm_64x96x128_f32_f32_nn": 1,
        "gemm_64x32x96_f32_f32_nn": 1,
    }
    assert result.details.difference is not None
    assert result.details.difference < 1e-5
    assert result.flagfile == workspace / "specs" / "two-cpu-sgemm_c.flags"
    done = subprocess.run(
        [tools.iree_compile, model, f"@{result.flagfile}", "--compile-to=preprocessing", "-o", "-"],
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout.count("flow.dispatch @autotune_microkernel_") == 2
    assert result.spec is not None
    assert result.spec.read_text().startswith("// Microkernel spec by autotune")
    use = f"// use:        iree-compile {model} @{result.flagfile} -o two-cpu-sgemm_c.vmfb"
    assert use in result.spec.read_text().splitlines()
    assert Printer.of(result).text(verbose=True).count("_nn, called once") == 2


@needs_c
@pytest.mark.parametrize(
    ("name", "inputs", "called"),
    [
        pytest.param(
            "grouped",
            (),
            ("conv_1x9x9x3_2x2x4_f32_nchw_bias_residual_relu", "conv_1x9x9x4_2x2x4_g2_f32_nchw_bias"),
            marks=pytest.mark.long,
        ),
        ("for", ("8x32xf32", "32x32xf32", "32xf32", "3"), ("gemm_8x32x32_f32_f32_nn_bias",)),
    ],
)
def test_a_kernel_computes_what_stands_around_an_operation_too(
    name: str, inputs: tuple[str, ...], called: tuple[str, ...], fake: Fake, experiment: Run
) -> None:
    """Batch norms are folded into weights, a sum of two convolutions goes with one; so does a bias in a loop."""
    kernel, model = "conv_c" if "conv" in called[0] else "sgemm_c", Path(__file__).parent / "examples" / f"{name}.mlir"
    result = experiment("default", kernel, fake((KERNEL, BASE_MS / 2)).tools, model=model, inputs=inputs)
    assert {one["problem"]: one["calls"] for one in result.details.arms[1].kernels} == dict.fromkeys(called, 1)
    assert result.details.difference is not None
    assert result.details.difference < 1e-5


def test_a_model_that_was_compiled_before_is_not_compiled_again(
    experiment: Run, model: Path, flagfile: Callable[..., Path], tools: Tools, tmp_path: Path
) -> None:
    """By `autotune model`, or by an experiment."""
    log = tmp_path / "log"
    logged = instead_of_compiler(tools, tmp_path, f'echo "$*" >> {log}\nexec REAL "$@"')
    words = ("default", flagfile("tiled", TILED), logged)
    compiled = []
    for _ in range(2):
        log.write_text("")
        result = experiment(*words, model=model, device="none")
        assert not result.details.same_code
        assert all("--iree-hal-dump-executable-benchmarks-to" not in a.command[0] for a in result.details.arms)
        calls = log.read_text().splitlines()
        compiled.append(sum("--compile-to=" not in call and "-o module.vmfb" in call for call in calls))
    assert compiled == [2, 0]


@pytest.mark.long
@needs_c
def test_two_variants_of_a_kernel_do_not_get_in_each_others_way(fake: Fake, experiment: Run, tmp_path: Path) -> None:
    """Products of two layouts need two objects, whose functions have the same name in the source."""
    path = tmp_path / "mixed.mlir"
    path.write_text(TWO_PRODUCTS.format(last="n, k", weights="32x96"))
    result = experiment("default", "sgemm_c", fake((KERNEL, BASE_MS * 2)).tools, model=path)
    assert [kernel["problem"][-2:] for kernel in result.details.arms[1].kernels] == ["nn", "nt"]
    assert result.verdict == "no-winner"


@needs_c
def test_a_kernel_that_computes_something_else_is_found_out(
    fake: Fake, experiment: Run, model: Path, workspace: Path
) -> None:
    own_kernel(workspace, **{'constants = ["m", "n", "k"]': 'constants = ["m", "n", "k - 1"]'})
    with pytest.raises(
        WrongResultError, match="mine computes wrong results, against the same program on llvm-cpu in two"
    ):
        experiment("default", "mine", fake().tools, model=model)


@needs_c
@pytest.mark.parametrize(
    ("dtype", "problem", "says", "there"),
    [
        ("f16", None, "fits no operation of two.mlir", "linalg.matmul(tensor<64x128xf16>"),
        ("f32", Gemm.parse(shape="8x8x8", dtype="f32"), "is not called", "tensor<96x32xf32>"),
    ],
)
def test_a_kernel_that_fits_nothing_is_told_with_what_there_is(
    dtype: str, problem: Gemm | None, says: str, there: str, fake: Fake, experiment: Run, model: Path
) -> None:
    model.write_text(model.read_text().replace("xf32>", f"x{dtype}>").replace("f32", dtype))
    with pytest.raises(NoCandidateError) as error:
        experiment("default", "sgemm_c", fake().tools, model=model, problem=problem)
    assert says in str(error.value)
    assert there in str(error.value)


def test_flags_race_in_a_model_on_the_users_inputs(fake: Fake, experiment: Run, model: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.ones((64, 128), np.float32))
    (tmp_path / "tiled.flags").write_text(TILED)
    inputs = (f"@{tmp_path / 'a.npy'}", "128x96xf32=0.5", "96x32xf32")
    tools = fake((DATA_TILING, BASE_MS / 2)).tools
    result = experiment("default", tmp_path / "tiled.flags", tools, model=model, inputs=inputs)
    assert result.verdict == "win"
    assert f"--input=@{tmp_path / 'a.npy'}" in result.details.arms[1].command[1]


def test_an_arm_that_is_right_races_a_default_that_is_wrong(
    fake: Fake, experiment: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On inputs that change the default is wrong, too: that they differ there says nothing of the other."""
    calls = tuple((Computed((np.full((4, 4), value, np.float32),)),) for value in (1.0, 2.0))
    monkeypatch.setattr(wrapped, "BELIEVED", replace(wrapped.BELIEVED, results=calls))
    (tmp_path / "right.flags").write_text("\n".join(decomposed_attention()))
    tools = fake(("*decompose-attention*", BASE_MS / 2)).tools
    result = experiment("default", tmp_path / "right.flags", tools, model=EXAMPLES / "wide.mlir")
    assert result.verdict == "win"
    assert result.reason.startswith("IREE's default gives wrong results for this model (relative error ")
    a, b = result.details.arms
    assert a.error is not None
    assert a.error > 0.05
    assert b.error is not None
    assert b.error < 1e-5
    assert result.to_json()["reference"]["source"] == "llvm-cpu"
    assert result.counts.failed["wrong-result"] == 1
