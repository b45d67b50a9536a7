// Tuning spec by autotune 0.1.0
// problem:    conv_2x32x32x1280_3x3x1280_p1x1_f16_nhwc (60397977600 flops, 45219840 bytes)
// target:     sm_80; IREE 3.13.0
// verdict:    win, 1.692x over IREE's default, 95 % interval 1.689 to 1.694
// date:       2026-11-15 05:25 UTC
// made by:    autotune conv --shape 2x32x32x1280 --filter 3x3x1280 --stride 1x1 --dilation 1x1 --pad 1x1 --groups 1 --dtype f16 --layout nhwc-hwcf --target sm_80 --device cuda --budget 200s --trials 250 --seed 0
// use:        iree-compile MODEL.mlir @specs/conv_2x32x32x1280_3x3x1280_p1x1_f16_nhwc-sm_80.flags -o MODEL.vmfb
module attributes {iree_codegen.tuning_spec_with_default_entrypoint, transform.with_named_sequence} {
  transform.named_sequence @apply_op_config(%op: !transform.any_op {transform.readonly}, %config: !transform.any_param {transform.readonly}) {
    transform.annotate %op "compilation_info" = %config : !transform.any_op, !transform.any_param
    // The marker survives into the dumped configurations: it proves that this spec was applied.
    transform.annotate %op "__autotune_applied__" : !transform.any_op
    transform.yield
  }
  transform.named_sequence @match_conv_2x32x32x1280_3x3x1280_p1x1_f16_nhwc(%op: !transform.any_op {transform.readonly}) -> (!transform.any_op, !transform.any_param) {
    %batch, %image, %channel, %filter, %input, %depth, %strides, %dilations = transform.iree.match.convolution %op,
      lhs_type = f16, rhs_type = f16, output_type = f32, 
      indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1 + d4, d2 + d5, d6)>, affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d4, d5, d6, d3)>, affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1, d2, d3)>]
      : !transform.any_op -> !transform.param<i64>
    transform.iree.match.dims_equal %batch, [2] : !transform.param<i64>
    transform.iree.match.dims_equal %image, [32, 32] : !transform.param<i64>
    transform.iree.match.dims_equal %channel, [1280] : !transform.param<i64>
    transform.iree.match.dims_equal %filter, [3, 3] : !transform.param<i64>
    transform.iree.match.dims_equal %input, [1280] : !transform.param<i64>
    transform.iree.match.dims_equal %depth, [] : !transform.param<i64>
    transform.iree.match.dims_equal %strides, [1, 1] : !transform.param<i64>
    transform.iree.match.dims_equal %dilations, [1, 1] : !transform.param<i64>
    %config = transform.param.constant #iree_codegen.compilation_info<
      lowering_config = #iree_gpu.lowering_config<{convert_acc_gemm, mma_kind = #iree_gpu.mma_layout<NV_MMA_SYNC_F32_16x8x16_F16>, promote_operands = [0, 1], reduction = [0, 0, 0, 0, 1, 1, 8], subgroup = [1, 1, 2, 10, 0, 0, 0], workgroup = [1, 8, 32, 80, 0, 0, 0]}>,
      translation_info = #iree_codegen.translation_info<pipeline = #iree_gpu.pipeline<TileAndFuse> workgroup_size = [256, 1, 1] subgroup_size = 32, {gpu_pipeline_options = #iree_gpu.pipeline_options<no_reduce_shared_memory_bank_conflicts = false, use_igemm_convolution = false>}>> -> !transform.any_param
    transform.yield %op, %config : !transform.any_op, !transform.any_param
  }
  transform.named_sequence @__kernel_config(%root: !transform.any_op {transform.consumed}) -> !transform.any_op attributes {iree_codegen.tuning_spec_entrypoint} {
    %result = transform.foreach_match in %root
      @match_conv_2x32x32x1280_3x3x1280_p1x1_f16_nhwc -> @apply_op_config : (!transform.any_op) -> !transform.any_op
    transform.yield %result : !transform.any_op
  }
}
