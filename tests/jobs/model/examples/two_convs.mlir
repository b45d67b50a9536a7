// Two convolutions, a 3x3 and a 1x1, as ONNX importers write them.
func.func @main(%x: tensor<1x16x30x30xf32>, %w: tensor<32x16x3x3xf32>, %w2: tensor<8x32x1x1xf32>) -> tensor<1x8x28x28xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x32x28x28xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<1x32x28x28xf32>) -> tensor<1x32x28x28xf32>
  %r = linalg.conv_2d_nchw_fchw {dilations = dense<1> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>} ins(%x, %w : tensor<1x16x30x30xf32>, tensor<32x16x3x3xf32>) outs(%f : tensor<1x32x28x28xf32>) -> tensor<1x32x28x28xf32>
  %e2 = tensor.empty() : tensor<1x8x28x28xf32>
  %f2 = linalg.fill ins(%z : f32) outs(%e2 : tensor<1x8x28x28xf32>) -> tensor<1x8x28x28xf32>
  %r2 = linalg.conv_2d_nchw_fchw {dilations = dense<1> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>} ins(%r, %w2 : tensor<1x32x28x28xf32>, tensor<8x32x1x1xf32>) outs(%f2 : tensor<1x8x28x28xf32>) -> tensor<1x8x28x28xf32>
  return %r2 : tensor<1x8x28x28xf32>
}
