// Tuning spec by autotune 0.1.0
// problem:    attention_1x16x2048x2048x64_f16 (17179869184 flops, 16777216 bytes)
// target:     sm_80; IREE 3.13.0
// verdict:    win, 1.875x over IREE's default, 95 % interval 1.873 to 1.877
// date:       2026-11-15 05:28 UTC
// made by:    autotune attention --shape 1x16x2048x2048x64 --dtype f16 --target sm_80 --device cuda --budget 170s --trials 250 --seed 0
// use:        iree-compile MODEL.mlir @specs/attention_1x16x2048x2048x64_f16-sm_80.flags -o MODEL.vmfb
module attributes {iree_codegen.tuning_spec_with_default_entrypoint, transform.with_named_sequence} {
  transform.named_sequence @apply_op_config(%op: !transform.any_op {transform.readonly}, %config: !transform.any_param {transform.readonly}, %decomposition: !transform.any_param {transform.readonly}) {
    transform.annotate %op "compilation_info" = %config : !transform.any_op, !transform.any_param
    transform.annotate %op "decomposition_config" = %decomposition : !transform.any_op, !transform.any_param
    // The marker survives into the dumped configurations: it proves that this spec was applied.
    transform.annotate %op "__autotune_applied__" : !transform.any_op
    transform.yield
  }
  transform.named_sequence @match_attention_1x16x2048x2048x64_f16(%op: !transform.any_op {transform.readonly}) -> (!transform.any_op, !transform.any_param, !transform.any_param) {
    %batch, %m, %n, %k1, %k2 = transform.iree.match.online_attention %op,
      query_type = f16, key_type = f16, value_type = f16, scale_type = f16, output_type = f32, max_type = f32, sum_type = f32, 
      indexing_maps = [affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d3)>, affine_map<(d0, d1, d2, d3, d4) -> (d0, d4, d3)>, affine_map<(d0, d1, d2, d3, d4) -> (d0, d4, d2)>, affine_map<(d0, d1, d2, d3, d4) -> ()>, affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2)>, affine_map<(d0, d1, d2, d3, d4) -> (d0, d1)>, affine_map<(d0, d1, d2, d3, d4) -> (d0, d1)>]
      : !transform.any_op -> !transform.param<i64>
    transform.iree.match.dims_equal %batch, [16] : !transform.param<i64>
    transform.iree.match.dims_equal %m, [2048] : !transform.param<i64>
    transform.iree.match.dims_equal %n, [64] : !transform.param<i64>
    transform.iree.match.dims_equal %k1, [64] : !transform.param<i64>
    transform.iree.match.dims_equal %k2, [2048] : !transform.param<i64>
    %config = transform.param.constant #iree_codegen.compilation_info<
      lowering_config = #iree_gpu.lowering_config<{promote_operands = [0, 1, 2], promotion_types = [#iree_gpu.derived_thread_config, #iree_gpu.derived_thread_config, #iree_gpu.derived_thread_config], reduction = [0, 0, 0, 0, 64], workgroup = [1, 128, 64, 0, 0]}>,
      translation_info = #iree_codegen.translation_info<pipeline = #iree_gpu.pipeline<VectorDistribute> workgroup_size = [128, 1, 1] subgroup_size = 32, {gpu_pipeline_options = #iree_gpu.pipeline_options<no_reduce_shared_memory_bank_conflicts = false>, iree_codegen.denormal_fp_math_f32 = #iree_codegen.denormal_fp_math<"preserve-sign">}>> -> !transform.any_param
    %decomposition = transform.param.constant {pv_attrs = {lowering_config = #iree_gpu.lowering_config<{mma_kind = #iree_gpu.mma_layout<NV_MMA_SYNC_F32_16x8x16_F16>, promote_operands = [1], promotion_types = [#iree_gpu.derived_thread_config], subgroup_basis = [[1, 4, 1, 1, 1], [0, 1, 2, 4]]}>}, qk_attrs = {lowering_config = #iree_gpu.lowering_config<{mma_kind = #iree_gpu.mma_layout<NV_MMA_SYNC_F32_16x8x16_F16>, promote_operands = [1], promotion_types = [#iree_gpu.derived_thread_config], subgroup_basis = [[1, 4, 1, 1, 1], [0, 1, 3, 4]]}>}} -> !transform.any_param
    transform.yield %op, %config, %decomposition : !transform.any_op, !transform.any_param, !transform.any_param
  }
  transform.named_sequence @__kernel_config(%root: !transform.any_op {transform.consumed}) -> !transform.any_op attributes {iree_codegen.tuning_spec_entrypoint} {
    %result = transform.foreach_match in %root
      @match_attention_1x16x2048x2048x64_f16 -> @apply_op_config : (!transform.any_op) -> !transform.any_op
    transform.yield %result : !transform.any_op
  }
}
