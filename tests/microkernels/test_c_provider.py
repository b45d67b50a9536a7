"""C kernels on this processor: compiled once, linked into a module by a spec, and right."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autotuner.build import Builder
from autotuner.devices.process import ProcessDevice
from autotuner.errors import ToolMissingError, UsageError
from autotuner.iree.processor import executable_target, read_features
from autotuner.iree.tools import Tools
from autotuner.measure.check import Check, Checker, Data
from autotuner.microkernels.check import check
from autotuner.microkernels.chips import choose_isa
from autotuner.microkernels.instance import Binding, Call, Instance, shipped_folder
from autotuner.microkernels.library import find
from autotuner.microkernels.loader import FILE, load
from autotuner.microkernels.manifest import DoesNotFitError
from autotuner.microkernels.providers.c import compile_object
from autotuner.microkernels.providers.provider import ObjectRefusalError
from autotuner.microkernels.variants import Variants
from autotuner.problems import Gemm, Operand
from autotuner.problems.conv import Conv
from autotuner.problems.epilogue import Epilogue
from autotuner.problems.operations import OPERATIONS
from autotuner.problems.render import problem_mlir
from autotuner.targets import Target
from tests.support.kernels import bound, built, job_of, request

CHIP = platform.machine()
CPU = Target.parse("cpu")
SGEMM = find("sgemm_c", [shipped_folder()], OPERATIONS)
CPU_FLAG = "--iree-llvmcpu-target-cpu"
Run = Callable[[Call], Check]


@pytest.fixture(scope="module")
def target(builder: Builder) -> str:
    text = builder.inspect(problem_mlir(Gemm.parse(shape="16x16x16", dtype="f32")), CPU.compile_flags, timeout=120)
    return executable_target(text)


@pytest.fixture
def run(builder: Builder, tools: Tools, target: str, tmp_path: Path) -> Run:
    """Compiles a problem with its kernel, runs it on several threads, and compares."""

    def check_call(call: Call) -> Check:
        folder = tmp_path / call.problem.name / call.instance.name
        build = builder.build(job_of(call, CPU.compile_flags, target))
        if not build.ok:
            return Check(build.failure, float("inf"), build.stderr)
        data = Data.write(call.problem, folder / "data", seed=3)
        return Checker(ProcessDevice(tools, "local-task", data.folder), data, timeout=120).check(build.vmfb)

    return check_call


def sgemm(gemm: Gemm, target: str, parameters: Mapping[str, int] | None = None) -> Call:
    return Call(bound(request(SGEMM, gemm, CHIP, parameters, features=read_features(target))), gemm)


PACKED = {"packed": 1, "mr": 14, "vectors": 2, "kc": 96, "mc": 32, "nc": 128}


def test_the_shipped_product_is_right(run: Run, target: str, executor: Executor) -> None:
    """In IREE; `test_c_kernels` has all layouts and settings."""
    calls = [
        sgemm(Gemm.parse(shape="64x48x130", dtype="f32"), target),
        sgemm(Gemm.parse(shape="33x70x5", batch=3, dtype="f32", layout="tt", epilogue="bias,relu"), target, PACKED),
    ]
    assert [check(call.instance) for call in calls] == [[]] * len(calls)
    results = executor.map(run, calls)
    assert [(c.problem.name, c.instance.name, r.detail) for c, r in zip(calls, results, strict=True) if not r.ok] == []


def test_a_convolution_pixel_by_pixel_is_a_product(run: Run, target: str, tmp_path: Path) -> None:
    pointwise = Conv.parse(shape="2x7x9x20", filter="1x1x33", dtype="f32", epilogue="relu")
    variants = Variants.of(SGEMM, pointwise, CHIP, workspace=tmp_path, executable_target=target)
    call = variants.call(variants.default())
    assert (call.problem, call.view) == (pointwise, Gemm.parse(shape="126x33x20", dtype="f32", epilogue="relu"))
    result = run(call)
    assert result.ok, result.detail
    others: tuple[Mapping[str, Any], ...]
    others = {"stride": (2, 2)}, {"pad": (1, 1)}, {"layout": "nchw-fchw"}, {"epilogue": Epilogue(bias=True)}
    for other in others:
        with pytest.raises(DoesNotFitError, match="it computes gemm, not conv"):
            SGEMM.declared(replace(pointwise, **other), CHIP)


def test_the_deepest_panels_fit_the_stack_of_a_worker(run: Run, target: str) -> None:
    """IREE's workers have 128 KiB."""
    gemm = Gemm.parse(shape="256x256x512", dtype="f32")
    largest: dict[str, int] = {}
    for settings in SGEMM.settings():
        rows = -(-settings["mc"] // settings["mr"]) * settings["mr"]
        size = (rows + 16 * settings["vectors"]) * settings["kc"] + 16 * settings["vectors"] * settings["mr"]
        if 4 * size <= 104 * 1024 and size > largest.get("size", 0):
            largest = {**settings, "size": size}
    assert 4 * largest.pop("size") > 96 * 1024
    assert run(sgemm(gemm, target, largest)).ok


CONV = """
// out[n][f][y][x] += image * weights[f][r][s][c], one workgroup for each image; padding, stride and dilation of 1
void conv(float* out, const float* weights, const float* image, int h, int w, int c, int f, int r, int s,
          unsigned long n, unsigned long unused_y, unsigned long unused_z) {
  for (int k = 0; k < f; ++k) for (int y = 0; y < h; ++y) for (int x = 0; x < w; ++x)
    for (int i = 0; i < r; ++i) for (int j = 0; j < s; ++j) for (int l = 0; l < c; ++l) {
      int row = y + i - r / 2, column = x + j - s / 2;
      if (row < 0 || row >= h || column < 0 || column >= w) continue;
      float pixel = image[((n * h + row) * w + column) * c + l];
      out[((n * f + k) * h + y) * w + x] += pixel * weights[((k * r + i) * s + j) * c + l];
    }
}
"""


def test_operands_come_in_the_kernels_order_and_the_result_starts_at_zero(run: Run, tmp_path: Path) -> None:
    """A padded convolution whose kernel has the result first and with channels first, and adds to what is there."""
    conv = Conv.parse(shape="2x7x8x4", filter="3x3x6", pad="1x1", dtype="f32")
    source = tmp_path / "conv.c"
    source.write_text(CONV)
    image, weights, out = conv.operands

    def reordered(operand: Operand, order: tuple[int, ...]) -> Operand:
        return Operand(tuple(operand.shape[axis] for axis in order), operand.element)

    to_fchw, to_frsc = (0, 3, 1, 2), (3, 0, 1, 2)
    bindings = (
        Binding(2, "write", reordered(out, to_fchw), to_fchw, zeroed=True),
        Binding(1, "read", reordered(weights, to_frsc), to_frsc),
        Binding(0, "read", image),
    )
    made = compile_object(source, {}, chip=CHIP, symbol="conv")
    kernel = Instance(
        "conv", made.symbol, CHIP, (made.path,), bindings, (7, 8, 4, 6, 3, 3), (1, 1, 1), None, 0, (2, 1, 1)
    )
    result = run(Call(kernel, conv))
    assert result.ok, result.detail


PARTS = f"""
operation = "gemm"
dtypes = ["f32"]
layouts = ["nn"]
symbol = "mine"
constants = ["m", "n", "k", "many"]
workgroup_size = [1]
grid = ["many"]
parameters = {{ many = [3, 1, 0] }}
bindings = [
  {{ operand = "lhs", access = "read" }},
  {{ operand = "rhs", access = "read" }},
  {{ operand = "out", access = "write", element = "f32", parts = "many" }},
]
provider = {{ kind = "c", source = "mine.c", chips = ["{CHIP}"] }}
"""
IN_PARTS = """
void mine(const float *a, const float *b, float *c, int m, int n, int k, int many, unsigned long part) {
  for (int i = 0; i < m; i++)
    for (int j = 0; j < n; j++) {
      float sum = 0.0f;
      for (int d = (int)part; d < k; d += many) sum += a[i * k + d] * b[d * n + j];
      c[((long)part * m + i) * n + j] = sum;
    }
}
"""


def test_results_in_parts_of_the_depth_are_added_up_by_iree(run: Run, tmp_path: Path) -> None:
    (folder := tmp_path / "mine").mkdir()
    (folder / "mine.c").write_text(IN_PARTS)
    (folder / FILE).write_text(PARTS)
    manifest, problem = load(folder / FILE, OPERATIONS), Gemm.parse(shape="12x20x48", dtype="f32")
    for many in (3, 1):
        instance = bound(request(manifest, problem, CHIP, {"many": many}))
        assert [binding.parts for binding in instance.bindings] == [1, 1, many]
        result = run(Call(instance, problem))
        assert result.ok, result.detail
    with pytest.raises(DoesNotFitError, match="results in 0 parts"):
        bound(request(manifest, problem, CHIP, {"many": 0}))


# --- the compiler ---------------------------------------------------------------------------------------------------


def test_panels_that_are_too_large_are_refused_by_manifest_and_source() -> None:
    gemm = Gemm.parse(shape="64x64x64", dtype="f32")
    with pytest.raises(UsageError, match=r"104 \* 1024"):
        built(request(SGEMM, gemm, CHIP, {"kc": 256, "mc": 160}))
    source = SGEMM.provider.source
    assert source is not None
    with pytest.raises(ObjectRefusalError, match="do not fit the stack"):
        compile_object(source, {"MR": 8, "VECTORS": 2, "KC": 1024, "MC": 64, "NC": 64, "PACKED": 0}, chip=CHIP)


def test_an_object_for_another_machine_is_refused(tmp_path: Path) -> None:
    (tmp_path / "kernel.c").write_text("void kernel(void) {}")
    with pytest.raises(ToolMissingError, match=r"no C compiler on PATH makes code for s390; .*gcc-s390-linux-gnu"):
        compile_object(tmp_path / "kernel.c", {}, chip="s390")


def test_whatever_is_included_counts(tmp_path: Path) -> None:
    source, included = tmp_path / "kernel.c", tmp_path / (name := "sub/with blank.inc")
    included.parent.mkdir()
    source.write_text('#include "outer.h"\nint kernel(void) { return ANSWER; }\n')
    (tmp_path / "outer.h").write_text(f'#include "{name}"\n')
    included.write_text("#define ANSWER 1\n")
    first = compile_object(source, {}, chip=CHIP)
    (tmp_path / "unused.h").write_text("#error\n")
    assert compile_object(source, {}, chip=CHIP) == first
    included.write_text("#define ANSWER 2\n")
    assert compile_object(source, {}, chip=CHIP).path.read_bytes() != first.path.read_bytes()


def test_numbers_that_leave_the_code_as_it_is_share_an_object(tmp_path: Path) -> None:
    source = tmp_path / "kernel.c"
    source.write_text("int kernel(void) { return WIDTH / 8; }\n")
    first = compile_object(source, {"width": 8, "height": 1}, chip=CHIP)
    assert compile_object(source, {"width": 8, "height": 2}, chip=CHIP) == first
    assert compile_object(source, {"width": 16, "height": 1}, chip=CHIP).symbol != first.symbol


def test_instructions_are_those_that_the_processor_has() -> None:
    avx512 = {"avx2", "fma", "avx512f", "avx512bw", "avx512dq", "avx512vl"}
    given: tuple[set[str], ...] = ({*avx512, "sse2"}, {"avx2", "fma", "avx512f"}, {"avx2"}, set())
    assert [choose_isa("x86_64", one).name for one in given] == ["AVX-512", "AVX2", "SSE2", "SSE2"]
    assert choose_isa("aarch64", {"neon"}).name == "NEON"


def test_another_processor_than_the_hosts_decides_the_instructions(builder: Builder) -> None:
    """A kernel for a processor without AVX must not have any, whatever this machine has."""
    plain = Target.parse("cpu", flags=["--iree-llvmcpu-target-triple=x86_64-linux-gnu", f"{CPU_FLAG}=x86-64"])
    newer = Target.parse("cpu", flags=["--iree-llvmcpu-target-triple=x86_64-linux-gnu", f"{CPU_FLAG}=haswell"])
    text = problem_mlir(Gemm.parse(shape="16x16x16", dtype="f32"))
    found = [
        choose_isa("x86_64", read_features(executable_target(builder.inspect(text, t.compile_flags, timeout=120))))
        for t in (plain, newer)
    ]
    assert [isa.name for isa in found] == ["SSE2", "AVX2"]
