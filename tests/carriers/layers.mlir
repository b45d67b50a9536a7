// Two layers, and a bias that would grow. GLOBAL and WEIGHTS are to be replaced by what the second one's weights are.
!lhs = tensor<8x2xf16>
!rhs = tensor<2x4xf16>
!sum = tensor<8x4xf32>
GLOBAL
func.func @layers(%a: !lhs) -> (!sum, !sum, tensor<4x8x2xf16>) {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : !sum
  %fill = linalg.fill ins(%zero : f32) outs(%empty : !sum) -> !sum
  %b = arith.constant dense<[[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]]> : !rhs
  %c = WEIGHTS : !rhs
  %0 = linalg.matmul ins(%a, %b : !lhs, !rhs) outs(%fill : !sum) -> !sum
  %1 = linalg.matmul ins(%a, %c : !lhs, !rhs) outs(%fill : !sum) -> !sum
  %bias = arith.constant dense<[1.0, 2.0]> : tensor<2xf16>
  %wide = tensor.empty() : tensor<4x8x2xf16>
  %all = linalg.broadcast ins(%bias : tensor<2xf16>) outs(%wide : tensor<4x8x2xf16>) dimensions = [0, 1]
  %more = linalg.broadcast ins(%a : !lhs) outs(%wide : tensor<4x8x2xf16>) dimensions = [0]
  %2 = arith.addf %all, %more : tensor<4x8x2xf16>
  return %0, %1, %2 : !sum, !sum, tensor<4x8x2xf16>
}
