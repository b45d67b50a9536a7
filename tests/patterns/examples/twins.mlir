// The branches of an inception block: an image, and two filters of one size, whose weights are elided.
// found: gemm_8x16x32_f32_f32_nn_bias gemm_8x16x32_f32_f32_nn
// found: gemm_8x16x32_f32_f32_nn_bias gemm_8x16x32_f32_f32_nn
util.func public @main(%a: tensor<8x32xf32>, %v: tensor<16xf32>) -> (tensor<8x16xf32>, tensor<8x16xf32>) {
  %one = arith.constant dense_resource<__elided__> : tensor<32x16xf32>
  %two = arith.constant dense_resource<__elided__> : tensor<32x16xf32>
  %e = tensor.empty() : tensor<8x16xf32>
  %b = linalg.broadcast ins(%v : tensor<16xf32>) outs(%e : tensor<8x16xf32>) dimensions = [0]
  %p = linalg.matmul ins(%a, %one : tensor<8x32xf32>, tensor<32x16xf32>) outs(%b : tensor<8x16xf32>) -> tensor<8x16xf32>
  %q = linalg.matmul ins(%a, %two : tensor<8x32xf32>, tensor<32x16xf32>) outs(%b : tensor<8x16xf32>) -> tensor<8x16xf32>
  util.return %p, %q : tensor<8x16xf32>, tensor<8x16xf32>
}
