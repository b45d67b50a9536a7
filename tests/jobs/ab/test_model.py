"""Experiments inside a model: whole-model time, outputs compared, the dispatches that are not the same."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from autotuner import Gemm
from autotuner.errors import NoCandidateError, UsageError, WrongResultError
from autotuner.iree.tools import Tools
from autotuner.jobs.ab.result import AbResult
from autotuner.targets.base import decomposed_attention
from tests.jobs.ab.conftest import TILED, TWO_PRODUCTS
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
    assert result.printer().text().count("_nn, called once") == 2


def normalized(name: str, of: str) -> str:
    """A batch norm as IREE's importer of ONNX writes it; the constants are those of the model below."""
    each = "affine_map<(n, c, h, w) -> (n, c, h, w)>"
    kinds = 'iterator_types = ["parallel", "parallel", "parallel", "parallel"]'
    channels = "affine_map<(n, c, h, w) -> (n, c, 0, 0)>"
    steps: list[str] = []
    for operation, operand in (("subf", "%mean"), ("mulf", "%root"), ("mulf", "%gamma"), ("addf", "%beta")):
        result = f"{name}_{len(steps)}" if operand != "%beta" else name
        steps.append(
            f"{result} = linalg.generic {{indexing_maps = [{each}, {channels}, {each}], {kinds}}} "
            f"ins({of}, {operand} : !out, !channels) outs(%empty : !out) {{\n  ^bb0(%p: f32, %q: f32, %o: f32):\n"
            f"    %z = arith.{operation} %p, %q : f32\n    linalg.yield %z : f32\n  }} -> !out"
        )
        of = result
    return "\n  ".join(steps)


def weights(first: float, last: float) -> str:
    return f'dense<"0x{np.linspace(first, last, 48, dtype=np.float32).tobytes().hex()}"> : tensor<4x3x2x2xf32>'


CONVOLVED = """linalg.conv_2d_nchw_fchw {dilations = dense<1> : vector<2xi64>, strides = dense<1> : vector<2xi64>}
    ins(%x, %w : tensor<1x3x9x9xf32>, tensor<4x3x2x2xf32>) outs(%fill : !out) -> !out"""
BLOCK = f"""
!out = tensor<1x4x8x8xf32>
!channels = tensor<1x4x1x1xf32>
func.func @main(%x: tensor<1x3x9x9xf32>) -> !out {{
  %zero = arith.constant 0.0 : f32
  %w = arith.constant {weights(-1, 1)}
  %turned = arith.constant {weights(2, -1)}
  %mean = arith.constant dense<[[[[0.5]], [[-0.25]], [[0.125]], [[1.0]]]]> : !channels
  %gamma = arith.constant dense<[[[[1.5]], [[0.5]], [[-2.0]], [[1.0]]]]> : !channels
  %beta = arith.constant dense<[[[[0.1]], [[0.2]], [[0.3]], [[0.4]]]]> : !channels
  %variance = arith.constant dense<[[[[4.0]], [[2.0]], [[1.0]], [[0.5]]]]> : !channels
  %vectors = tensor.empty() : !channels
  %root = linalg.generic {{indexing_maps = [affine_map<(a, b, c, d) -> (a, b, c, d)>,
    affine_map<(a, b, c, d) -> (a, b, c, d)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}}
    ins(%variance : !channels) outs(%vectors : !channels) {{
  ^bb0(%v: f32, %o: f32):
    %r = math.rsqrt %v : f32
    linalg.yield %r : f32
  }} -> !channels
  %empty = tensor.empty() : !out
  %fill = linalg.fill ins(%zero : f32) outs(%empty : !out) -> !out
  %a = {CONVOLVED}
  {normalized("%na", "%a")}
  %b = {CONVOLVED.replace("%w", "%turned")}
  {normalized("%nb", "%b")}
  %last = linalg.generic {{indexing_maps = [affine_map<(a, b, c, d) -> (a, b, c, d)>,
    affine_map<(a, b, c, d) -> (a, b, c, d)>, affine_map<(a, b, c, d) -> (a, b, c, d)>],
    iterator_types = ["parallel", "parallel", "parallel", "parallel"]}}
    ins(%na, %nb : !out, !out) outs(%empty : !out) {{
  ^bb0(%l: f32, %r: f32, %o: f32):
    %s = arith.addf %l, %r : f32
    %m = arith.maximumf %s, %zero : f32
    linalg.yield %m : f32
  }} -> !out
  return %last : !out
}}
"""


@needs_c
@pytest.mark.long
def test_batch_norms_are_folded_into_weights_and_what_adds_two_convolutions_goes_with_one_of_them(
    fake: Fake, experiment: Run, tmp_path: Path
) -> None:
    model = tmp_path / "block.mlir"
    model.write_text(BLOCK)
    result = experiment("default", "conv_c", fake((KERNEL, BASE_MS / 2)).tools, model=model)
    assert {kernel["problem"]: kernel["calls"] for kernel in result.details.arms[1].kernels} == {
        "conv_1x9x9x3_2x2x4_f32_nchw_bias_residual_relu": 1,
        "conv_1x9x9x3_2x2x4_f32_nchw_bias": 1,
    }
    assert result.details.difference is not None
    assert result.details.difference < 1e-5


