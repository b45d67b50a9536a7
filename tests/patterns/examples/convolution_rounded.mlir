// The limit of a clip has the narrow type: clipped before or after the rounding, the result is the same.
// found: conv_1x8x8x4_3x3x6_p1x1_f16_f16_nhwc_bias_relu conv_1x8x8x4_3x3x6_p1x1_f16_f16_nhwc_bias conv_1x8x8x4_3x3x6_p1x1_f16_nhwc conv_1x10x10x4_3x3x6_f16_f16_nhwc_bias_relu conv_1x10x10x4_3x3x6_f16_f16_nhwc_bias conv_1x10x10x4_3x3x6_f16_nhwc
util.func public @main(%x: tensor<1x8x8x4xf16>, %w: tensor<3x3x4x6xf16>, %v: tensor<6xf32>) -> tensor<1x8x8x6xf16> {
  %zero = arith.constant 0.0 : f32
  %half = arith.constant 0.0 : f16
  %pad = tensor.pad %x low[0, 1, 1, 0] high[0, 1, 1, 0] {
  ^bb0(%i: index, %j: index, %k: index, %l: index):
    tensor.yield %half : f16
  } : tensor<1x8x8x4xf16> to tensor<1x10x10x4xf16>
  %e = tensor.empty() : tensor<1x8x8x6xf32>
  %n = tensor.empty() : tensor<1x8x8x6xf16>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1x8x8x6xf32>) -> tensor<1x8x8x6xf32>
  %c = linalg.conv_2d_nhwc_hwcf {dilations = dense<1> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>}
    ins(%pad, %w : tensor<1x10x10x4xf16>, tensor<3x3x4x6xf16>) outs(%f : tensor<1x8x8x6xf32>) -> tensor<1x8x8x6xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(a, b, c, d) -> (a, b, c, d)>, affine_map<(a, b, c, d) -> (d)>, affine_map<(a, b, c, d) -> (a, b, c, d)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%c, %v : tensor<1x8x8x6xf32>, tensor<6xf32>) outs(%n : tensor<1x8x8x6xf16>) {
  ^bb0(%in: f32, %b: f32, %out: f16):
    %s = arith.addf %in, %b : f32
    %t = arith.truncf %s : f32 to f16
    linalg.yield %t : f16
  } -> tensor<1x8x8x6xf16>
  %relu = linalg.generic {indexing_maps = [affine_map<(a, b, c, d) -> (a, b, c, d)>, affine_map<(a, b, c, d) -> (a, b, c, d)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%r : tensor<1x8x8x6xf16>) outs(%n : tensor<1x8x8x6xf16>) {
  ^bb0(%in: f16, %out: f16):
    %m = arith.maximumf %in, %half : f16
    linalg.yield %m : f16
  } -> tensor<1x8x8x6xf16>
  util.return %relu : tensor<1x8x8x6xf16>
}
