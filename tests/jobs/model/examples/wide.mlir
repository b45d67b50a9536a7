// Attention with heads wider than IREE's default for processors can do: its results are wrong.
#query = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#key = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#value = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#scale = affine_map<(b, m, n, k1, k2) -> ()>
#out = affine_map<(b, m, n, k1, k2) -> (b, m, n)>
func.func @main(%query: tensor<1x8x256xf32>, %key: tensor<1x8x256xf32>, %value: tensor<1x8x256xf32>) -> tensor<1x8x256xf32> {
  %scale = arith.constant 0.0625 : f32
  %empty = tensor.empty() : tensor<1x8x256xf32>
  %result = "iree_linalg_ext.attention"(%query, %key, %value, %scale, %empty) <{indexing_maps = [#query, #key, #value, #scale, #out]}> ({
  ^bb0(%score: f32):
    iree_linalg_ext.yield %score : f32
  }) : (tensor<1x8x256xf32>, tensor<1x8x256xf32>, tensor<1x8x256xf32>, f32, tensor<1x8x256xf32>) -> tensor<1x8x256xf32>
  return %result : tensor<1x8x256xf32>
}
