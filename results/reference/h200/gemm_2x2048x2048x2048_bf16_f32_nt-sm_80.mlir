// Tuning spec by autotune 0.1.0
// problem:    gemm_2x2048x2048x2048_bf16_f32_nt (34359738368 flops, 67108864 bytes)
// target:     sm_80; IREE 3.13.0
// verdict:    win, 1.782x over IREE's default, 95 % interval 1.776 to 1.786
// over stock: 1.782x over route plain, 1.776 to 1.786
// date:       2026-11-15 04:02 UTC
// made by:    autotune gemm --shape 2048x2048x2048 --dtype bf16 --batch 2 --acc f32 --layout nt --target sm_80 --device cuda --budget 200s --trials 250 --seed 0
// use:        iree-compile MODEL.mlir @/tmp/w/specs/gemm_2x2048x2048x2048_bf16_f32_nt-sm_80.flags -o MODEL.vmfb
module attributes {iree_codegen.tuning_spec_with_default_entrypoint, transform.with_named_sequence} {
  transform.named_sequence @apply_op_config(%op: !transform.any_op {transform.readonly}, %config: !transform.any_param {transform.readonly}) {
    transform.annotate %op "compilation_info" = %config : !transform.any_op, !transform.any_param
    // The marker survives into the dumped configurations: it proves that this spec was applied.
    transform.annotate %op "__autotune_applied__" : !transform.any_op
    transform.yield
  }
  transform.named_sequence @match_gemm_2x2048x2048x2048_bf16_f32_nt(%op: !transform.any_op {transform.readonly}) -> (!transform.any_op, !transform.any_param) {
    %batch, %m, %n, %k = transform.iree.match.contraction %op, lhs_type = bf16, rhs_type = bf16, output_type = f32,
      indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>]
      : !transform.any_op -> !transform.param<i64>
    transform.iree.match.dims_equal %batch, [2] : !transform.param<i64>
    transform.iree.match.dims_equal %m, [2048] : !transform.param<i64>
    transform.iree.match.dims_equal %n, [2048] : !transform.param<i64>
    transform.iree.match.dims_equal %k, [2048] : !transform.param<i64>
    %config = transform.param.constant #iree_codegen.compilation_info<
      lowering_config = #iree_gpu.lowering_config<{convert_acc_gemm, mma_kind = #iree_gpu.mma_layout<NV_MMA_SYNC_F32_16x8x16_BF16>, promote_operands = [0, 1], reduction = [0, 0, 0, 4], subgroup = [0, 4, 8, 0], workgroup = [1, 128, 128, 0]}>,
      translation_info = #iree_codegen.translation_info<pipeline = #iree_gpu.pipeline<TileAndFuse> workgroup_size = [128, 1, 1] subgroup_size = 32, {gpu_pipeline_options = #iree_gpu.pipeline_options<no_reduce_shared_memory_bank_conflicts = false, use_igemm_convolution = false>}>> -> !transform.any_param
    transform.yield %op, %config : !transform.any_op, !transform.any_param
  }
  transform.named_sequence @__kernel_config(%root: !transform.any_op {transform.consumed}) -> !transform.any_op attributes {iree_codegen.tuning_spec_entrypoint} {
    %result = transform.foreach_match in %root
      @match_gemm_2x2048x2048x2048_bf16_f32_nt -> @apply_op_config : (!transform.any_op) -> !transform.any_op
    transform.yield %result : !transform.any_op
  }
}