GROUPED = BLOCK.replace(
    f"%a = {CONVOLVED}",
    """%first = arith.constant dense<[1.0, -1.0, 0.5, 0.25]> : tensor<4xf32>
  %third = tensor.extract_slice %x[0, 0, 0, 0] [1, 1, 9, 9] [1, 1, 1, 1] : tensor<1x3x9x9xf32> to tensor<1x1x9x9xf32>
  %four = tensor.concat dim(1) %x, %third : (tensor<1x3x9x9xf32>, tensor<1x1x9x9xf32>) -> tensor<1x4x9x9xf32>
  %image = tensor.expand_shape %four [[0], [1, 2], [3], [4]] output_shape [1, 2, 2, 9, 9]
    : tensor<1x4x9x9xf32> into tensor<1x2x2x9x9xf32>
  %some = tensor.extract_slice %w[0, 0, 0, 0] [4, 2, 2, 2] [1, 1, 1, 1] : tensor<4x3x2x2xf32> to tensor<4x2x2x2xf32>
  %filters = tensor.expand_shape %some [[0, 1], [2], [3], [4]] output_shape [2, 2, 2, 2, 2]
    : tensor<4x2x2x2xf32> into tensor<2x2x2x2x2xf32>
  %copies = linalg.broadcast ins(%first : tensor<4xf32>) outs(%empty : !out) dimensions = [0, 2, 3]
  %start = tensor.expand_shape %copies [[0], [1, 2], [3], [4]] output_shape [1, 2, 2, 8, 8]
    : !out into tensor<1x2x2x8x8xf32>
  %sums = linalg.conv_2d_ngchw_gfchw {dilations = dense<1> : vector<2xi64>, strides = dense<1> : vector<2xi64>}
    ins(%image, %filters : tensor<1x2x2x9x9xf32>, tensor<2x2x2x2x2xf32>)
    outs(%start : tensor<1x2x2x8x8xf32>) -> tensor<1x2x2x8x8xf32>
  %a = tensor.collapse_shape %sums [[0], [1, 2], [3], [4]] : tensor<1x2x2x8x8xf32> into !out""",
)


@needs_c
@pytest.mark.long
def test_a_grouped_convolution_goes_with_the_bias_before_it_and_the_batch_norm_behind_it(
    fake: Fake, experiment: Run, tmp_path: Path
) -> None:
    model = tmp_path / "grouped.mlir"
    model.write_text(GROUPED)
    result = experiment("default", "conv_c", fake((KERNEL, BASE_MS / 2)).tools, model=model)
    assert {kernel["problem"]: kernel["calls"] for kernel in result.details.arms[1].kernels} == {
        "conv_1x9x9x3_2x2x4_f32_nchw_bias_residual_relu": 1,
        "conv_1x9x9x4_2x2x4_g2_f32_nchw_bias": 1,
    }
    assert result.details.difference is not None
    assert result.details.difference < 1e-5


STEP = """%moved = tensor.empty() : !state
    %begun = linalg.fill ins(%zero : f32) outs(%moved : !state) -> !state
    %product = linalg.matmul ins({state}, %weights : !state, tensor<{n}x{n}xf32>) outs(%begun : !state) -> !state
    %next = linalg.generic {{indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>,
      affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}}
      ins(%product, %bias : !state, tensor<{n}xf32>) outs(%moved : !state) {{
    ^bb0(%p: f32, %b: f32, %o: f32):
      %s = arith.addf %p, %b : f32
      linalg.yield %s : f32
    }} -> !state"""
LOOPS = {
    "for": """%last = scf.for %i = %c0 to %c3 step %c1 iter_args(%state = %first) -> (!state) {{
    {step}
    scf.yield %next : !state
  }}""",
    "while": """%ends, %last = scf.while (%i = %c0, %state = %first) : (index, !state) -> (index, !state) {{
    %more = arith.cmpi slt, %i, %times : index
    scf.condition(%more) %i, %state : index, !state
  }} do {{
  ^bb0(%i: index, %state: !state):
    {step}
    %j = arith.addi %i, %c1 : index
    scf.yield %j, %next : index, !state
  }}""",
}


@needs_c
@pytest.mark.parametrize("loop", LOOPS)
def test_a_kernel_takes_the_place_of_what_a_loop_computes_with_what_stands_before_it(
    loop: str, fake: Fake, experiment: Run, tmp_path: Path
) -> None:
    n, model = 32, tmp_path / "recurrent.mlir"
    model.write_text(
        f"""!state = tensor<8x{n}xf32>
func.func @main(%first: !state, %weights: tensor<{n}x{n}xf32>, %bias: tensor<{n}xf32>, %times: index) -> !state {{
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  {LOOPS[loop].format(step=STEP.format(state="%state", n=n))}
  return %last : !state
}}
"""
    )
    inputs = (f"8x{n}xf32", f"{n}x{n}xf32", f"{n}xf32", "3")
    result = experiment("default", "sgemm_c", fake((KERNEL, BASE_MS / 2)).tools, model=model, inputs=inputs)
    assert {kernel["problem"]: kernel["calls"] for kernel in result.details.arms[1].kernels} == {
        f"gemm_8x{n}x{n}_f32_f32_nn_bias": 1
    }
    assert result.details.difference is not None
    assert result.details.difference < 1e-5


