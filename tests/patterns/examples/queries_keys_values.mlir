// As torch exports it: three linear layers of the same tokens, and an attention of what they give.
// found: gemm_16x36x8_f16_f32_f16_nn_bias gemm_16x36x8_f16_f32_f16_nn gemm_16x36x8_f16_f32_nn
// found: attention_2x3x8x8x4_f16_bs3hd attention_2x3x8x8x4_f16_bshd attention_6x1x8x8x4_f16_flat
util.global private @weights_q = dense<[[0.75, 0.25, 0.0, -0.5, -0.375, -1.0, -0.875, -1.0], [-0.75, 0.625, 0.375, 0.875, 0.0, 0.25, 1.0, 0.5], [0.25, 0.125, 0.125, 0.875, -0.5, 0.625, 0.375, -1.0], [-0.25, 0.75, 0.125, -1.0, 0.625, 0.5, 0.75, -0.75], [-0.875, 0.75, -1.0, 0.125, -0.875, -0.375, 0.0, -0.125], [-0.25, -1.0, -1.0, -0.75, -1.0, 0.375, 0.0, 0.375], [-0.5, 0.25, 0.5, -0.25, -0.125, 1.0, 0.625, 1.0], [-0.25, 0.375, 1.0, 0.375, 0.75, 0.375, 0.375, -0.25], [0.75, -0.75, 0.125, 0.5, 0.75, 0.0, -0.25, -0.375], [-0.125, 0.0, 0.5, 0.875, -0.875, 0.875, 0.125, -0.25], [0.375, 0.125, -0.5, -0.375, 0.5, 0.25, 0.0, -0.375], [0.5, -0.25, -0.375, 0.875, -0.5, -0.625, 0.5, 0.25]]> : tensor<12x8xf16>
util.global private @weights_k = dense<[[0.0, 0.0, 0.5, 1.0, -1.0, -0.75, 0.625, 1.0], [-0.5, -0.375, 0.75, -0.125, -0.5, 0.75, -0.5, -0.25], [0.25, 0.125, -0.875, -1.0, 0.75, 0.5, 0.75, 0.125], [0.625, -0.375, -0.125, 0.625, -0.75, -0.375, -0.75, -0.125], [1.0, -0.75, -0.25, -0.25, 0.875, -0.625, 0.0, -0.5], [-1.0, 0.5, -0.875, -0.5, 0.0, 0.0, -0.875, 1.0], [0.5, 1.0, -0.875, 0.5, -0.5, 0.125, 0.875, -0.5], [0.5, -0.75, -0.375, 1.0, -0.125, 0.0, -0.5, -0.875], [-0.125, 0.25, -0.125, 0.625, -0.25, 0.25, 0.625, 0.875], [-0.125, -1.0, 0.5, 0.0, 0.75, -0.125, -0.25, -0.875], [-0.125, 0.25, 0.625, 0.75, -0.625, 0.25, 0.625, -0.5], [-0.375, 0.75, 0.125, 0.0, 0.375, 0.0, 1.0, 0.5]]> : tensor<12x8xf16>
util.global private @weights_v = dense<[[0.75, -0.5, -0.875, -0.375, -0.125, 0.625, -0.125, -0.875], [-0.375, 0.25, 0.625, 0.5, 1.0, -0.625, 0.75, -1.0], [0.125, -0.5, -0.625, 0.375, -0.375, 0.125, -0.5, -0.75], [0.5, -0.125, 0.375, 0.375, 1.0, -0.125, -0.625, 0.25], [0.875, 1.0, 0.75, 0.375, -0.25, -0.25, -1.0, -0.625], [-0.375, -0.375, 0.125, 0.0, 0.375, 0.875, 0.75, 0.625], [1.0, -0.375, 0.875, 0.875, -0.625, 0.0, 0.125, 0.375], [0.375, -0.875, 0.0, -0.875, 1.0, -0.625, -0.125, 0.875], [0.0, 0.375, 0.0, 0.75, 0.25, 0.25, -0.125, -0.25], [0.25, 0.0, 0.625, 0.25, 0.0, 0.75, -0.625, -0.125], [0.0, 0.875, -0.125, 0.25, -0.875, 0.75, -0.125, 0.0], [-0.875, 0.375, 0.25, -0.375, 0.625, 0.0, -1.0, -0.625]]> : tensor<12x8xf16>
func.func @main(%x: tensor<2x8x8xf16>) -> tensor<2x8x3x4xf16> {
  %nothing = arith.constant 0.0 : f32
  %sums = tensor.empty() : tensor<2x8x12xf32>
  %zeros = linalg.fill ins(%nothing : f32) outs(%sums : tensor<2x8x12xf32>) -> tensor<2x8x12xf32>
  %e812 = tensor.empty() : tensor<8x12xf16>
  %e2812 = tensor.empty() : tensor<2x8x12xf16>
  %e2384 = tensor.empty() : tensor<2x3x8x4xf16>
  %e684 = tensor.empty() : tensor<6x8x4xf16>
  %e2834 = tensor.empty() : tensor<2x8x3x4xf16>
  %bias_q = arith.constant dense<[0.375, 0.625, -1.0, 0.625, -0.125, 0.0, 0.25, -0.5, 1.0, -1.0, -0.5, -0.25]> : tensor<12xf16>
  %bias_k = arith.constant dense<[-0.125, 0.125, 0.0, -0.375, 1.0, -0.25, 0.375, -0.25, -0.125, 1.0, -0.625, 0.25]> : tensor<12xf16>
  %bias_v = arith.constant dense<[1.0, 0.25, 0.375, 0.875, 0.125, 0.625, 0.75, -0.625, -1.0, -0.375, -0.5, 0.75]> : tensor<12xf16>
  %weights_q = util.global.load @weights_q : tensor<12x8xf16>
  %turned_q = linalg.transpose ins(%weights_q : tensor<12x8xf16>) outs(%e812 : tensor<8x12xf16>)
      permutation = [1, 0]
  %copies_q = linalg.broadcast ins(%turned_q : tensor<8x12xf16>) outs(%e2812 : tensor<2x8x12xf16>)
      dimensions = [0]
  %product_q = linalg.batch_matmul ins(%x, %copies_q : tensor<2x8x8xf16>, tensor<2x8x12xf16>)
      outs(%zeros : tensor<2x8x12xf32>) -> tensor<2x8x12xf32>
  %rounded_q = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, j, k)>, affine_map<(i, j, k) -> (i, j, k)>], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%product_q : tensor<2x8x12xf32>) outs(%e2812 : tensor<2x8x12xf16>) {
  ^bb0(%in: f32, %out: f16):
    %narrow = arith.truncf %in : f32 to f16
    linalg.yield %narrow : f16
  } -> tensor<2x8x12xf16>
  %layer_q = linalg.generic {
      indexing_maps = [affine_map<(i, j, k) -> (i, j, k)>, affine_map<(i, j, k) -> (k)>, affine_map<(i, j, k) -> (i, j, k)>], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%rounded_q, %bias_q : tensor<2x8x12xf16>, tensor<12xf16>) outs(%e2812 : tensor<2x8x12xf16>) {
  ^bb0(%in: f16, %bias: f16, %out: f16):
    %sum = arith.addf %in, %bias : f16
    linalg.yield %sum : f16
  } -> tensor<2x8x12xf16>
  %split_q = tensor.expand_shape %layer_q [[0], [1], [2, 3]] output_shape [2, 8, 3, 4]
      : tensor<2x8x12xf16> into tensor<2x8x3x4xf16>
  %q4 = linalg.transpose ins(%split_q : tensor<2x8x3x4xf16>) outs(%e2384 : tensor<2x3x8x4xf16>)
      permutation = [0, 2, 1, 3]
  %q = tensor.collapse_shape %q4 [[0, 1], [2], [3]] : tensor<2x3x8x4xf16> into tensor<6x8x4xf16>
  %weights_k = util.global.load @weights_k : tensor<12x8xf16>
  %turned_k = linalg.transpose ins(%weights_k : tensor<12x8xf16>) outs(%e812 : tensor<8x12xf16>)
      permutation = [1, 0]
  %copies_k = linalg.broadcast ins(%turned_k : tensor<8x12xf16>) outs(%e2812 : tensor<2x8x12xf16>)
      dimensions = [0]
  %product_k = linalg.batch_matmul ins(%x, %copies_k : tensor<2x8x8xf16>, tensor<2x8x12xf16>)
      outs(%zeros : tensor<2x8x12xf32>) -> tensor<2x8x12xf32>
  %rounded_k = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, j, k)>, affine_map<(i, j, k) -> (i, j, k)>], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%product_k : tensor<2x8x12xf32>) outs(%e2812 : tensor<2x8x12xf16>) {
  ^bb0(%in: f32, %out: f16):
    %narrow = arith.truncf %in : f32 to f16
    linalg.yield %narrow : f16
  } -> tensor<2x8x12xf16>
  %layer_k = linalg.generic {
      indexing_maps = [affine_map<(i, j, k) -> (i, j, k)>, affine_map<(i, j, k) -> (k)>, affine_map<(i, j, k) -> (i, j, k)>], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%rounded_k, %bias_k : tensor<2x8x12xf16>, tensor<12xf16>) outs(%e2812 : tensor<2x8x12xf16>) {
  ^bb0(%in: f16, %bias: f16, %out: f16):
    %sum = arith.addf %in, %bias : f16
    linalg.yield %sum : f16
  } -> tensor<2x8x12xf16>
  %split_k = tensor.expand_shape %layer_k [[0], [1], [2, 3]] output_shape [2, 8, 3, 4]
      : tensor<2x8x12xf16> into tensor<2x8x3x4xf16>
  %k4 = linalg.transpose ins(%split_k : tensor<2x8x3x4xf16>) outs(%e2384 : tensor<2x3x8x4xf16>)
      permutation = [0, 2, 1, 3]
  %k = tensor.collapse_shape %k4 [[0, 1], [2], [3]] : tensor<2x3x8x4xf16> into tensor<6x8x4xf16>
  %weights_v = util.global.load @weights_v : tensor<12x8xf16>
  %turned_v = linalg.transpose ins(%weights_v : tensor<12x8xf16>) outs(%e812 : tensor<8x12xf16>)
      permutation = [1, 0]
  %copies_v = linalg.broadcast ins(%turned_v : tensor<8x12xf16>) outs(%e2812 : tensor<2x8x12xf16>)
      dimensions = [0]
  %product_v = linalg.batch_matmul ins(%x, %copies_v : tensor<2x8x8xf16>, tensor<2x8x12xf16>)
      outs(%zeros : tensor<2x8x12xf32>) -> tensor<2x8x12xf32>
  %rounded_v = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, j, k)>, affine_map<(i, j, k) -> (i, j, k)>], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%product_v : tensor<2x8x12xf32>) outs(%e2812 : tensor<2x8x12xf16>) {
  ^bb0(%in: f32, %out: f16):
    %narrow = arith.truncf %in : f32 to f16
    linalg.yield %narrow : f16
  } -> tensor<2x8x12xf16>
  %layer_v = linalg.generic {
      indexing_maps = [affine_map<(i, j, k) -> (i, j, k)>, affine_map<(i, j, k) -> (k)>, affine_map<(i, j, k) -> (i, j, k)>], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%rounded_v, %bias_v : tensor<2x8x12xf16>, tensor<12xf16>) outs(%e2812 : tensor<2x8x12xf16>) {
  ^bb0(%in: f16, %bias: f16, %out: f16):
    %sum = arith.addf %in, %bias : f16
    linalg.yield %sum : f16
  } -> tensor<2x8x12xf16>
  %split_v = tensor.expand_shape %layer_v [[0], [1], [2, 3]] output_shape [2, 8, 3, 4]
      : tensor<2x8x12xf16> into tensor<2x8x3x4xf16>
  %v4 = linalg.transpose ins(%split_v : tensor<2x8x3x4xf16>) outs(%e2384 : tensor<2x3x8x4xf16>)
      permutation = [0, 2, 1, 3]
  %v = tensor.collapse_shape %v4 [[0, 1], [2], [3]] : tensor<2x3x8x4xf16> into tensor<6x8x4xf16>
  %scale = arith.constant 0.5 : f32
  %made = "iree_linalg_ext.attention"(%q, %k, %v, %scale, %e684) <{indexing_maps = [
    affine_map<(b, m, n, k1, k2) -> (b, m, k1)>, affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>,
    affine_map<(b, m, n, k1, k2) -> (b, k2, n)>, affine_map<(b, m, n, k1, k2) -> ()>,
    affine_map<(b, m, n, k1, k2) -> (b, m, n)>]}> ({
  ^bb0(%score: f32):
    iree_linalg_ext.yield %score : f32
  }) : (tensor<6x8x4xf16>, tensor<6x8x4xf16>, tensor<6x8x4xf16>, f32, tensor<6x8x4xf16>) -> tensor<6x8x4xf16>
  %heads = tensor.expand_shape %made [[0, 1], [2], [3]] output_shape [2, 3, 8, 4]
      : tensor<6x8x4xf16> into tensor<2x3x8x4xf16>
  %tokens = linalg.transpose ins(%heads : tensor<2x3x8x4xf16>) outs(%e2834 : tensor<2x8x3x4xf16>)
      permutation = [0, 2, 1, 3]
  return %tokens : tensor<2x8x3x4xf16>
}
