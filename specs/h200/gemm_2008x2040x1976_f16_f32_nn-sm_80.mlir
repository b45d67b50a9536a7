// Microkernel spec by autotune 0.1.0
// problem:    gemm_2008x2040x1976_f16_f32_nn (16188656640 flops, 32382976 bytes)
// target:     sm_80, kernel for sm_90; IREE 3.13.0 (3.13.0rc20261016 @ 89ece87b8985, compiler 79ebc0fb9969)
// machine:    NVIDIA H200, driver 580.159.04
// verdict:    win, 9.412x over IREE's default, 95 % interval 9.326 to 9.529
// recorded:   results/reference/h200/hopper-constants.json
// kernel:     gemm_cuda, bm=128, bn=256, both=1, fill=0, turned=0; built by NVRTC 13.4
// date:       2026-11-17 22:45 UTC
// made by:    python -m benchmarks.hopper OUT.json --only 2008x2040 --budget 26s --seconds 56 --trials 24
// use:        iree-compile your_program.mlir @specs/h200/gemm_2008x2040x1976_f16_f32_nn-sm_80.flags -o your_program.vmfb
module attributes {transform.with_named_sequence} {
  util.func private @autotune_microkernel_0(%arg0: tensor<2008x1976xf16>, %arg1: tensor<1976x2040xf16>) -> tensor<2008x2040xf32> {
    %called = "hal.dispatch.extern"(%arg0, %arg1) <{
        export_name = "gemm_cuda",
        layout = #hal.pipeline.layout<constants = 0, bindings = [#hal.pipeline.binding<storage_buffer, ReadOnly>, #hal.pipeline.binding<storage_buffer, ReadOnly>, #hal.pipeline.binding<storage_buffer>]>,
        operandSegmentSizes = array<i32: 0, 2, 0, 0>,
        targets = [#hal.executable.target<"cuda", "cuda-nvptx-fb">],
        target_ordinals = [0 : index],
        target_objects = [[#hal.executable.object<{path = "gemm-830a9de64fb15def37464fab.cubin"}>]],
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
      }) : (tensor<2008x1976xf16>, tensor<1976x2040xf16>) -> (tensor<2008x2040xf32>)
    util.return %called : tensor<2008x2040xf32>
  }
  transform.named_sequence @match_0_0(%root: !transform.any_op {transform.readonly}) -> (!transform.any_value, !transform.any_value) attributes {__autotune_entry__ = {baseline_us = 271.89521831011189 : f64, command = "python -m benchmarks.hopper OUT.json --only 2008x2040 --budget 26s --seconds 56 --trials 24", compiler = "3.13.0rc20261016 @ 89ece87b8985, compiler 79ebc0fb9969", date = "2026-11-17 22:45 UTC", device = "cuda", driver = "580.159.04", high = 9.5292130820473612 : f64, iree = "3.13.0", low = 9.3264241598488162 : f64, machine = "NVIDIA H200", median = 9.412261224388887 : f64, problem = "gemm_2008x2040x1976_f16_f32_nn", seconds = 2.590000e+01 : f64, target = "sm_80", us = 29.058395833361473 : f64, verdict = "win"}, __autotune_objects__ = {"gemm-830a9de64fb15def37464fab.cubin" = "6a46353fc7abde7de3e4b815d0d3be6db43b001ddfe3a0f9db148ae9706bcea5"}} {
    %ins, %outs = transform.iree.match.cast_compatible_dag_from_root %root {
    ^bb0(%arg0: tensor<2008x1976xf16>, %arg1: tensor<1976x2040xf16>):
      %cst = arith.constant 0.000000e+00 : f32
      %0 = tensor.empty() : tensor<2008x2040xf32>
      %1 = linalg.fill ins(%cst : f32) outs(%0 : tensor<2008x2040xf32>) -> tensor<2008x2040xf32>
      %2 = linalg.matmul ins(%arg0, %arg1 : tensor<2008x1976xf16>, tensor<1976x2040xf16>) outs(%1 : tensor<2008x2040xf32>) -> tensor<2008x2040xf32>
    } : (!transform.any_op) -> (!transform.any_value, !transform.any_value)
    transform.yield %ins, %outs : !transform.any_value, !transform.any_value
  }
  transform.named_sequence @match_0_1(%root: !transform.any_op {transform.readonly}) -> (!transform.any_value, !transform.any_value) attributes {__autotune_entry__ = {baseline_us = 271.89521831011189 : f64, command = "python -m benchmarks.hopper OUT.json --only 2008x2040 --budget 26s --seconds 56 --trials 24", compiler = "3.13.0rc20261016 @ 89ece87b8985, compiler 79ebc0fb9969", date = "2026-11-17 22:45 UTC", device = "cuda", driver = "580.159.04", high = 9.5292130820473612 : f64, iree = "3.13.0", low = 9.3264241598488162 : f64, machine = "NVIDIA H200", median = 9.412261224388887 : f64, problem = "gemm_2008x2040x1976_f16_f32_nn", seconds = 2.590000e+01 : f64, target = "sm_80", us = 29.058395833361473 : f64, verdict = "win"}, __autotune_objects__ = {"gemm-830a9de64fb15def37464fab.cubin" = "6a46353fc7abde7de3e4b815d0d3be6db43b001ddfe3a0f9db148ae9706bcea5"}} {
    %ins, %outs = transform.iree.match.cast_compatible_dag_from_root %root {
    ^bb0(%arg0: tensor<2008x1976xf16>, %arg1: tensor<1976x2040xf16>):
      %cst = arith.constant 0.000000e+00 : f32
      %0 = tensor.empty() : tensor<2008x2040xf32>
      %1 = linalg.fill ins(%cst : f32) outs(%0 : tensor<2008x2040xf32>) -> tensor<2008x2040xf32>
      %2 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%arg0, %arg1 : tensor<2008x1976xf16>, tensor<1976x2040xf16>) outs(%1 : tensor<2008x2040xf32>) {
      ^bb0(%in: f16, %in_0: f16, %out: f32):
        %3 = arith.extf %in : f16 to f32
        %4 = arith.extf %in_0 : f16 to f32
        %5 = arith.mulf %3, %4 : f32
        %6 = arith.addf %out, %5 : f32
        linalg.yield %6 : f32
      } -> tensor<2008x2040xf32>
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
