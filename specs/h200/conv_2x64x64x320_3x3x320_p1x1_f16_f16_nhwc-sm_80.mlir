// Microkernel spec by autotune 0.1.0
// problem:    conv_2x64x64x320_3x3x320_p1x1_f16_f16_nhwc (15099494400 flops, 12328960 bytes)
// target:     sm_80, kernel for sm_90; IREE 3.13.0 (3.13.0rc20261016 @ 89ece87b8985, compiler 79ebc0fb9969)
// machine:    NVIDIA H200, driver 580.159.04
// verdict:    win, 9.094x over IREE's default, 95 % interval 8.728 to 9.199
// recorded:   results/reference/h200/hopper-conv.json
// kernel:     conv_triton, bm=64, bn=256, more=64, bk=64, num_warps=4, num_stages=3, split=1; built by Triton 3.6.0
// date:       2026-11-16 11:34 UTC
// made by:    python -m benchmarks.hopper /root/out/conv.json --only conv_ --budget 17s --seconds 125 --workspace /root/wsh
// use:        iree-compile MODEL.mlir @specs/h200/conv_2x64x64x320_3x3x320_p1x1_f16_f16_nhwc-sm_80.flags -o MODEL.vmfb
module attributes {transform.with_named_sequence} {
  util.func private @autotune_microkernel_0(%arg0: tensor<2x64x64x320xf16>, %arg1: tensor<3x3x320x320xf16>) -> tensor<2x64x64x320xf16> {
    %called = "hal.dispatch.extern"(%arg0, %arg1) <{
        export_name = "conv_triton",
        layout = #hal.pipeline.layout<constants = 0, bindings = [#hal.pipeline.binding<storage_buffer, ReadOnly>, #hal.pipeline.binding<storage_buffer, ReadOnly>, #hal.pipeline.binding<storage_buffer>]>,
        operandSegmentSizes = array<i32: 0, 2, 0, 0>,
        targets = [#hal.executable.target<"cuda", "cuda-nvptx-fb">],
        target_ordinals = [0 : index],
        target_objects = [[#hal.executable.object<{path = "conv_triton-18605ea844441187ed961944.ptx"}>]],
        tied_operands = [-1 : index],
        workgroup_size = [128 : index, 1 : index, 1 : index],
        subgroup_size = 32 : index,
        workgroup_local_memory = 147456 : index
      }> ({
      ^bb0(%device: !hal.device):
        %x = arith.constant 128 : index
        %y = arith.constant 1 : index
        %z = arith.constant 1 : index
        hal.return %x, %y, %z : index, index, index
      }, {
      }) : (tensor<2x64x64x320xf16>, tensor<3x3x320x320xf16>) -> (tensor<2x64x64x320xf16>)
    util.return %called : tensor<2x64x64x320xf16>
  }
  transform.named_sequence @match_0_0(%root: !transform.any_op {transform.readonly}) -> (!transform.any_value, !transform.any_value) attributes {__autotune_entry__ = {baseline_us = 248.95810256471881 : f64, command = "python -m benchmarks.hopper /root/out/conv.json --only conv_ --budget 17s --seconds 125 --workspace /root/wsh", compiler = "3.13.0rc20261016 @ 89ece87b8985, compiler 79ebc0fb9969", date = "2026-11-16 11:34 UTC", device = "cuda", driver = "580.159.04", high = 9.1986093122567798 : f64, iree = "3.13.0", low = 8.7278477040397532 : f64, machine = "NVIDIA H200", median = 9.0941445884279393 : f64, problem = "conv_2x64x64x320_3x3x320_p1x1_f16_f16_nhwc", seconds = 1.830000e+01 : f64, target = "sm_80", us = 27.36862790703357 : f64, verdict = "win"}, __autotune_objects__ = {"conv_triton-18605ea844441187ed961944.ptx" = "eea040fd729cd56ccc663f7a726cf59083eec748fe99259026d6db8e645bbaa3"}} {
    %ins, %outs = transform.iree.match.cast_compatible_dag_from_root %root {
    ^bb0(%arg0: tensor<2x64x64x320xf16>, %arg1: tensor<3x3x320x320xf16>):
      %0 = tensor.empty() : tensor<2x66x66x320xf16>
      %cst_0 = arith.constant 0.000000e+00 : f16
      %1 = linalg.fill ins(%cst_0 : f16) outs(%0 : tensor<2x66x66x320xf16>) -> tensor<2x66x66x320xf16>
      %inserted_slice = tensor.insert_slice %arg0 into %1[0, 1, 1, 0] [2, 64, 64, 320] [1, 1, 1, 1] : tensor<2x64x64x320xf16> into tensor<2x66x66x320xf16>
      %cst_1 = arith.constant 0.000000e+00 : f32
      %2 = tensor.empty() : tensor<2x64x64x320xf32>
      %3 = linalg.fill ins(%cst_1 : f32) outs(%2 : tensor<2x64x64x320xf32>) -> tensor<2x64x64x320xf32>
      %4 = linalg.conv_2d_nhwc_hwcf {dilations = dense<1> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>} ins(%inserted_slice, %arg1 : tensor<2x66x66x320xf16>, tensor<3x3x320x320xf16>) outs(%3 : tensor<2x64x64x320xf32>) -> tensor<2x64x64x320xf32>
      %5 = tensor.empty() : tensor<2x64x64x320xf16>
      %6 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%4 : tensor<2x64x64x320xf32>) outs(%5 : tensor<2x64x64x320xf16>) {
      ^bb0(%in: f32, %out: f16):
        %7 = arith.truncf %in : f32 to f16
        linalg.yield %7 : f16
      } -> tensor<2x64x64x320xf16>
    } : (!transform.any_op) -> (!transform.any_value, !transform.any_value)
    transform.yield %ins, %outs : !transform.any_value, !transform.any_value
  }
  transform.named_sequence @match_0_1(%root: !transform.any_op {transform.readonly}) -> (!transform.any_value, !transform.any_value) attributes {__autotune_entry__ = {baseline_us = 248.95810256471881 : f64, command = "python -m benchmarks.hopper /root/out/conv.json --only conv_ --budget 17s --seconds 125 --workspace /root/wsh", compiler = "3.13.0rc20261016 @ 89ece87b8985, compiler 79ebc0fb9969", date = "2026-11-16 11:34 UTC", device = "cuda", driver = "580.159.04", high = 9.1986093122567798 : f64, iree = "3.13.0", low = 8.7278477040397532 : f64, machine = "NVIDIA H200", median = 9.0941445884279393 : f64, problem = "conv_2x64x64x320_3x3x320_p1x1_f16_f16_nhwc", seconds = 1.830000e+01 : f64, target = "sm_80", us = 27.36862790703357 : f64, verdict = "win"}, __autotune_objects__ = {"conv_triton-18605ea844441187ed961944.ptx" = "eea040fd729cd56ccc663f7a726cf59083eec748fe99259026d6db8e645bbaa3"}} {
    %ins, %outs = transform.iree.match.cast_compatible_dag_from_root %root {
    ^bb0(%arg0: tensor<2x64x64x320xf16>, %arg1: tensor<3x3x320x320xf16>):
      %0 = tensor.empty() : tensor<2x66x66x320xf16>
      %cst_0 = arith.constant 0.000000e+00 : f16
      %1 = linalg.fill ins(%cst_0 : f16) outs(%0 : tensor<2x66x66x320xf16>) -> tensor<2x66x66x320xf16>
      %inserted_slice = tensor.insert_slice %arg0 into %1[0, 1, 1, 0] [2, 64, 64, 320] [1, 1, 1, 1] : tensor<2x64x64x320xf16> into tensor<2x66x66x320xf16>
      %cst_1 = arith.constant 0.000000e+00 : f32
      %2 = tensor.empty() : tensor<2x64x64x320xf32>
      %3 = linalg.fill ins(%cst_1 : f32) outs(%2 : tensor<2x64x64x320xf32>) -> tensor<2x64x64x320xf32>
      %4 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1 + d4, d2 + d5, d6)>, affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d4, d5, d6, d3)>, affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%inserted_slice, %arg1 : tensor<2x66x66x320xf16>, tensor<3x3x320x320xf16>) outs(%3 : tensor<2x64x64x320xf32>) {
      ^bb0(%in: f16, %in_2: f16, %out: f32):
        %7 = arith.extf %in : f16 to f32
        %8 = arith.extf %in_2 : f16 to f32
        %9 = arith.mulf %7, %8 : f32
        %10 = arith.addf %out, %9 : f32
        linalg.yield %10 : f32
      } -> tensor<2x64x64x320xf32>
      %5 = tensor.empty() : tensor<2x64x64x320xf16>
      %6 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%4 : tensor<2x64x64x320xf32>) outs(%5 : tensor<2x64x64x320xf16>) {
      ^bb0(%in: f32, %out: f16):
        %7 = arith.truncf %in : f32 to f16
        linalg.yield %7 : f16
      } -> tensor<2x64x64x320xf16>
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
  transform.named_sequence @match_pad_0(%user: !transform.any_op {transform.readonly}) -> !transform.any_op {
    transform.match.operation_name %user ["linalg.conv_2d_nhwc_hwcf", "linalg.generic"] : !transform.any_op
    %operand0 = transform.get_operand %user[0] : (!transform.any_op) -> !transform.any_value
    transform.iree.match.cast_compatible_type %operand0 = tensor<2x66x66x320xf16> : !transform.any_value
    %operand1 = transform.get_operand %user[1] : (!transform.any_op) -> !transform.any_value
    transform.iree.match.cast_compatible_type %operand1 = tensor<3x3x320x320xf16> : !transform.any_value
    %operand2 = transform.get_operand %user[2] : (!transform.any_op) -> !transform.any_value
    transform.iree.match.cast_compatible_type %operand2 = tensor<2x64x64x320xf32> : !transform.any_value
    %pad = transform.get_producer_of_operand %user[0] : (!transform.any_op) -> !transform.any_op
    transform.match.operation_name %pad ["tensor.pad"] : !transform.any_op
    %source = transform.get_operand %pad[0] : (!transform.any_op) -> !transform.any_value
    transform.iree.match.cast_compatible_type %source = tensor<2x64x64x320xf16> : !transform.any_value
    transform.yield %pad : !transform.any_op
  }
  // What matches below cannot see the value that a pad's region takes from outside.
  transform.named_sequence @spell_out(%pad: !transform.any_op {transform.consumed}) {
    transform.structured.rewrite_in_destination_passing_style %pad : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
  transform.named_sequence @__transform_main(%module: !transform.any_op) {
    %functions = transform.structured.match ops{["util.func"]} in %module : (!transform.any_op) -> !transform.any_op
    transform.foreach %functions : !transform.any_op {
    ^bb1(%function: !transform.any_op):
      %spelt = transform.foreach_match in %function
        @match_pad_0 -> @spell_out
        : (!transform.any_op) -> !transform.any_op
      // The zeros of pads are one.
      transform.apply_cse to %spelt : !transform.any_op
      %matched0 = transform.foreach_match in %spelt
        @match_0_0 -> @call_0,
        @match_0_1 -> @call_0
        : (!transform.any_op) -> !transform.any_op
    }
    transform.apply_dce to %module : !transform.any_op
    transform.apply_registered_pass "inline" to %module : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
}