@pytest.mark.long
@needs_c
def test_the_shares_of_what_is_not_the_same_come_from_the_device(
    fake: Fake, experiment: Run, model: Path, tools: Tools, tmp_path: Path
) -> None:
    """The first of the two products is replaced, which renumbers the other; the statistics are real here. They are
    read when the verdict is known: they may take the time of a race."""
    wrapped = fake((KERNEL, BASE_MS * 2)).tools
    script, order = tmp_path / "benchmark", tmp_path / "order"
    script.write_text(
        f'#!/bin/sh\ncase "$*" in *dispatch_statistics*)\n'
        f'echo read >> {order}; exec {tools.iree_benchmark_module} "$@" ;;\nesac\n'
        f'echo timed >> {order}; exec {wrapped.iree_benchmark_module} "$@"\n'
    )
    script.chmod(0o755)
    problem = Gemm.parse(shape="64x96x128", dtype="f32")
    chosen = replace(wrapped, iree_benchmark_module=script)
    result = experiment("default", "sgemm_c", chosen, model=model, problem=problem)
    a, b = result.details.arms
    assert (a.us, b.us) == (100_000.0, 200_000.0)
    assert a.dispatches == ("main_dispatch_0_matmul_64x96x128_f32",)
    assert b.dispatches == ("autotune_microkernel_0",)
    assert a.share is not None
    assert b.share is not None
    assert 0 < a.share < 1
    assert 0 < b.share < 1
    steps = order.read_text().split()
    assert steps[-6:] == ["read"] * 6
    assert set(steps[:-6]) == {"timed"}


def test_a_model_that_was_compiled_before_is_not_compiled_or_read_again(
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
        assert all("--iree-hal-dump-executable-benchmarks-to" not in " ".join(a.compile) for a in result.details.arms)
        calls = log.read_text().splitlines()
        compiled.append(sum("--compile-to=" not in call and "-o module.vmfb" in call for call in calls))
        configured = [call for call in calls if "--compile-to=executable-configurations" in call]
    assert compiled == [2, 0]
    assert not configured


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
def test_a_kernel_that_fits_nothing_is_told_with_what_there_is(fake: Fake, experiment: Run, tmp_path: Path) -> None:
    path = tmp_path / "half.mlir"
    path.write_text(TWO_PRODUCTS.format(last="k, n", weights="96x32").replace("xf32>", "xf16>").replace("f32", "f16"))
    with pytest.raises(NoCandidateError) as error:
        experiment("default", "sgemm_c", fake().tools, model=path)
    assert "fits no operation of half.mlir" in str(error.value)
    assert "linalg.matmul(tensor<64x128xf16>" in str(error.value)


@needs_c
def test_a_problem_that_the_model_does_not_have_is_told_with_what_there_is(
    fake: Fake, experiment: Run, model: Path
) -> None:
    with pytest.raises(NoCandidateError) as error:
        experiment("default", "sgemm_c", fake().tools, model=model, problem=Gemm.parse(shape="8x8x8", dtype="f32"))
    assert "is called 0 times" in str(error.value)
    assert "tensor<96x32xf32>" in str(error.value)


def test_flags_race_in_a_model_on_the_users_inputs(fake: Fake, experiment: Run, model: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.ones((64, 128), np.float32))
    (tmp_path / "tiled.flags").write_text(TILED)
    inputs = (f"@{tmp_path / 'a.npy'}", "128x96xf32=0.5", "96x32xf32")
    tools = fake((DATA_TILING, BASE_MS / 2)).tools
    result = experiment("default", tmp_path / "tiled.flags", tools, model=model, inputs=inputs)
    assert result.verdict == "win"
    assert f"--input=@{tmp_path / 'a.npy'}" in result.details.arms[1].benchmark


def test_inputs_that_a_model_does_not_take_are_refused(
    fake: Fake, experiment: Run, model: Path, tmp_path: Path
) -> None:
    np.save(tmp_path / "a.npy", np.ones((64, 127), np.float32))
    inputs = (f"@{tmp_path / 'a.npy'}", "128x96xf32", "96x32xf32")
    with pytest.raises(UsageError, match="does not fit the input, which is 64x128xf32"):
        experiment("default", "default", fake().tools, model=model, inputs=inputs)
    with pytest.raises(UsageError, match="takes 3 inputs"):
        experiment("default", "default", fake().tools, model=model, inputs=inputs[1:])


def test_an_arm_that_is_right_races_a_default_that_is_wrong(fake: Fake, experiment: Run, tmp_path: Path) -> None:
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
