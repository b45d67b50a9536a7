"""Right results pass in every type; one wrong element, NaN, and storage that was never written do not."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotuner.build import Builder, BuildJob
from autotuner.devices.process import ProcessDevice
from autotuner.errors import EnvironmentFailure
from autotuner.iree.tools import Tools
from autotuner.measure.check import Checker, Data, compare, poison
from autotuner.problems import Array, Bound, Gemm
from autotuner.problems.dtypes import element_type
from autotuner.problems.render import problem_mlir
from autotuner.system.parsing import write_raw
from autotuner.targets import Target

Compile = Callable[[str], Path]
SMALL = Gemm.parse(shape="12x20x33", dtype="f32")
TYPES = [("f32", "f32"), ("f16", "f32"), ("f16", "f16"), ("bf16", "f32"), ("i8", "i32"), ("f8", "f32")]


@pytest.fixture
def compile_module(builder: Builder) -> Compile:
    """compile_module(MLIR): a module for this machine."""

    def compile_it(source: str) -> Path:
        build = builder.build(BuildJob(source, Target.parse("cpu").compile_flags, timeout=120))
        assert build.ok, build.stderr
        return build.vmfb

    return compile_it


@pytest.fixture
def checker(tools: Tools, tmp_path: Path) -> Callable[[Gemm], Checker]:
    def make(problem: Gemm) -> Checker:
        device = ProcessDevice(tools, "local-sync", tmp_path)
        return Checker(device, Data.write(problem, tmp_path / "data", seed=3), timeout=120)

    return make


@pytest.mark.parametrize(("dtype", "acc"), [("f16", "f16"), ("i8", "i32")])
def test_a_right_result_passes(
    compile_module: Compile, checker: Callable[[Gemm], Checker], dtype: str, acc: str
) -> None:
    """Every other type, layout and operation: the tests of problems."""
    problem = Gemm.parse(shape="12x20x33", dtype=dtype, acc=acc)
    check = checker(problem).check(compile_module(problem_mlir(problem)))
    assert check.ok, check.detail
    assert check.error < (1e-3 if acc == "f16" else 1e-6)


def test_another_problems_module_is_wrong(compile_module: Compile, checker: Callable[[Gemm], Checker]) -> None:
    square = Gemm.parse(shape="16x16x16", dtype="f32")
    check = checker(square).check(compile_module(problem_mlir(replace(square, layout="tn"))))
    assert check.failure == "wrong-result"
    assert check.error > 0.5


def with_body(problem: Gemm, body: str) -> str:
    """A module of the problem's signature that computes something else."""
    lhs, rhs, out = (o.mlir for o in problem.operands)
    return f"""
      func.func @main(%lhs: {lhs}, %rhs: {rhs}, %storage: {out} {{iree.abi.output = 0 : index}}) -> {out} {{
        {body.format(lhs=lhs, rhs=rhs, out=out)}
      }}"""


@pytest.mark.parametrize("dtype", ["f32", "i8"])
def test_storage_that_is_never_written_fails(
    compile_module: Compile, checker: Callable[[Gemm], Checker], dtype: str
) -> None:
    problem = Gemm.parse(shape="12x20x33", dtype=dtype)
    check = checker(problem).check(compile_module(with_body(problem, "return %storage : {out}")))
    assert check.failure == "wrong-result"
    assert math.isnan(check.error) == (dtype == "f32")


@pytest.mark.parametrize(
    ("result", "body", "says"),
    [
        ("{lhs}", "return %a : {lhs}", "396 elements came out, not 240"),
        ("{ints}", "%0 = arith.bitcast %c : {out} to {ints} return %0 : {ints}", "int32 came out, not f32"),
    ],
)
def test_another_number_and_another_type_of_elements_fail(
    result: str, body: str, says: str, compile_module: Compile, checker: Callable[[Gemm], Checker]
) -> None:
    lhs, rhs, out = (o.mlir for o in SMALL.operands)
    text = f"func.func @main(%a: {lhs}, %b: {rhs}, %c: {out}) -> {result} {{{{ {body} }}}}"
    source = text.format(lhs=lhs, out=out, ints=out.replace("f32", "i32"))
    check = checker(SMALL).check(compile_module(source))
    assert (check.failure, check.detail) == ("wrong-result", says)


