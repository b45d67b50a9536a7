"""What is read from the compiler's own output: roots, facts, markers, tile sizes."""

from __future__ import annotations

import pytest

from autotuner.build import Builder
from autotuner.errors import EnvironmentFailure
from autotuner.iree.mlir import read_applied, read_root, same_attributes
from autotuner.iree.processor import read_cpu_facts
from autotuner.problems import Gemm
from autotuner.problems.render import problem_mlir
from autotuner.targets import Target

ROOT = "--iree-codegen-add-tuner-attributes"
ELEMENTWISE = """
func.func @main(%a: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %0 = arith.addf %a, %a : tensor<64x64xf32>
  return %0 : tensor<64x64xf32>
}"""
TWO_PRODUCTS = """
func.func @main(%a: tensor<32x64xf32>, %b: tensor<64x32xf32>, %c: tensor<64x512xf32>)
    -> (tensor<32x32xf32>, tensor<32x512xf32>) {
  %zero = arith.constant 0.0 : f32
  %0 = tensor.empty() : tensor<32x32xf32>
  %1 = linalg.fill ins(%zero : f32) outs(%0 : tensor<32x32xf32>) -> tensor<32x32xf32>
  %2 = linalg.matmul ins(%a, %b : tensor<32x64xf32>, tensor<64x32xf32>)
    outs(%1 : tensor<32x32xf32>) -> tensor<32x32xf32>
  %3 = tensor.empty() : tensor<32x512xf32>
  %4 = linalg.fill ins(%zero : f32) outs(%3 : tensor<32x512xf32>) -> tensor<32x512xf32>
  %5 = linalg.matmul ins(%a, %c : tensor<32x64xf32>, tensor<64x512xf32>)
    outs(%4 : tensor<32x512xf32>) -> tensor<32x512xf32>
  return %2, %5 : tensor<32x32xf32>, tensor<32x512xf32>
}"""
MARKED = """
module {
  func.func @main() attributes {
      translation_info = #iree_codegen.translation_info<pipeline = #iree_cpu.pipeline<Default>>} {
    %0 = arith.constant {mark, lowering_config = #iree_cpu.lowering_config<distribution = [4]>} 1 : i32
    %1 = arith.constant {mark} 2 : i32
    %2 = arith.constant 3 : i32
    return
  }
}"""


def inspect(builder: Builder, source: str, target: str, *flags: str) -> str:
    return builder.inspect(source, [*Target.parse(target).compile_flags, ROOT, *flags], timeout=120)


@pytest.mark.parametrize(
    ("target", "layout", "batch"),
    [
        *(("cpu", "nn", 1), ("cpu", "tt", 3), ("gfx942", "tn", 3), ("sm_80", "nt", 1)),
    ],
)
def test_the_root_of_a_gemm_has_its_sizes_whatever_the_layout(
    builder: Builder, target: str, layout: str, batch: int
) -> None:
    problem = Gemm.parse(shape="64x128x256", layout=layout, batch=batch)
    root = read_root(inspect(builder, problem_mlir(problem), target))
    assert root is not None
    sizes = tuple(root.sizes(role) for role in ("batch", "m", "n", "k"))
    assert sizes == ((3,) if batch > 1 else (), (64,), (128,), (256,))
    assert root.work == problem.flops // 2
    assert root.element_types == ("f16", "f16", "f32")
    assert len(root.maps) == 3
    assert "lowering_config" in root.lowering_config
    assert root.translation_info.startswith("#iree_codegen.translation_info<")


def test_packed_operands_have_inner_loops(builder: Builder) -> None:
    source = problem_mlir(Gemm.parse(shape="64x128x256", dtype="f32"))
    packed = read_root(inspect(builder, source, "cpu", "--iree-global-opt-data-tiling"))
    assert packed is not None
    assert packed.op == "linalg.mmt4d"
    assert len(packed.loops) == 6
    assert packed.work >= 64 * 128 * 256
    tiled = read_root(
        inspect(builder, source, "cpu", "--iree-global-opt-data-tiling", "--iree-llvmcpu-enable-inner-tiled")
    )
    assert tiled is not None
    assert tiled.op == "iree_codegen.inner_tiled"
    assert all(tiled.dims(role) for role in ("m", "n", "k"))


def test_the_root_with_the_most_work_is_taken(builder: Builder) -> None:
    root = read_root(inspect(builder, TWO_PRODUCTS, "cpu"))
    assert root is not None
    assert root.work == 32 * 512 * 64


def test_a_dispatch_that_is_no_contraction_has_no_root(builder: Builder) -> None:
    assert read_root(inspect(builder, ELEMENTWISE, "cpu")) is None


def test_cpu_facts_are_of_the_processor_that_is_compiled_for(builder: Builder) -> None:
    source = problem_mlir(Gemm.parse(shape="16x16x16", dtype="f32"))

    def facts(triple: str, features: str) -> tuple[int, int]:
        flags = [
            *Target.parse("cpu", flags=["--iree-llvmcpu-target-cpu=generic"]).compile_flags,
            f"--iree-llvmcpu-target-triple={triple}-unknown-linux-gnu",
            f"--iree-llvmcpu-target-cpu-features={features}",
        ]
        found = read_cpu_facts(builder.inspect(source, flags, timeout=120))
        return found.vector_bytes, found.vector_registers

    assert facts("x86_64", "+avx2,+fma") == (32, 16)
    assert facts("x86_64", "+avx512f")[1] == 32
    assert facts("aarch64", "+neon") == (16, 32)
    host = read_cpu_facts(builder.inspect(source, Target.parse("cpu").compile_flags, timeout=120))
    assert host.vector_bytes >= 16
    assert host.vector_registers in (16, 32)


def test_output_that_does_not_parse_is_an_environment_failure() -> None:
    with pytest.raises(EnvironmentFailure, match="cannot read what the compiler printed") as caught:
        read_root("module { this is no MLIR }")
    assert "autotune doctor" in caught.value.remedy


def test_marked_operations_are_found_with_what_they_carry() -> None:
    first, second = read_applied([MARKED], marker="mark")
    assert first.op == second.op == "arith.constant"
    assert first.lowering_config == "#iree_cpu.lowering_config<distribution = [4]>"
    assert second.lowering_config == ""
    assert "#iree_cpu.pipeline<Default>" in first.translation_info
    assert read_applied([MARKED], marker="another") == []


def test_attributes_are_compared_by_meaning() -> None:
    spaced = "#iree_cpu.lowering_config<vector_reduction=[0,0,4],   distribution = [1, 2, 0]>"
    plain = "#iree_cpu.lowering_config<distribution = [1, 2, 0], vector_reduction = [0, 0, 4]>"
    assert same_attributes([(spaced, plain), (plain, plain.replace("2", "3"))]) == [True, False]
