// As PyTorch and ONNX write it: the padding before, the bias as the beginning, the relu by comparison behind.
// found: conv_1x8x8x4_3x3x6_p1x1_f32_nchw_bias_relu conv_1x8x8x4_3x3x6_p1x1_f32_nchw_bias conv_1x8x8x4_3x3x6_p1x1_f32_nchw conv_1x10x10x4_3x3x6_f32_nchw_bias_relu conv_1x10x10x4_3x3x6_f32_nchw_bias conv_1x10x10x4_3x3x6_f32_nchw
util.func public @main(%x: tensor<1x4x8x8xf32>) -> tensor<1x6x8x8xf32> {
  %zero = arith.constant 0.0 : f32
  %w = arith.constant dense_resource<w> : tensor<6x4x3x3xf32>
  %v = arith.constant dense_resource<v> : tensor<6xf32>
  %pad = tensor.pad %x low[0, 0, 1, 1] high[0, 0, 1, 1] {
  ^bb0(%i: index, %j: index, %k: index, %l: index):
    tensor.yield %zero : f32
  } : tensor<1x4x8x8xf32> to tensor<1x4x10x10xf32>
  %e = tensor.empty() : tensor<1x6x8x8xf32>
  %start = linalg.broadcast ins(%v : tensor<6xf32>) outs(%e : tensor<1x6x8x8xf32>) dimensions = [0, 2, 3]
  %c = linalg.conv_2d_nchw_fchw {dilations = dense<1> : vector<2xi64>, strides = dense<1> : vector<2xi64>}
    ins(%pad, %w : tensor<1x4x10x10xf32>, tensor<6x4x3x3xf32>) outs(%start : tensor<1x6x8x8xf32>)
    -> tensor<1x6x8x8xf32>
  %relu = linalg.generic {indexing_maps = [affine_map<(a, b, c, d) -> (a, b, c, d)>,
    affine_map<(a, b, c, d) -> (a, b, c, d)>],
    iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%c : tensor<1x6x8x8xf32>) outs(%e : tensor<1x6x8x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    %more = arith.cmpf ugt, %in, %zero : f32
    %s = arith.select %more, %in, %zero : f32
    linalg.yield %s : f32
  } -> tensor<1x6x8x8xf32>
  util.return %relu : tensor<1x6x8x8xf32>
}
