// Microkernel spec by autotune 0.1.0
// problem:    attention_2x16x4096x4096x64_f16 (137438953472 flops, 67108864 bytes)
// target:     sm_80, kernel for sm_90; IREE 3.13.0 (3.13.0rc20261016 @ 89ece87b8985, compiler 79ebc0fb9969)
// machine:    NVIDIA H200, driver 580.159.04
// verdict:    win, 6.247x over IREE's default, 95 % interval 6.165 to 6.326
// recorded:   results/reference/h200/hopper-attention-64.json
// kernel:     attention_hopper, bn=128, stages=3, ahead=0; built by Triton 3.6.0
// date:       2026-11-16 11:38 UTC
// made by:    python -m benchmarks.hopper /root/out/att64.json --only 4096x4096x64 --budget 29s --seconds 88 --workspace /root/wsh
// use:        iree-compile MODEL.mlir @specs/h200/attention_2x16x4096x4096x64_f16-sm_80.flags -o MODEL.vmfb
module attributes {transform.with_named_sequence} {
  util.func private @autotune_microkernel_0(%arg0: tensor<2x16x4096x64xf16>, %arg1: tensor<2x16x4096x64xf16>, %arg2: tensor<2x16x4096x64xf16>) -> tensor<2x16x4096x64xf16> {
    %constant0 = arith.constant 4096 : i32
    %constant1 = arith.constant 4096 : i32
    %constant2 = arith.constant 32 : i32
    %called:2 = "hal.dispatch.extern"(%constant0, %constant1, %constant2, %arg0, %arg1, %arg2) <{
        export_name = "attention_hopper",
        layout = #hal.pipeline.layout<constants = 3, bindings = [#hal.pipeline.binding<storage_buffer, ReadOnly>, #hal.pipeline.binding<storage_buffer, ReadOnly>, #hal.pipeline.binding<storage_buffer, ReadOnly>, #hal.pipeline.binding<storage_buffer>, #hal.pipeline.binding<storage_buffer>]>,
        operandSegmentSizes = array<i32: 0, 6, 0, 0>,
        targets = [#hal.executable.target<"cuda", "cuda-nvptx-fb">],
        target_ordinals = [0 : index],
        target_objects = [[#hal.executable.object<{path = "attention_hopper-105a149b85ea8cd22ae5ab8a.ptx"}>]],
        tied_operands = [-1 : index, -1 : index],
        workgroup_size = [384 : index, 1 : index, 1 : index],
        subgroup_size = 32 : index,
        workgroup_local_memory = 131880 : index
      }> ({
      ^bb0(%device: !hal.device):
        %x = arith.constant 132 : index
        %y = arith.constant 1 : index
        %z = arith.constant 1 : index
        hal.return %x, %y, %z : index, index, index
      }, {
      }) : (i32, i32, i32, tensor<2x16x4096x64xf16>, tensor<2x16x4096x64xf16>, tensor<2x16x4096x64xf16>) -> (tensor<2x16x4096x64xf16>, tensor<84608xi8>)
    util.return %called#0 : tensor<2x16x4096x64xf16>
  }
  transform.named_sequence @match_0_0(%root: !transform.any_op {transform.readonly}) -> (!transform.any_value, !transform.any_value) attributes {__autotune_entry__ = {baseline_us = 1872.1258181864703 : f64, command = "python -m benchmarks.hopper /root/out/att64.json --only 4096x4096x64 --budget 29s --seconds 88 --workspace /root/wsh", compiler = "3.13.0rc20261016 @ 89ece87b8985, compiler 79ebc0fb9969", date = "2026-11-16 11:38 UTC", device = "cuda", driver = "580.159.04", high = 6.3256826631159209 : f64, iree = "3.13.0", low = 6.1647836218411296 : f64, machine = "NVIDIA H200", median = 6.2468586387550147 : f64, problem = "attention_2x16x4096x4096x64_f16", seconds = 3.040000e+01 : f64, target = "sm_80", us = 299.46902343702675 : f64, verdict = "win"}, __autotune_objects__ = {"attention_hopper-105a149b85ea8cd22ae5ab8a.ptx" = "1b646bf1ace59d770e9e72296539d177d938a524b66993bf160332980ff19664"}} {
    %ins, %outs = transform.iree.match.cast_compatible_dag_from_root %root {
    ^bb0(%arg0: tensor<2x16x4096x64xf16>, %arg1: tensor<2x16x4096x64xf16>, %arg2: tensor<2x16x4096x64xf16>):
      %cst = arith.constant 1.250000e-01 : f16
      %0 = tensor.empty() : tensor<2x16x4096x64xf16>
      %1 = iree_linalg_ext.attention <indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d1, d2, d4)>, affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d1, d5, d4)>, affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d1, d5, d3)>, affine_map<(d0, d1, d2, d3, d4, d5) -> ()>, affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d1, d2, d3)>]> ins(%arg0, %arg1, %arg2, %cst : tensor<2x16x4096x64xf16>, tensor<2x16x4096x64xf16>, tensor<2x16x4096x64xf16>, f16) outs(%0 : tensor<2x16x4096x64xf16>) {
      ^bb0(%arg4: f32):
        iree_linalg_ext.yield %arg4 : f32
      } -> tensor<2x16x4096x64xf16>
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
        @match_0_0 -> @call_0
        : (!transform.any_op) -> !transform.any_op
    }
    transform.apply_dce to %module : !transform.any_op
    transform.apply_registered_pass "inline" to %module : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
}
