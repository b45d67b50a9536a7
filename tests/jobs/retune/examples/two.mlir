// A model whose dispatches are SMALL and OTHER.
func.func @main(%a: tensor<64x48xf32>, %b: tensor<48x32xf32>, %c: tensor<32x64xf32>, %d: tensor<64x32xf32>)
    -> (tensor<64x32xf32>, tensor<32x32xf32>) {
  %zero = arith.constant 0.0 : f32
  %tall = tensor.empty() : tensor<64x32xf32>
  %square = tensor.empty() : tensor<32x32xf32>
  %tall_zero = linalg.fill ins(%zero : f32) outs(%tall : tensor<64x32xf32>) -> tensor<64x32xf32>
  %square_zero = linalg.fill ins(%zero : f32) outs(%square : tensor<32x32xf32>) -> tensor<32x32xf32>
  %first = linalg.matmul ins(%a, %b : tensor<64x48xf32>, tensor<48x32xf32>) outs(%tall_zero : tensor<64x32xf32>)
    -> tensor<64x32xf32>
  %second = linalg.matmul ins(%c, %d : tensor<32x64xf32>, tensor<64x32xf32>) outs(%square_zero : tensor<32x32xf32>)
    -> tensor<32x32xf32>
  return %first, %second : tensor<64x32xf32>, tensor<32x32xf32>
}
