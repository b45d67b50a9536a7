// A convolution of one image: on a processor no spec reaches it.
func.func @main(%image: tensor<1x18x18x16xf32>, %filter: tensor<3x3x16x32xf32>) -> tensor<1x16x16x32xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<1x16x16x32xf32>
  %fill = linalg.fill ins(%zero : f32) outs(%empty : tensor<1x16x16x32xf32>) -> tensor<1x16x16x32xf32>
  %result = linalg.conv_2d_nhwc_hwcf ins(%image, %filter : tensor<1x18x18x16xf32>, tensor<3x3x16x32xf32>) outs(%fill : tensor<1x16x16x32xf32>) -> tensor<1x16x16x32xf32>
  return %result : tensor<1x16x16x32xf32>
}
