// Tuning spec by autotune 0.1.0
// problem:    gemm_1024x1024x1024_f16_f32_nn (2147483648 flops, 8388608 bytes)
// target:     sm_80; IREE 3.13.0
// verdict:    win, 1.157x over IREE's default, 95 % interval 1.150 to 1.160
// over stock: 1.157x over route plain, 1.150 to 1.160
// date:       2026-11-15 03:59 UTC
// made by:    autotune gemm --shape 1024x1024x1024 --dtype f16 --acc f32 --layout nn --target sm_80 --device cuda --budget 150s --trials 250 --seed 0
// use:        iree-compile MODEL.mlir @/tmp/w/specs/gemm_1024x1024x1024_f16_f32_nn-sm_80.flags -o MODEL.vmfb
module attributes {iree_codegen.tuning_spec_with_default_entrypoint, transform.with_named_sequence} {
  transform.named_sequence @apply_op_config(%op: !transform.any_op {transform.readonly}, %config: !transform.any_param {transform.readonly}) {
    transform.annotate %op "compilation_info" = %config : !transform.any_op, !transform.any_param
    // The marker survives into the dumped configurations: it proves that this spec was applied.
    transform.annotate %op "__autotune_applied__" : !transform.any_op
    transform.yield
  }
  transform.named_sequence @match_gemm_1024x1024x1024_f16_f32_nn(%op: !transform.any_op {transform.readonly}) -> (!transform.any_op, !transform.any_param) {
    %batch, %m, %n, %k = transform.iree.match.contraction %op, lhs_type = f16, rhs_type = f16, output_type = f32,
      indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>]
      : !transform.any_op -> !transform.param<i64>
    transform.iree.match.dims_equal %batch, [] : !transform.param<i64>
    transform.iree.match.dims_equal %m, [1024] : !transform.param<i64>
    transform.iree.match.dims_equal %n, [1024] : !transform.param<i64>
    transform.iree.match.dims_equal %k, [1024] : !transform.param<i64>
    %config = transform.param.constant #iree_codegen.compilation_info<
      lowering_config = #iree_gpu.lowering_config<{convert_acc_gemm, mma_kind = #iree_gpu.mma_layout<NV_MMA_SYNC_F32_16x8x16_F16>, promote_operands = [0, 1], reduction = [0, 0, 4], subgroup = [2, 4, 0], workgroup = [128, 64, 0]}>,
      translation_info = #iree_codegen.translation_info<pipeline = #iree_gpu.pipeline<TileAndFuse> workgroup_size = [256, 1, 1] subgroup_size = 32, {gpu_pipeline_options = #iree_gpu.pipeline_options<no_reduce_shared_memory_bank_conflicts = false, use_igemm_convolution = false>}>> -> !transform.any_param
    transform.yield %op, %config : !transform.any_op, !transform.any_param
  }
  transform.named_sequence @__kernel_config(%root: !transform.any_op {transform.consumed}) -> !transform.any_op attributes {iree_codegen.tuning_spec_entrypoint} {
    %result = transform.foreach_match in %root
      @match_gemm_1024x1024x1024_f16_f32_nn -> @apply_op_config : (!transform.any_op) -> !transform.any_op
    transform.yield %result : !transform.any_op
  }
}
