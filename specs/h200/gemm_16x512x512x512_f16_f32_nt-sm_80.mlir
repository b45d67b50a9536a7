// Microkernel spec by autotune 0.1.0
// problem:    gemm_16x512x512x512_f16_f32_nt (4294967296 flops, 33554432 bytes)
// target:     sm_80, kernel for sm_90; IREE 3.13.0 (3.13.0rc20261016 @ 89ece87b8985, compiler 79ebc0fb9969)
// machine:    NVIDIA H200, driver 580.159.04
// verdict:    win, 3.441x over IREE's default, 95 % interval 3.386 to 3.535
// recorded:   results/reference/h200/hopper-constants.json
// kernel:     gemm_cuda, bm=128, bn=256, both=0, fill=0, turned=0; built by NVRTC 13.4
// date:       2026-11-17 22:53 UTC
// made by:    python -m benchmarks.hopper OUT.json --only gemm_16x512 --budget 20s --seconds 45 --trials 24
// use:        iree-compile your_program.mlir @specs/h200/gemm_16x512x512x512_f16_f32_nt-sm_80.flags -o your_program.vmfb
module attributes {transform.with_named_sequence} {
  util.func private @autotune_microkernel_0(%arg0: tensor<16x512x512xf16>, %arg1: tensor<16x512x512xf16>) -> tensor<16x512x512xf32> {
    %called = "hal.dispatch.extern"(%arg0, %arg1) <{
        export_name = "gemm_cuda",
        layout = #hal.pipeline.layout<constants = 0, bindings = [#hal.pipeline.binding<storage_buffer, ReadOnly>, #hal.pipeline.binding<storage_buffer, ReadOnly>, #hal.pipeline.binding<storage_buffer>]>,
        operandSegmentSizes = array<i32: 0, 2, 0, 0>,
        targets = [#hal.executable.target<"cuda", "cuda-nvptx-fb">],
        target_ordinals = [0 : index],
        target_objects = [[#hal.executable.object<{path = "gemm-57a6a422c778c999572c0ac5.cubin"}>]],
        tied_operands = [-1 : index],
        workgroup_size = [384 : index, 1 : index, 1 : index],
        subgroup_size = 32 : index,
        workgroup_local_memory = 197888 : index
      }> ({
      ^bb0(%device: !hal.device):
        %x = arith.constant 128 : index
        %y = arith.constant 1 : index
        %z = arith.constant 1 : index
        hal.return %x, %y, %z : index, index, index
      }, {
      }) : (tensor<16x512x512xf16>, tensor<16x512x512xf16>) -> (tensor<16x512x512xf32>)
    util.return %called : tensor<16x512x512xf32>
  }
  transform.named_sequence @match_0_0(%root: !transform.any_op {transform.readonly}) -> (!transform.any_value, !transform.any_value) attributes {__autotune_entry__ = {baseline_us = 40.984600418411013 : f64, command = "python -m benchmarks.hopper OUT.json --only gemm_16x512 --budget 20s --seconds 45 --trials 24", compiler = "3.13.0rc20261016 @ 89ece87b8985, compiler 79ebc0fb9969", date = "2026-11-17 22:53 UTC", device = "cuda", driver = "580.159.04", high = 3.5350664452866463 : f64, iree = "3.13.0", low = 3.3860022118656179 : f64, machine = "NVIDIA H200", median = 3.4414670889972778 : f64, problem = "gemm_16x512x512x512_f16_f32_nt", seconds = 1.950000e+01 : f64, target = "sm_80", us = 11.918454653244559 : f64, verdict = "win"}, __autotune_objects__ = {"gemm-57a6a422c778c999572c0ac5.cubin" = "57902fae121eadc95ecfa2295eb27bbed81875de29ac3ffe8a18c9a3f6802802"}} {
    %ins, %outs = transform.iree.match.cast_compatible_dag_from_root %root {
    ^bb0(%arg0: tensor<16x512x512xf16>, %arg1: tensor<16x512x512xf16>):
      %cst = arith.constant 0.000000e+00 : f32
      %0 = tensor.empty() : tensor<16x512x512xf32>
      %1 = linalg.fill ins(%cst : f32) outs(%0 : tensor<16x512x512xf32>) -> tensor<16x512x512xf32>
      %2 = linalg.batch_matmul indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>] ins(%arg0, %arg1 : tensor<16x512x512xf16>, tensor<16x512x512xf16>) outs(%1 : tensor<16x512x512xf32>) -> tensor<16x512x512xf32>
    } : (!transform.any_op) -> (!transform.any_value, !transform.any_value)
    transform.yield %ins, %outs : !transform.any_value, !transform.any_value
  }
  transform.named_sequence @match_0_1(%root: !transform.any_op {transform.readonly}) -> (!transform.any_value, !transform.any_value) attributes {__autotune_entry__ = {baseline_us = 40.984600418411013 : f64, command = "python -m benchmarks.hopper OUT.json --only gemm_16x512 --budget 20s --seconds 45 --trials 24", compiler = "3.13.0rc20261016 @ 89ece87b8985, compiler 79ebc0fb9969", date = "2026-11-17 22:53 UTC", device = "cuda", driver = "580.159.04", high = 3.5350664452866463 : f64, iree = "3.13.0", low = 3.3860022118656179 : f64, machine = "NVIDIA H200", median = 3.4414670889972778 : f64, problem = "gemm_16x512x512x512_f16_f32_nt", seconds = 1.950000e+01 : f64, target = "sm_80", us = 11.918454653244559 : f64, verdict = "win"}, __autotune_objects__ = {"gemm-57a6a422c778c999572c0ac5.cubin" = "57902fae121eadc95ecfa2295eb27bbed81875de29ac3ffe8a18c9a3f6802802"}} {
    %ins, %outs = transform.iree.match.cast_compatible_dag_from_root %root {
    ^bb0(%arg0: tensor<16x512x512xf16>, %arg1: tensor<16x512x512xf16>):
      %cst = arith.constant 0.000000e+00 : f32
      %0 = tensor.empty() : tensor<16x512x512xf32>
      %1 = linalg.fill ins(%cst : f32) outs(%0 : tensor<16x512x512xf32>) -> tensor<16x512x512xf32>
      %2 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%arg0, %arg1 : tensor<16x512x512xf16>, tensor<16x512x512xf16>) outs(%1 : tensor<16x512x512xf32>) {
      ^bb0(%in: f16, %in_0: f16, %out: f32):
        %3 = arith.extf %in : f16 to f32
        %4 = arith.extf %in_0 : f16 to f32
        %5 = arith.mulf %3, %4 : f32
        %6 = arith.addf %out, %5 : f32
        linalg.yield %6 : f32
      } -> tensor<16x512x512xf32>
    } : (!transform.any_op) -> (!transform.any_value, !transform.any_value)
    transform.yield %ins, %outs : !transform.any_value, !transform.any_value
  }
  transform.named_sequence @call_0(%ins: !transform.any_value {transform.readonly}, %out: !transform.any_value {transform.readonly}) {
    %root = transform.get_defining_op %out : (!transform.any_value) -> !transform.any_op
    %module = transform.util.get_nearest_symbol_table %root : (!transform.any_op) -> !transform.any_op
    %function = transform.util.import_symbol @autotune_microkernel_0 into %module if undefined : (!transform.any_op) -> !transform.any_op
    transform.util.cast_and_call %function(%ins) -> %out after %root {} : (!transform.any_op, !transform.any_value, !transform.any_value, !transform.any_op) -> !transform.any_op
    transform.yield
  }
  transform.named_sequence @__transform_main(%module: !transform.any_op) {
    %functions = transform.structured.match ops{["util.func"]} in %module : (!transform.any_op) -> !transform.any_op
    transform.foreach %functions : !transform.any_op {
    ^bb1(%function: !transform.any_op):
      %matched0 = transform.foreach_match in %function
        @match_0_0 -> @call_0,
        @match_0_1 -> @call_0
        : (!transform.any_op) -> !transform.any_op
    }
    transform.apply_dce to %module : !transform.any_op
    %inlined = transform.apply_registered_pass "inline" to %module : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
}
