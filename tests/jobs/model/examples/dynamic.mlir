// As many rows as the input has.
func.func @main(%input: tensor<?x96xf32>, %weight: tensor<96x128xf32>) -> tensor<?x128xf32> {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %rows = tensor.dim %input, %c0 : tensor<?x96xf32>
  %empty = tensor.empty(%rows) : tensor<?x128xf32>
  %fill = linalg.fill ins(%zero : f32) outs(%empty : tensor<?x128xf32>) -> tensor<?x128xf32>
  %result = linalg.matmul ins(%input, %weight : tensor<?x96xf32>, tensor<96x128xf32>) outs(%fill : tensor<?x128xf32>) -> tensor<?x128xf32>
  return %result : tensor<?x128xf32>
}
