// The largest of nine, as at the beginning of many networks.
func.func @main(%image: tensor<1x64x33x33xf32>) -> tensor<1x64x16x16xf32> {
  %least = arith.constant 0xFF800000 : f32
  %window = tensor.empty() : tensor<3x3xf32>
  %empty = tensor.empty() : tensor<1x64x16x16xf32>
  %fill = linalg.fill ins(%least : f32) outs(%empty : tensor<1x64x16x16xf32>) -> tensor<1x64x16x16xf32>
  %result = linalg.pooling_nchw_max {strides = dense<2> : tensor<2xi64>} ins(%image, %window : tensor<1x64x33x33xf32>, tensor<3x3xf32>) outs(%fill : tensor<1x64x16x16xf32>) -> tensor<1x64x16x16xf32>
  return %result : tensor<1x64x16x16xf32>
}
