// A linear layer of an image, as ONNX importers write it: weights are copied for batch and height, and merged; the bias
// is added after the result is split again.
// found: gemm_24x12x8_f32_f32_nn_bias gemm_24x12x8_f32_f32_nn gemm_4x6x12x8_f32_f32_nn_bias gemm_4x6x12x8_f32_f32_nn
func.func @main(%weights: tensor<8x12xf32>, %x: tensor<1x4x6x8xf32>, %bias: tensor<12xf32>) -> tensor<1x4x6x12xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x4x8x12xf32>
  %copies = linalg.generic {indexing_maps = [affine_map<(b, h, k, n) -> (k, n)>, affine_map<(b, h, k, n) -> (b, h, k, n)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%weights : tensor<8x12xf32>) outs(%e : tensor<1x4x8x12xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<1x4x8x12xf32>
  %rows = tensor.collapse_shape %x [[0, 1], [2], [3]] : tensor<1x4x6x8xf32> into tensor<4x6x8xf32>
  %layers = tensor.collapse_shape %copies [[0, 1], [2], [3]] : tensor<1x4x8x12xf32> into tensor<4x8x12xf32>
  %r = tensor.empty() : tensor<4x6x12xf32>
  %start = linalg.fill ins(%zero : f32) outs(%r : tensor<4x6x12xf32>) -> tensor<4x6x12xf32>
  %product = linalg.batch_matmul ins(%rows, %layers : tensor<4x6x8xf32>, tensor<4x8x12xf32>) outs(%start : tensor<4x6x12xf32>) -> tensor<4x6x12xf32>
  %image = tensor.expand_shape %product [[0, 1], [2], [3]] output_shape [1, 4, 6, 12] : tensor<4x6x12xf32> into tensor<1x4x6x12xf32>
  %o = tensor.empty() : tensor<1x4x6x12xf32>
  %sum = linalg.generic {indexing_maps = [affine_map<(b, h, m, n) -> (b, h, m, n)>, affine_map<(b, h, m, n) -> (n)>, affine_map<(b, h, m, n) -> (b, h, m, n)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%image, %bias : tensor<1x4x6x12xf32>, tensor<12xf32>) outs(%o : tensor<1x4x6x12xf32>) {
  ^bb0(%in: f32, %added: f32, %out: f32):
    %value = arith.addf %in, %added : f32
    linalg.yield %value : f32
  } -> tensor<1x4x6x12xf32>
  return %sum : tensor<1x4x6x12xf32>
}