def test_a_module_that_does_not_run_says_why_and_no_earlier_output_is_read_again(
    compile_module: Compile, checker: Callable[[Gemm], Checker], tmp_path: Path
) -> None:
    one = checker(SMALL)
    assert one.check(compile_module(problem_mlir(SMALL))).ok
    missing = one.check(tmp_path / "missing.vmfb")
    assert missing.failure == "run-error"
    assert "missing.vmfb" in missing.detail
    assert missing.error == math.inf
    broken = tmp_path / "broken.vmfb"
    broken.write_text("no module")
    assert one.check(broken).failure == "run-error"


def test_inputs_that_cannot_be_written_say_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EnvironmentFailure, match="cannot write the inputs") as caught:
        Data.write(SMALL, tmp_path / "file" / "data", seed=0)
    assert "--workspace" in caught.value.remedy


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux has it")
@pytest.mark.parametrize("dtype", ["f32", "bf16", "f8E4M3FN", "i1"])
def test_a_full_disk_is_named_as_the_reason(dtype: str, tmp_path: Path) -> None:
    array = np.ones((3, 5), element_type(dtype).numpy)
    with pytest.raises(EnvironmentFailure, match="cannot write /dev/full: No space left on device"):
        write_raw(array, Path("/dev/full"))
    write_raw(array[:, ::2], tmp_path / "raw")
    assert (tmp_path / "raw").read_bytes() == array[:, ::2].tobytes()


# --- the comparison alone ---------------------------------------------------------------------------------------


def exact(problem: Gemm) -> tuple[Array, Array, Bound]:
    inputs = problem.inputs(0)
    reference = problem.reference(inputs)
    return reference.astype(problem.output.element.numpy), reference, problem.bound(inputs, reference)


@pytest.mark.parametrize(("dtype", "acc"), TYPES)
def test_poison_never_passes(dtype: str, acc: str) -> None:
    problem = Gemm.parse(shape="12x20x33", dtype=dtype, acc=acc)
    out, reference, bound = exact(problem)
    assert compare(out, reference, bound).ok
    left = poison(problem.output)
    assert left.dtype == out.dtype
    assert not compare(left, reference, bound).ok
    out[3, 4] = left[3, 4]
    assert not compare(out, reference, bound).ok


def test_one_element_that_is_left_out_of_a_large_f16_output_is_found() -> None:
    problem = Gemm.parse(shape="1024x1024x64", dtype="f16", acc="f16")
    out, reference, bound = exact(problem)
    rms = np.linalg.norm(reference) / 1024
    at = np.unravel_index(int(np.argmin(np.abs(np.abs(reference) - rms))), reference.shape)
    out[at] = 0
    check = compare(out, reference, bound)
    assert check.error <= 2e-3
    assert check.failure == "wrong-result"
    assert f"element ({at[0]}, {at[1]})" in check.detail


@given(
    row=st.integers(0, 11),
    column=st.integers(0, 19),
    value=st.sampled_from([math.nan, math.inf, -math.inf, 1e30, -1e30]),
)
def test_what_is_not_finite_never_passes(row: int, column: int, value: float) -> None:
    out, reference, bound = exact(SMALL)
    out[row, column] = value
    assert compare(out, reference, bound).failure == "wrong-result"


@given(scale=st.floats(0.0, 0.9), seed=st.integers(0, 1000))
def test_noise_of_the_expected_size_passes_and_four_times_it_does_not(scale: float, seed: int) -> None:
    _, reference, bound = exact(SMALL)
    noise = np.random.default_rng(seed).standard_normal(reference.shape) * bound.deviation
    assert compare(reference + noise * scale, reference, bound).ok
    assert not compare(reference + noise * 4, reference, bound).ok
