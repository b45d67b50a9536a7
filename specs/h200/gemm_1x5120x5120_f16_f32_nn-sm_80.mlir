// Microkernel spec by autotune 0.1.0
// problem:    gemm_1x5120x5120_f16_f32_nn (52428800 flops, 52459520 bytes)
// target:     sm_80, kernel for sm_90; IREE 3.13.0 (3.13.0rc20261016 @ 89ece87b8985, compiler 79ebc0fb9969)
// machine:    NVIDIA H200, driver 580.159.04
// verdict:    win, 9.711x over IREE's default, 95 % interval 9.619 to 10.174
// recorded:   results/reference/h200/hopper-parts.json
// kernel:     gemm_cuda, bm=256, bn=16, both=0, fill=3, turned=1; built by NVRTC 13.4
// date:       2026-11-17 20:16 UTC
// made by:    python -m benchmarks.hopper OUT.json --only gemm_1x5120 --budget 20s --seconds 44 --trials 24
// use:        iree-compile MODEL.mlir @specs/h200/gemm_1x5120x5120_f16_f32_nn-sm_80.flags -o MODEL.vmfb
module attributes {transform.with_named_sequence} {
  util.func private @autotune_microkernel_0(%arg0: tensor<1x5120xf16>, %arg1: tensor<5120x5120xf16>) -> tensor<1x5120xf32> {
    %constant0 = arith.constant 1 : i32
    %constant1 = arith.constant 5120 : i32
    %constant2 = arith.constant 5120 : i32
    %constant3 = arith.constant 1 : i32
    %called:2 = "hal.dispatch.extern"(%constant0, %constant1, %constant2, %constant3, %arg0, %arg1) <{
        export_name = "gemm_cuda",
        layout = #hal.pipeline.layout<constants = 4, bindings = [#hal.pipeline.binding<storage_buffer, ReadOnly>, #hal.pipeline.binding<storage_buffer, ReadOnly>, #hal.pipeline.binding<storage_buffer>, #hal.pipeline.binding<storage_buffer>]>,
        operandSegmentSizes = array<i32: 0, 6, 0, 0>,
        targets = [#hal.executable.target<"cuda", "cuda-nvptx-fb">],
        target_ordinals = [0 : index],
        target_objects = [[#hal.executable.object<{path = "gemm-5191964583f9e4922355806b.cubin"}>]],
        tied_operands = [-1 : index, -1 : index],
        workgroup_size = [384 : index, 1 : index, 1 : index],
        subgroup_size = 32 : index,
        workgroup_local_memory = 210432 : index
      }> ({
      ^bb0(%device: !hal.device):
        %x = arith.constant 80 : index
        %y = arith.constant 1 : index
        %z = arith.constant 1 : index
        hal.return %x, %y, %z : index, index, index
      }, {
      }) : (i32, i32, i32, i32, tensor<1x5120xf16>, tensor<5120x5120xf16>) -> (tensor<1x5120xf32>, tensor<20608xi8>)
    util.return %called#0 : tensor<1x5120xf32>
  }
  transform.named_sequence @match_0_0(%root: !transform.any_op {transform.readonly}) -> (!transform.any_value, !transform.any_value) attributes {__autotune_entry__ = {baseline_us = 167.1759830512521 : f64, command = "python -m benchmarks.hopper OUT.json --only gemm_1x5120 --budget 20s --seconds 44 --trials 24", compiler = "3.13.0rc20261016 @ 89ece87b8985, compiler 79ebc0fb9969", date = "2026-11-17 20:16 UTC", device = "cuda", driver = "580.159.04", high = 10.173883441199923 : f64, iree = "3.13.0", low = 9.6194432441511494 : f64, machine = "NVIDIA H200", median = 9.7107855851318074 : f64, problem = "gemm_1x5120x5120_f16_f32_nn", seconds = 1.970000e+01 : f64, target = "sm_80", us = 17.223370951918209 : f64, verdict = "win"}, __autotune_objects__ = {"gemm-5191964583f9e4922355806b.cubin" = "927e23aa3e645f93dbf6c59089958946acdb4ac094000ae39191310dfa3eabdd"}} {
    %ins, %outs = transform.iree.match.cast_compatible_dag_from_root %root {
    ^bb0(%arg0: tensor<1x5120xf16>, %arg1: tensor<5120x5120xf16>):
      %cst = arith.constant 0.000000e+00 : f32
      %0 = tensor.empty() : tensor<1x5120xf32>
      %1 = linalg.fill ins(%cst : f32) outs(%0 : tensor<1x5120xf32>) -> tensor<1x5120xf32>
      %2 = linalg.matmul ins(%arg0, %arg1 : tensor<1x5120xf16>, tensor<5120x5120xf16>) outs(%1 : tensor<1x5120xf32>) -> tensor<1x5120xf32>
    } : (!transform.any_op) -> (!transform.any_value, !transform.any_value)
    transform.yield %ins, %outs : !transform.any_value, !transform.any_value
  }
  transform.named_sequence @match_0_1(%root: !transform.any_op {transform.readonly}) -> (!transform.any_value, !transform.any_value) attributes {__autotune_entry__ = {baseline_us = 167.1759830512521 : f64, command = "python -m benchmarks.hopper OUT.json --only gemm_1x5120 --budget 20s --seconds 44 --trials 24", compiler = "3.13.0rc20261016 @ 89ece87b8985, compiler 79ebc0fb9969", date = "2026-11-17 20:16 UTC", device = "cuda", driver = "580.159.04", high = 10.173883441199923 : f64, iree = "3.13.0", low = 9.6194432441511494 : f64, machine = "NVIDIA H200", median = 9.7107855851318074 : f64, problem = "gemm_1x5120x5120_f16_f32_nn", seconds = 1.970000e+01 : f64, target = "sm_80", us = 17.223370951918209 : f64, verdict = "win"}, __autotune_objects__ = {"gemm-5191964583f9e4922355806b.cubin" = "927e23aa3e645f93dbf6c59089958946acdb4ac094000ae39191310dfa3eabdd"}} {
    %ins, %outs = transform.iree.match.cast_compatible_dag_from_root %root {
    ^bb0(%arg0: tensor<1x5120xf16>, %arg1: tensor<5120x5120xf16>):
      %cst = arith.constant 0.000000e+00 : f32
      %0 = tensor.empty() : tensor<1x5120xf32>
      %1 = linalg.fill ins(%cst : f32) outs(%0 : tensor<1x5120xf32>) -> tensor<1x5120xf32>
      %2 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%arg0, %arg1 : tensor<1x5120xf16>, tensor<5120x5120xf16>) outs(%1 : tensor<1x5120xf32>) {
      ^bb0(%in: f16, %in_0: f16, %out: f32):
        %3 = arith.extf %in : f16 to f32
        %4 = arith.extf %in_0 : f16 to f32
        %5 = arith.mulf %3, %4 : f32
        %6 = arith.addf %out, %5 : f32
        linalg.yield %6 : f32
      } -> tensor<1x5120xf32>
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
