// Two functions; the first has the same product twice, once with a relu after it.
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @twice(%input: tensor<64x64xf16>, %weight: tensor<64x64xf16>) -> tensor<64x64xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<64x64xf32>
  %fill = linalg.fill ins(%zero : f32) outs(%empty : tensor<64x64xf32>) -> tensor<64x64xf32>
  %product = linalg.matmul ins(%input, %weight : tensor<64x64xf16>, tensor<64x64xf16>) outs(%fill : tensor<64x64xf32>) -> tensor<64x64xf32>
  %half = tensor.empty() : tensor<64x64xf16>
  %relu = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%product : tensor<64x64xf32>) outs(%half : tensor<64x64xf16>) {
  ^bb0(%x: f32, %unused: f16):
    %value = arith.maximumf %x, %zero : f32
    %narrow = arith.truncf %value : f32 to f16
    linalg.yield %narrow : f16
  } -> tensor<64x64xf16>
  %again = linalg.matmul ins(%relu, %weight : tensor<64x64xf16>, tensor<64x64xf16>) outs(%fill : tensor<64x64xf32>) -> tensor<64x64xf32>
  return %again : tensor<64x64xf32>
}
func.func @other(%input: tensor<64x64xf16>) -> tensor<64x64xf16> {
  return %input : tensor<64x64xf16>
}
