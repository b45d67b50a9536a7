// Microkernel spec by autotune 0.1.0
// problem:    gemm_4096x4096x4096_f8_f32_nt (137438953472 flops, 100663296 bytes)
// target:     sm_89, kernel for sm_90; IREE 3.13.0 (3.13.0rc20261016 @ 89ece87b8985, compiler 79ebc0fb9969)
// machine:    NVIDIA H200, driver 580.159.04
// verdict:    win, 5.490x over IREE's default, 95 % interval 5.367 to 5.759
// precision:  results of f16 accuracy were accepted
// recorded:   results/reference/h200/hopper-f8.json
// kernel:     gemm_cuda, bm=128, bn=256, both=0, fill=0, turned=0; built by NVRTC 13.4
// date:       2026-11-18 04:32 UTC
// made by:    python -m benchmarks.hopper hopper-f8.json --suite hopper-f8 --target sm_89 --allow-precision f16 --budget 26s --seconds 230 --trials 24
// use:        iree-compile your_program.mlir @specs/h200/gemm_4096x4096x4096_f8_f32_nt-sm_89.flags -o your_program.vmfb
module attributes {transform.with_named_sequence} {
  util.func private @autotune_microkernel_0(%arg0: tensor<4096x4096xf8E4M3FN>, %arg1: tensor<4096x4096xf8E4M3FN>) -> tensor<4096x4096xf32> {
    %called = "hal.dispatch.extern"(%arg0, %arg1) <{
        export_name = "gemm_cuda",
        layout = #hal.pipeline.layout<constants = 0, bindings = [#hal.pipeline.binding<storage_buffer, ReadOnly>, #hal.pipeline.binding<storage_buffer, ReadOnly>, #hal.pipeline.binding<storage_buffer>]>,
        operandSegmentSizes = array<i32: 0, 2, 0, 0>,
        targets = [#hal.executable.target<"cuda", "cuda-nvptx-fb">],
        target_ordinals = [0 : index],
        target_objects = [[#hal.executable.object<{path = "gemm-8fe98b57a9b4ef8f03771767.cubin"}>]],
        tied_operands = [-1 : index],
        workgroup_size = [384 : index, 1 : index, 1 : index],
        subgroup_size = 32 : index,
        workgroup_local_memory = 197888 : index
      }> ({
      ^bb0(%device: !hal.device):
        %x = arith.constant 132 : index
        %y = arith.constant 1 : index
        %z = arith.constant 1 : index
        hal.return %x, %y, %z : index, index, index
      }, {
      }) : (tensor<4096x4096xf8E4M3FN>, tensor<4096x4096xf8E4M3FN>) -> (tensor<4096x4096xf32>)
    util.return %called : tensor<4096x4096xf32>
  }
  transform.named_sequence @match_0_0(%root: !transform.any_op {transform.readonly}) -> (!transform.any_value, !transform.any_value) attributes {__autotune_entry__ = {baseline_us = 584.99898571418339 : f64, command = "python -m benchmarks.hopper hopper-f8.json --suite hopper-f8 --target sm_89 --allow-precision f16 --budget 26s --seconds 230 --trials 24", compiler = "3.13.0rc20261016 @ 89ece87b8985, compiler 79ebc0fb9969", date = "2026-11-18 04:32 UTC", device = "cuda", driver = "580.159.04", high = 5.7592864904496359 : f64, iree = "3.13.0", low = 5.3666756236668665 : f64, machine = "NVIDIA H200", median = 5.4901725070470437 : f64, problem = "gemm_4096x4096x4096_f8_f32_nt", seconds = 2.600000e+01 : f64, target = "sm_89", us = 107.00315104165507 : f64, verdict = "win"}, __autotune_objects__ = {"gemm-8fe98b57a9b4ef8f03771767.cubin" = "d4bedb7b14197fff8d9ca51f1716f689ea56a2138f135b5decd5d0d1eea4b8ee"}} {
    %ins, %outs = transform.iree.match.cast_compatible_dag_from_root %root {
    ^bb0(%arg0: tensor<4096x4096xf8E4M3FN>, %arg1: tensor<4096x4096xf8E4M3FN>):
      %cst = arith.constant 0.000000e+00 : f32
      %0 = tensor.empty() : tensor<4096x4096xf32>
      %1 = linalg.fill ins(%cst : f32) outs(%0 : tensor<4096x4096xf32>) -> tensor<4096x4096xf32>
      %2 = linalg.matmul indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1)>] ins(%arg0, %arg1 : tensor<4096x4096xf8E4M3FN>, tensor<4096x4096xf8E4M3FN>) outs(%1 : tensor<4096x4096xf32>) -> tensor<4096x4096xf32>
    } : (!transform.any_op) -> (!transform.any_value, !transform.any_value)
    transform.yield %ins, %outs : !transform.any_value, !transform.any_value
  }
  transform.named_sequence @match_0_1(%root: !transform.any_op {transform.readonly}) -> (!transform.any_value, !transform.any_value) attributes {__autotune_entry__ = {baseline_us = 584.99898571418339 : f64, command = "python -m benchmarks.hopper hopper-f8.json --suite hopper-f8 --target sm_89 --allow-precision f16 --budget 26s --seconds 230 --trials 24", compiler = "3.13.0rc20261016 @ 89ece87b8985, compiler 79ebc0fb9969", date = "2026-11-18 04:32 UTC", device = "cuda", driver = "580.159.04", high = 5.7592864904496359 : f64, iree = "3.13.0", low = 5.3666756236668665 : f64, machine = "NVIDIA H200", median = 5.4901725070470437 : f64, problem = "gemm_4096x4096x4096_f8_f32_nt", seconds = 2.600000e+01 : f64, target = "sm_89", us = 107.00315104165507 : f64, verdict = "win"}, __autotune_objects__ = {"gemm-8fe98b57a9b4ef8f03771767.cubin" = "d4bedb7b14197fff8d9ca51f1716f689ea56a2138f135b5decd5d0d1eea4b8ee"}} {
    %ins, %outs = transform.iree.match.cast_compatible_dag_from_root %root {
    ^bb0(%arg0: tensor<4096x4096xf8E4M3FN>, %arg1: tensor<4096x4096xf8E4M3FN>):
      %cst = arith.constant 0.000000e+00 : f32
      %0 = tensor.empty() : tensor<4096x4096xf32>
      %1 = linalg.fill ins(%cst : f32) outs(%0 : tensor<4096x4096xf32>) -> tensor<4096x4096xf32>
      %2 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%arg0, %arg1 : tensor<4096x4096xf8E4M3FN>, tensor<4096x4096xf8E4M3FN>) outs(%1 : tensor<4096x4096xf32>) {
      ^bb0(%in: f8E4M3FN, %in_0: f8E4M3FN, %out: f32):
        %3 = arith.extf %in : f8E4M3FN to f32
        %4 = arith.extf %in_0 : f8E4M3FN to f32
        %5 = arith.mulf %3, %4 : f32
        %6 = arith.addf %out, %5 : f32
        linalg.yield %6 : f32
      } -> tensor<4096x4096xf32>
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
