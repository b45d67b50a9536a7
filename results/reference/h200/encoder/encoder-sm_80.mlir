// Tuning spec by autotune 0.1.0, merged: 4 entries of 4 specs
// target:     sm_80; IREE 3.13.0
// date:       2026-11-15 08:36 UTC
// entry @match_matmul_1024x1024x1024_f16_f32: contraction m=1024 n=1024 k=1024 f16·f16·f32
//   matmul_1024x1024x1024_f16_f32; sm_80; IREE 3.13.0; win; 17.9 µs, default 23.3 µs, 1.303x (1.299 to 1.312); 2026-11-15 08:36 UTC
//   made by: autotune model /tmp/encoder.mlir --target sm_80 --budget 330s --workspace /tmp/wsm --json
// entry @match_matmul_1024x1024x4096_f16_f32: contraction m=1024 n=1024 k=4096 f16·f16·f32
//   matmul_1024x1024x4096_f16_f32; sm_80; IREE 3.13.0; win; 63.4 µs, default 84.3 µs, 1.330x (1.327 to 1.331); 2026-11-15 08:36 UTC
//   made by: autotune model /tmp/encoder.mlir --target sm_80 --budget 330s --workspace /tmp/wsm --json
// entry @match_matmul_1024x4096x1024_f16_f32: contraction m=1024 n=4096 k=1024 f16·f16·f32
//   matmul_1024x4096x1024_f16_f32; sm_80; IREE 3.13.0; win; 53.5 µs, default 70.8 µs, 1.323x (1.321 to 1.326); 2026-11-15 08:36 UTC
//   made by: autotune model /tmp/encoder.mlir --target sm_80 --budget 330s --workspace /tmp/wsm --json
// entry @match_attention_16x1024x64x64x1024_f16_f32: online_attention batch=16 m=1024 n=64 k1=64 k2=1024 f16·f16·f16·f16·f32
//   attention_16x1024x64x64x1024_f16_f32; sm_80; IREE 3.13.0; inconclusive; 42.8 µs, default 62.7 µs; 2026-11-15 08:36 UTC
//   made by: autotune model /tmp/encoder.mlir --target sm_80 --budget 330s --workspace /tmp/wsm --json
#map = affine_map<(d0, d1, d2) -> (d0, d2)>
#map1 = affine_map<(d0, d1, d2) -> (d2, d1)>
#map2 = affine_map<(d0, d1, d2) -> (d0, d1)>
#map3 = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d3)>
#map4 = affine_map<(d0, d1, d2, d3, d4) -> (d0, d4, d3)>
#map5 = affine_map<(d0, d1, d2, d3, d4) -> (d0, d2, d4)>
#map6 = affine_map<(d0, d1, d2, d3, d4) -> ()>
#map7 = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2)>
#map8 = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1)>
#translation = #iree_codegen.translation_info<pipeline = #iree_gpu.pipeline<TileAndFuse> workgroup_size = [128, 1, 1] subgroup_size = 32, {gpu_pipeline_options = #iree_gpu.pipeline_options<no_reduce_shared_memory_bank_conflicts = false, use_igemm_convolution = false>}>
#translation1 = #iree_codegen.translation_info<pipeline = #iree_gpu.pipeline<VectorDistribute> workgroup_size = [128, 1, 1] subgroup_size = 32, {gpu_pipeline_options = #iree_gpu.pipeline_options<no_reduce_shared_memory_bank_conflicts = false>, iree_codegen.denormal_fp_math_f32 = #iree_codegen.denormal_fp_math<"preserve-sign">}>
#compilation = #iree_codegen.compilation_info<lowering_config = #iree_gpu.lowering_config<{convert_acc_gemm, mma_kind = #iree_gpu.mma_layout<NV_MMA_SYNC_F32_16x8x16_F16>, promote_operands = [0, 1], reduction = [0, 0, 16], subgroup = [4, 4, 0], workgroup = [128, 64, 0]}>, translation_info = #translation>
#compilation1 = #iree_codegen.compilation_info<lowering_config = #iree_gpu.lowering_config<{convert_acc_gemm, mma_kind = #iree_gpu.mma_layout<NV_MMA_SYNC_F32_16x8x16_F16>, promote_operands = [0, 1], reduction = [0, 0, 4], subgroup = [4, 4, 0], workgroup = [128, 64, 0]}>, translation_info = #translation>
#compilation2 = #iree_codegen.compilation_info<lowering_config = #iree_gpu.lowering_config<{promote_operands = [0, 1, 2], promotion_types = [#iree_gpu.derived_thread_config, #iree_gpu.derived_thread_config, #iree_gpu.derived_thread_config], reduction = [0, 0, 0, 0, 64], workgroup = [1, 64, 64, 0, 0]}>, translation_info = #translation1>
module attributes {iree_codegen.tuning_spec_with_default_entrypoint, transform.with_named_sequence} {
  transform.named_sequence @apply_op_config(%arg0: !transform.any_op {transform.readonly}, %arg1: !transform.any_param {transform.readonly}) {
    transform.annotate %arg0 "compilation_info" = %arg1 : !transform.any_op, !transform.any_param
    transform.annotate %arg0 "__autotune_applied__" : !transform.any_op
    transform.yield 
  }
  transform.named_sequence @match_matmul_1024x1024x1024_f16_f32(%arg0: !transform.any_op {transform.readonly}) -> (!transform.any_op, !transform.any_param) attributes {__autotune_entry__ = {baseline_us = 23.33417619599566 : f64, command = "autotune model /tmp/encoder.mlir --target sm_80 --budget 330s --workspace /tmp/wsm --json", date = "2026-11-15 08:36 UTC", device = "cuda", high = 1.3116679920322096 : f64, iree = "3.13.0", low = 1.2990235734572866 : f64, median = 1.3031845036794962 : f64, problem = "matmul_1024x1024x1024_f16_f32", target = "sm_80", us = 17.906227111173699 : f64, verdict = "win"}} {
    %batch_dims, %m_dims, %n_dims, %k_dims = transform.iree.match.contraction %arg0, lhs_type = f16, rhs_type = f16, output_type = f32, indexing_maps = [#map, #map1, #map2] : !transform.any_op -> !transform.param<i64>
    transform.iree.match.dims_equal %batch_dims, [] : !transform.param<i64>
    transform.iree.match.dims_equal %m_dims, [1024] : !transform.param<i64>
    transform.iree.match.dims_equal %n_dims, [1024] : !transform.param<i64>
    transform.iree.match.dims_equal %k_dims, [1024] : !transform.param<i64>
    %0 = transform.param.constant #compilation -> !transform.any_param
    transform.yield %arg0, %0 : !transform.any_op, !transform.any_param
  }
  transform.named_sequence @match_matmul_1024x1024x4096_f16_f32(%arg0: !transform.any_op {transform.readonly}) -> (!transform.any_op, !transform.any_param) attributes {__autotune_entry__ = {baseline_us = 84.326325214861782 : f64, command = "autotune model /tmp/encoder.mlir --target sm_80 --budget 330s --workspace /tmp/wsm --json", date = "2026-11-15 08:36 UTC", device = "cuda", high = 1.3307260029223973 : f64, iree = "3.13.0", low = 1.3265173289537511 : f64, median = 1.3296707254009175 : f64, problem = "matmul_1024x1024x4096_f16_f32", target = "sm_80", us = 63.437541547452376 : f64, verdict = "win"}} {
    %batch_dims, %m_dims, %n_dims, %k_dims = transform.iree.match.contraction %arg0, lhs_type = f16, rhs_type = f16, output_type = f32, indexing_maps = [#map, #map1, #map2] : !transform.any_op -> !transform.param<i64>
    transform.iree.match.dims_equal %batch_dims, [] : !transform.param<i64>
    transform.iree.match.dims_equal %m_dims, [1024] : !transform.param<i64>
    transform.iree.match.dims_equal %n_dims, [1024] : !transform.param<i64>
    transform.iree.match.dims_equal %k_dims, [4096] : !transform.param<i64>
    %0 = transform.param.constant #compilation -> !transform.any_param
    transform.yield %arg0, %0 : !transform.any_op, !transform.any_param
  }
  transform.named_sequence @match_matmul_1024x4096x1024_f16_f32(%arg0: !transform.any_op {transform.readonly}) -> (!transform.any_op, !transform.any_param) attributes {__autotune_entry__ = {baseline_us = 70.818915789585077 : f64, command = "autotune model /tmp/encoder.mlir --target sm_80 --budget 330s --workspace /tmp/wsm --json", date = "2026-11-15 08:36 UTC", device = "cuda", high = 1.3259910877963925 : f64, iree = "3.13.0", low = 1.3211991918865884 : f64, median = 1.3227465508539773 : f64, problem = "matmul_1024x4096x1024_f16_f32", target = "sm_80", us = 53.527535526218102 : f64, verdict = "win"}} {
    %batch_dims, %m_dims, %n_dims, %k_dims = transform.iree.match.contraction %arg0, lhs_type = f16, rhs_type = f16, output_type = f32, indexing_maps = [#map, #map1, #map2] : !transform.any_op -> !transform.param<i64>
    transform.iree.match.dims_equal %batch_dims, [] : !transform.param<i64>
    transform.iree.match.dims_equal %m_dims, [1024] : !transform.param<i64>
    transform.iree.match.dims_equal %n_dims, [4096] : !transform.param<i64>
    transform.iree.match.dims_equal %k_dims, [1024] : !transform.param<i64>
    %0 = transform.param.constant #compilation1 -> !transform.any_param
    transform.yield %arg0, %0 : !transform.any_op, !transform.any_param
  }
  transform.named_sequence @apply_op_config_3(%arg0: !transform.any_op {transform.readonly}, %arg1: !transform.any_param {transform.readonly}, %arg2: !transform.any_param {transform.readonly}) {
    transform.annotate %arg0 "compilation_info" = %arg1 : !transform.any_op, !transform.any_param
    transform.annotate %arg0 "decomposition_config" = %arg2 : !transform.any_op, !transform.any_param
    transform.annotate %arg0 "__autotune_applied__" : !transform.any_op
    transform.yield 
  }
  transform.named_sequence @match_attention_16x1024x64x64x1024_f16_f32(%arg0: !transform.any_op {transform.readonly}) -> (!transform.any_op, !transform.any_param, !transform.any_param) attributes {__autotune_entry__ = {baseline_us = 62.674632677988555 : f64, command = "autotune model /tmp/encoder.mlir --target sm_80 --budget 330s --workspace /tmp/wsm --json", date = "2026-11-15 08:36 UTC", device = "cuda", iree = "3.13.0", problem = "attention_16x1024x64x64x1024_f16_f32", target = "sm_80", us = 42.758270212695436 : f64, verdict = "inconclusive"}} {
    %batch_dims, %m_dims, %n_dims, %k1_dims, %k2_dims = transform.iree.match.online_attention %arg0, query_type = f16, key_type = f16, value_type = f16, scale_type = f16, output_type = f32, max_type = f32, sum_type = f32, indexing_maps = [#map3, #map4, #map5, #map6, #map7, #map8, #map8] : !transform.any_op -> !transform.param<i64>
    transform.iree.match.dims_equal %batch_dims, [16] : !transform.param<i64>
    transform.iree.match.dims_equal %m_dims, [1024] : !transform.param<i64>
    transform.iree.match.dims_equal %n_dims, [64] : !transform.param<i64>
    transform.iree.match.dims_equal %k1_dims, [64] : !transform.param<i64>
    transform.iree.match.dims_equal %k2_dims, [1024] : !transform.param<i64>
    %0 = transform.param.constant #compilation2 -> !transform.any_param
    %1 = transform.param.constant {pv_attrs = {lowering_config = #iree_gpu.lowering_config<{mma_kind = #iree_gpu.mma_layout<NV_MMA_SYNC_F32_16x8x16_F16>, promote_operands = [1], promotion_types = [#iree_gpu.derived_thread_config], subgroup_basis = [[1, 4, 1, 1, 1], [0, 1, 2, 4]]}>}, qk_attrs = {lowering_config = #iree_gpu.lowering_config<{mma_kind = #iree_gpu.mma_layout<NV_MMA_SYNC_F32_16x8x16_F16>, promote_operands = [0, 1], promotion_types = [#iree_gpu.derived_thread_config, #iree_gpu.derived_thread_config], subgroup_basis = [[1, 4, 1, 1, 1], [0, 1, 3, 4]]}>}} -> !transform.any_param
    transform.yield %arg0, %0, %1 : !transform.any_op, !transform.any_param, !transform.any_param
  }
  transform.named_sequence @__kernel_config(%arg0: !transform.any_op {transform.consumed}) -> !transform.any_op attributes {iree_codegen.tuning_spec_entrypoint} {
    %updated_root = transform.foreach_match in %arg0 
        @match_matmul_1024x1024x1024_f16_f32 -> @apply_op_config, 
        @match_matmul_1024x1024x4096_f16_f32 -> @apply_op_config, 
        @match_matmul_1024x4096x1024_f16_f32 -> @apply_op_config, 
        @match_attention_16x1024x64x64x1024_f16_f32 -> @apply_op_config_3 : (!transform.any_op) -> !transform.any_op
    transform.yield %updated_root : !transform.any_op
  }
}
