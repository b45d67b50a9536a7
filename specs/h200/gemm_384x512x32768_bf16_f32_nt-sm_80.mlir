// Microkernel spec by autotune 0.1.0
// problem:    gemm_384x512x32768_bf16_f32_nt (12884901888 flops, 59506688 bytes)
// target:     sm_80, kernel for sm_90; IREE 3.13.0 (3.13.0rc20261016 @ 89ece87b8985, compiler 79ebc0fb9969)
// machine:    NVIDIA H200, driver 580.159.04
// verdict:    win, 18.967x over IREE's default, 95 % interval 18.831 to 19.047
// recorded:   results/reference/h200/hopper-gemm.json
// kernel:     gemm_triton, bm=128, bn=128, more=0, fill=1, group=8, num_warps=4, num_stages=4, workers=0, tma=0; built by Triton 3.6.0
// date:       2026-11-16 20:33 UTC
// made by:    python -m benchmarks.hopper hopper-gemm.json --only gemm_ --budget 26s --seconds 570
// use:        iree-compile MODEL.mlir @specs/h200/gemm_384x512x32768_bf16_f32_nt-sm_80.flags -o MODEL.vmfb
module attributes {transform.with_named_sequence} {
  util.func private @autotune_microkernel_0(%arg0: tensor<384x32768xbf16>, %arg1: tensor<512x32768xbf16>) -> tensor<384x512xf32> {
    %empty2 = tensor.empty() : tensor<48xi8>
    %constant_zero2 = arith.constant 0 : i8
    %zero2 = util.optimization_barrier %constant_zero2 : i8
    %buffer2 = linalg.fill ins(%zero2 : i8) outs(%empty2 : tensor<48xi8>) -> tensor<48xi8>
    %constant0 = arith.constant 384 : i32
    %constant1 = arith.constant 512 : i32
    %constant2 = arith.constant 32768 : i32
    %called:3 = "hal.dispatch.extern"(%constant0, %constant1, %constant2, %arg0, %arg1, %buffer2) <{
        export_name = "gemm_triton",
        layout = #hal.pipeline.layout<constants = 3, bindings = [#hal.pipeline.binding<storage_buffer, ReadOnly>, #hal.pipeline.binding<storage_buffer, ReadOnly>, #hal.pipeline.binding<storage_buffer>, #hal.pipeline.binding<storage_buffer>, #hal.pipeline.binding<storage_buffer>]>,
        operandSegmentSizes = array<i32: 0, 6, 0, 0>,
        targets = [#hal.executable.target<"cuda", "cuda-nvptx-fb">],
        target_ordinals = [0 : index],
        target_objects = [[#hal.executable.object<{path = "gemm_triton-b27dce56eb15d88add5c28b7.ptx"}>]],
        tied_operands = [-1 : index, -1 : index, 5 : index],
        workgroup_size = [128 : index, 1 : index, 1 : index],
        subgroup_size = 32 : index,
        workgroup_local_memory = 131072 : index
      }> ({
      ^bb0(%device: !hal.device):
        %x = arith.constant 132 : index
        %y = arith.constant 1 : index
        %z = arith.constant 1 : index
        hal.return %x, %y, %z : index, index, index
      }, {
      }) : (i32, i32, i32, tensor<384x32768xbf16>, tensor<512x32768xbf16>, tensor<48xi8>) -> (tensor<384x512xf32>, tensor<8650752xi8>, tensor<48xi8>)
    util.return %called#0 : tensor<384x512xf32>
  }
  transform.named_sequence @match_0_0(%root: !transform.any_op {transform.readonly}) -> (!transform.any_value, !transform.any_value) attributes {__autotune_entry__ = {baseline_us = 654.93919999918649 : f64, command = "python -m benchmarks.hopper hopper-gemm.json --only gemm_ --budget 26s --seconds 570", compiler = "3.13.0rc20261016 @ 89ece87b8985, compiler 79ebc0fb9969", date = "2026-11-16 20:33 UTC", device = "cuda", driver = "580.159.04", high = 19.047035749974775 : f64, iree = "3.13.0", low = 18.831171017133961 : f64, machine = "NVIDIA H200", median = 18.966702173683704 : f64, problem = "gemm_384x512x32768_bf16_f32_nt", seconds = 2.610000e+01 : f64, target = "sm_80", us = 34.515337690619141 : f64, verdict = "win"}, __autotune_objects__ = {"gemm_triton-b27dce56eb15d88add5c28b7.ptx" = "bcc50c26e031c286e99a9a0c4cc48e07264aad8b1ec17a2fca9eb61a24b94cf8"}} {
    %ins, %outs = transform.iree.match.cast_compatible_dag_from_root %root {
    ^bb0(%arg0: tensor<384x32768xbf16>, %arg1: tensor<512x32768xbf16>):
      %cst = arith.constant 0.000000e+00 : f32
      %0 = tensor.empty() : tensor<384x512xf32>
      %1 = linalg.fill ins(%cst : f32) outs(%0 : tensor<384x512xf32>) -> tensor<384x512xf32>
      %2 = linalg.matmul indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1)>] ins(%arg0, %arg1 : tensor<384x32768xbf16>, tensor<512x32768xbf16>) outs(%1 : tensor<384x512xf32>) -> tensor<384x512xf32>
    } : (!transform.any_op) -> (!transform.any_value, !transform.any_value)
    transform.yield %ins, %outs : !transform.any_value, !transform.any_value
  }
  transform.named_sequence @match_0_1(%root: !transform.any_op {transform.readonly}) -> (!transform.any_value, !transform.any_value) attributes {__autotune_entry__ = {baseline_us = 654.93919999918649 : f64, command = "python -m benchmarks.hopper hopper-gemm.json --only gemm_ --budget 26s --seconds 570", compiler = "3.13.0rc20261016 @ 89ece87b8985, compiler 79ebc0fb9969", date = "2026-11-16 20:33 UTC", device = "cuda", driver = "580.159.04", high = 19.047035749974775 : f64, iree = "3.13.0", low = 18.831171017133961 : f64, machine = "NVIDIA H200", median = 18.966702173683704 : f64, problem = "gemm_384x512x32768_bf16_f32_nt", seconds = 2.610000e+01 : f64, target = "sm_80", us = 34.515337690619141 : f64, verdict = "win"}, __autotune_objects__ = {"gemm_triton-b27dce56eb15d88add5c28b7.ptx" = "bcc50c26e031c286e99a9a0c4cc48e07264aad8b1ec17a2fca9eb61a24b94cf8"}} {
    %ins, %outs = transform.iree.match.cast_compatible_dag_from_root %root {
    ^bb0(%arg0: tensor<384x32768xbf16>, %arg1: tensor<512x32768xbf16>):
      %cst = arith.constant 0.000000e+00 : f32
      %0 = tensor.empty() : tensor<384x512xf32>
      %1 = linalg.fill ins(%cst : f32) outs(%0 : tensor<384x512xf32>) -> tensor<384x512xf32>
      %2 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%arg0, %arg1 : tensor<384x32768xbf16>, tensor<512x32768xbf16>) outs(%1 : tensor<384x512xf32>) {
      ^bb0(%in: bf16, %in_0: bf16, %out: f32):
        %3 = arith.extf %in : bf16 to f32
        %4 = arith.extf %in_0 : bf16 to f32
        %5 = arith.mulf %3, %4 : f32
        %6 = arith.addf %out, %5 : f32
        linalg.yield %6 : f32
      } -> tensor<384x512xf32>
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
    transform.apply_registered_pass "inline" to %module : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
}
