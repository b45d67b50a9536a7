// As an importer of ONNX leaves it: weights are split already, and sums start from a bias.
// found: conv_1x9x9x8_3x3x6_g2_f32_nchw_bias
util.func public @main(%x: tensor<1x8x9x9xf32>, %bias: tensor<6xf32>) -> tensor<1x6x7x7xf32> {
  %weights = arith.constant dense_resource<__elided__> : tensor<2x3x4x3x3xf32>
  %e = tensor.empty() : tensor<1x6x7x7xf32>
  %b = linalg.broadcast ins(%bias : tensor<6xf32>) outs(%e : tensor<1x6x7x7xf32>) dimensions = [0, 2, 3]
  %image = tensor.expand_shape %x [[0], [1, 2], [3], [4]] output_shape [1, 2, 4, 9, 9]
    : tensor<1x8x9x9xf32> into tensor<1x2x4x9x9xf32>
  %start = tensor.expand_shape %b [[0], [1, 2], [3], [4]] output_shape [1, 2, 3, 7, 7]
    : tensor<1x6x7x7xf32> into tensor<1x2x3x7x7xf32>
  %sums = linalg.conv_2d_ngchw_gfchw {dilations = dense<1> : vector<2xi64>, strides = dense<1> : vector<2xi64>}
    ins(%image, %weights : tensor<1x2x4x9x9xf32>, tensor<2x3x4x3x3xf32>)
    outs(%start : tensor<1x2x3x7x7xf32>) -> tensor<1x2x3x7x7xf32>
  %joined = tensor.collapse_shape %sums [[0], [1, 2], [3], [4]] : tensor<1x2x3x7x7xf32> into tensor<1x6x7x7xf32>
  util.return %joined : tensor<1x6x7x7xf32>
}
