// Microkernel spec by autotune 0.1.0
// problem:    attention_1x32x2048x2048x128_f16_causal (34376515584 flops, 67108864 bytes)
// target:     sm_80, kernel for sm_90; IREE 3.13.0 (3.13.0rc20261016 @ 89ece87b8985, compiler 79ebc0fb9969)
// machine:    NVIDIA H200, driver 580.159.04
// verdict:    win, 21.107x over IREE's default, 95 % interval 20.822 to 21.332
// recorded:   results/reference/h200/hopper-attention-128.json
// kernel:     attention_hopper, bn=128, stages=2, ahead=1; built by Triton 3.6.0
// date:       2026-11-16 11:37 UTC
// made by:    python -m benchmarks.hopper /root/out/att128.json --only 2048x2048x128 --budget 29s --seconds 88 --workspace /root/wsh
// use:        iree-compile MODEL.mlir @specs/h200/attention_1x32x2048x2048x128_f16_causal-sm_80.flags -o MODEL.vmfb
module attributes {transform.with_named_sequence} {
  util.func private @autotune_microkernel_0(%arg0: tensor<1x32x2048x128xf16>, %arg1: tensor<1x32x2048x128xf16>, %arg2: tensor<1x32x2048x128xf16>) -> tensor<1x32x2048x128xf16> {
    %constant0 = arith.constant 2048 : i32
    %constant1 = arith.constant 2048 : i32
    %constant2 = arith.constant 32 : i32
    %called:2 = "hal.dispatch.extern"(%constant0, %constant1, %constant2, %arg0, %arg1, %arg2) <{
        export_name = "attention_hopper",
        layout = #hal.pipeline.layout<constants = 3, bindings = [#hal.pipeline.binding<storage_buffer, ReadOnly>, #hal.pipeline.binding<storage_buffer, ReadOnly>, #hal.pipeline.binding<storage_buffer, ReadOnly>, #hal.pipeline.binding<storage_buffer>, #hal.pipeline.binding<storage_buffer>]>,
        operandSegmentSizes = array<i32: 0, 6, 0, 0>,
        targets = [#hal.executable.target<"cuda", "cuda-nvptx-fb">],
        target_ordinals = [0 : index],
        target_objects = [[#hal.executable.object<{path = "attention_hopper-746b58a02136d3e23a266fc1.ptx"}>]],
        tied_operands = [-1 : index, -1 : index],
        workgroup_size = [384 : index, 1 : index, 1 : index],
        subgroup_size = 32 : index,
        workgroup_local_memory = 197352 : index
      }> ({
      ^bb0(%device: !hal.device):
        %x = arith.constant 132 : index
        %y = arith.constant 1 : index
        %z = arith.constant 1 : index
        hal.return %x, %y, %z : index, index, index
      }, {
      }) : (i32, i32, i32, tensor<1x32x2048x128xf16>, tensor<1x32x2048x128xf16>, tensor<1x32x2048x128xf16>) -> (tensor<1x32x2048x128xf16>, tensor<84608xi8>)
    util.return %called#0 : tensor<1x32x2048x128xf16>
  }
  transform.named_sequence @match_0_0(%root: !transform.any_op {transform.readonly}) -> (!transform.any_value, !transform.any_value) attributes {__autotune_entry__ = {baseline_us = 1530.4197692278019 : f64, command = "python -m benchmarks.hopper /root/out/att128.json --only 2048x2048x128 --budget 29s --seconds 88 --workspace /root/wsh", compiler = "3.13.0rc20261016 @ 89ece87b8985, compiler 79ebc0fb9969", date = "2026-11-16 11:37 UTC", device = "cuda", driver = "580.159.04", high = 21.332303342993853 : f64, iree = "3.13.0", low = 20.822136213847735 : f64, machine = "NVIDIA H200", median = 21.106959559133944 : f64, problem = "attention_1x32x2048x2048x128_f16_causal", seconds = 2.900000e+01 : f64, target = "sm_80", us = 72.505642511837564 : f64, verdict = "win"}, __autotune_objects__ = {"attention_hopper-746b58a02136d3e23a266fc1.ptx" = "11385c1f6ec1bfb4c6a77a58cd43ba90d8263b445418683adb52056660d1d684"}} {
    %ins, %outs = transform.iree.match.cast_compatible_dag_from_root %root {
    ^bb0(%arg0: tensor<1x32x2048x128xf16>, %arg1: tensor<1x32x2048x128xf16>, %arg2: tensor<1x32x2048x128xf16>):
      %cst = arith.constant 8.837890e-02 : f16
      %0 = tensor.empty() : tensor<2048x2048xi1>
      %1 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} outs(%0 : tensor<2048x2048xi1>) {
      ^bb0(%out: i1):
        %4 = linalg.index 0 : index
        %5 = linalg.index 1 : index
        %6 = arith.cmpi sge, %4, %5 : index
        linalg.yield %6 : i1
      } -> tensor<2048x2048xi1>
      %2 = tensor.empty() : tensor<1x32x2048x128xf16>
      %3 = iree_linalg_ext.attention <indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d1, d2, d4)>, affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d1, d5, d4)>, affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d1, d5, d3)>, affine_map<(d0, d1, d2, d3, d4, d5) -> ()>, affine_map<(d0, d1, d2, d3, d4, d5) -> (d2, d5)>, affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d1, d2, d3)>]> ins(%arg0, %arg1, %arg2, %cst, %1 : tensor<1x32x2048x128xf16>, tensor<1x32x2048x128xf16>, tensor<1x32x2048x128xf16>, f16, tensor<2048x2048xi1>) outs(%2 : tensor<1x32x2048x128xf16>) {
      ^bb0(%arg4: f32):
        iree_linalg_ext.yield %arg4 : f32
      } -> tensor<1x32x2048x128xf16>
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
