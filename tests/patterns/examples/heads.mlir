// As torch exports it: heads are split from the width of a linear layer, and moved before the tokens.
// found: attention_2x3x8x16x4_f16_bshd attention_6x1x8x16x4_f16_flat
func.func @main(%q: tensor<2x8x12xf16>, %k: tensor<2x16x12xf16>, %v: tensor<2x16x12xf16>) -> tensor<2x8x12xf16> {
  %scale = arith.constant 0.5 : f32
  %queries = tensor.expand_shape %q [[0], [1], [2, 3]] output_shape [2, 8, 3, 4]
    : tensor<2x8x12xf16> into tensor<2x8x3x4xf16>
  %keys = tensor.expand_shape %k [[0], [1], [2, 3]] output_shape [2, 16, 3, 4]
    : tensor<2x16x12xf16> into tensor<2x16x3x4xf16>
  %values = tensor.expand_shape %v [[0], [1], [2, 3]] output_shape [2, 16, 3, 4]
    : tensor<2x16x12xf16> into tensor<2x16x3x4xf16>
  %few = tensor.empty() : tensor<2x3x8x4xf16>
  %many = tensor.empty() : tensor<2x3x16x4xf16>
  %q1 = linalg.transpose ins(%queries : tensor<2x8x3x4xf16>) outs(%few : tensor<2x3x8x4xf16>)
    permutation = [0, 2, 1, 3]
  %k1 = linalg.transpose ins(%keys : tensor<2x16x3x4xf16>) outs(%many : tensor<2x3x16x4xf16>)
    permutation = [0, 2, 1, 3]
  %v1 = linalg.generic {
    indexing_maps = [affine_map<(a, b, c, d) -> (a, c, b, d)>, affine_map<(a, b, c, d) -> (a, b, c, d)>],
    iterator_types = ["parallel", "parallel", "parallel", "parallel"]
  } ins(%values : tensor<2x16x3x4xf16>) outs(%many : tensor<2x3x16x4xf16>) {
  ^bb0(%in: f16, %out: f16):
    linalg.yield %in : f16
  } -> tensor<2x3x16x4xf16>
  %q2 = tensor.collapse_shape %q1 [[0, 1], [2], [3]] : tensor<2x3x8x4xf16> into tensor<6x8x4xf16>
  %k2 = tensor.collapse_shape %k1 [[0, 1], [2], [3]] : tensor<2x3x16x4xf16> into tensor<6x16x4xf16>
  %v2 = tensor.collapse_shape %v1 [[0, 1], [2], [3]] : tensor<2x3x16x4xf16> into tensor<6x16x4xf16>
  %empty = tensor.empty() : tensor<6x8x4xf16>
  %made = "iree_linalg_ext.attention"(%q2, %k2, %v2, %scale, %empty) <{indexing_maps = [
    affine_map<(b, m, n, k1, k2) -> (b, m, k1)>, affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>,
    affine_map<(b, m, n, k1, k2) -> (b, k2, n)>, affine_map<(b, m, n, k1, k2) -> ()>,
    affine_map<(b, m, n, k1, k2) -> (b, m, n)>]}> ({
  ^bb0(%score: f32):
    iree_linalg_ext.yield %score : f32
  }) : (tensor<6x8x4xf16>, tensor<6x16x4xf16>, tensor<6x16x4xf16>, f32, tensor<6x8x4xf16>) -> tensor<6x8x4xf16>
  %split = tensor.expand_shape %made [[0, 1], [2], [3]] output_shape [2, 3, 8, 4]
    : tensor<6x8x4xf16> into tensor<2x3x8x4xf16>
  %order = tensor.empty() : tensor<2x8x3x4xf16>
  %turned = linalg.transpose ins(%split : tensor<2x3x8x4xf16>) outs(%order : tensor<2x8x3x4xf16>)
    permutation = [0, 2, 1, 3]
  %out = tensor.collapse_shape %turned [[0], [1], [2, 3]] : tensor<2x8x3x4xf16> into tensor<2x8x12xf16>
  return %out : tensor<2x8x12xf16>
}
