// A product whose dispatch gives two results: what follows it is fused, and both it and its square are used.
func.func @main(%x: tensor<32x64xf32>, %w: tensor<64x48xf32>, %bias: tensor<48xf32>) -> (tensor<32x48xf32>, tensor<32x48xf32>) {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<32x48xf32>
  %filled = linalg.fill ins(%zero : f32) outs(%empty : tensor<32x48xf32>) -> tensor<32x48xf32>
  %product = linalg.matmul ins(%x, %w : tensor<32x64xf32>, tensor<64x48xf32>) outs(%filled : tensor<32x48xf32>) -> tensor<32x48xf32>
  %biased = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%product, %bias : tensor<32x48xf32>, tensor<48xf32>) outs(%empty : tensor<32x48xf32>) {
  ^bb0(%value: f32, %added: f32, %_: f32):
    %sum = arith.addf %value, %added : f32
    linalg.yield %sum : f32
  } -> tensor<32x48xf32>
  %squares = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%biased : tensor<32x48xf32>) outs(%empty : tensor<32x48xf32>) {
  ^bb0(%value: f32, %_: f32):
    %square = arith.mulf %value, %value : f32
    linalg.yield %square : f32
  } -> tensor<32x48xf32>
  return %biased, %squares : tensor<32x48xf32>, tensor<32x48xf32>
}
