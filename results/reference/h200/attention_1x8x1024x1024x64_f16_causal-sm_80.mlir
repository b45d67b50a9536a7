// Tuning spec by autotune 0.1.0
// problem:    attention_1x8x1024x1024x64_f16_causal (1074790400 flops, 4194304 bytes)
// target:     sm_80; IREE 3.13.0
// verdict:    win, 1.317x over IREE's default, 95 % interval 1.292 to 1.343
// date:       2026-11-15 05:30 UTC
// made by:    autotune attention --shape 1x8x1024x1024x64 --dtype f16 --causal --target sm_80 --device cuda --budget 110s --trials 250 --seed 0
// use:        iree-compile MODEL.mlir @specs/attention_1x8x1024x1024x64_f16_causal-sm_80.flags -o MODEL.vmfb
module attributes {iree_codegen.tuning_spec_with_default_entrypoint, transform.with_named_sequence} {
  transform.named_sequence @apply_op_config(%op: !transform.any_op {transform.readonly}, %config: !transform.any_param {transform.readonly}, %decomposition: !transform.any_param {transform.readonly}) {
    transform.annotate %op "compilation_info" = %config : !transform.any_op, !transform.any_param
    transform.annotate %op "decomposition_config" = %decomposition : !transform.any_op, !transform.any_param
    // The marker survives into the dumped configurations: it proves that this spec was applied.
    transform.annotate %op "__autotune_applied__" : !transform.any_op
    transform.yield
  }
  transform.named_sequence @match_attention_1x8x1024x1024x64_f16_causal(%op: !transform.any_op {transform.readonly}) -> (!transform.any_op, !transform.any_param, !transform.any_param) {
    transform.match.operation_name %op ["iree_linalg_ext.online_attention"] : !transform.any_op
    %operand0 = transform.get_operand %op[0] : (!transform.any_op) -> !transform.any_value
    transform.iree.match.cast_compatible_type %operand0 = tensor<8x1024x64xf16> : !transform.any_value
    %operand1 = transform.get_operand %op[1] : (!transform.any_op) -> !transform.any_value
    transform.iree.match.cast_compatible_type %operand1 = tensor<8x1024x64xf16> : !transform.any_value
    %operand2 = transform.get_operand %op[2] : (!transform.any_op) -> !transform.any_value
    transform.iree.match.cast_compatible_type %operand2 = tensor<8x1024x64xf16> : !transform.any_value
    %operand3 = transform.get_operand %op[3] : (!transform.any_op) -> !transform.any_value
    transform.iree.match.cast_compatible_type %operand3 = f16 : !transform.any_value
    %operand4 = transform.get_operand %op[4] : (!transform.any_op) -> !transform.any_value
    transform.iree.match.cast_compatible_type %operand4 = tensor<1024x1024xi8> : !transform.any_value
    %operand5 = transform.get_operand %op[5] : (!transform.any_op) -> !transform.any_value
    transform.iree.match.cast_compatible_type %operand5 = tensor<8x1024x64xf32> : !transform.any_value
    %operand6 = transform.get_operand %op[6] : (!transform.any_op) -> !transform.any_value
    transform.iree.match.cast_compatible_type %operand6 = tensor<8x1024xf32> : !transform.any_value
    %operand7 = transform.get_operand %op[7] : (!transform.any_op) -> !transform.any_value
    transform.iree.match.cast_compatible_type %operand7 = tensor<8x1024xf32> : !transform.any_value
    %config = transform.param.constant #iree_codegen.compilation_info<
      lowering_config = #iree_gpu.lowering_config<{promote_operands = [0, 1, 2], promotion_types = [#iree_gpu.derived_thread_config, #iree_gpu.derived_thread_config, #iree_gpu.derived_thread_config], reduction = [0, 0, 0, 0, 32], workgroup = [1, 64, 64, 0, 0]}>,
      translation_info = #iree_codegen.translation_info<pipeline = #iree_gpu.pipeline<VectorDistribute> workgroup_size = [128, 1, 1] subgroup_size = 32, {gpu_pipeline_options = #iree_gpu.pipeline_options<no_reduce_shared_memory_bank_conflicts = false>, iree_codegen.denormal_fp_math_f32 = #iree_codegen.denormal_fp_math<"preserve-sign">}>> -> !transform.any_param
    %decomposition = transform.param.constant {pv_attrs = {lowering_config = #iree_gpu.lowering_config<{mma_kind = #iree_gpu.mma_layout<NV_MMA_SYNC_F32_16x8x16_F16>, promote_operands = [1], promotion_types = [#iree_gpu.derived_thread_config], subgroup_basis = [[1, 4, 1, 1, 1], [0, 1, 2, 4]]}>}, qk_attrs = {lowering_config = #iree_gpu.lowering_config<{mma_kind = #iree_gpu.mma_layout<NV_MMA_SYNC_F32_16x8x16_F16>, promote_operands = [0, 1], promotion_types = [#iree_gpu.derived_thread_config, #iree_gpu.derived_thread_config], subgroup_basis = [[1, 4, 1, 1, 1], [0, 1, 3, 4]]}>}} -> !transform.any_param
    transform.yield %op, %config, %decomposition : !transform.any_op, !transform.any_param, !transform.any_param
  }
  transform.named_sequence @__kernel_config(%root: !transform.any_op {transform.consumed}) -> !transform.any_op attributes {iree_codegen.tuning_spec_entrypoint} {
    %result = transform.foreach_match in %root
      @match_attention_1x8x1024x1024x64_f16_causal -> @apply_op_config : (!transform.any_op) -> !transform.any_op
    transform.yield %result : !transform.any_op
  }
}
