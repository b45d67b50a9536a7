// A product that is added to what is given: its dispatch writes over that operand.
func.func @main(%input: tensor<64x96xf32>, %weight: tensor<96x128xf32>, %sum: tensor<64x128xf32>) -> tensor<64x128xf32> {
  %result = linalg.matmul ins(%input, %weight : tensor<64x96xf32>, tensor<96x128xf32>) outs(%sum : tensor<64x128xf32>) -> tensor<64x128xf32>
  return %result : tensor<64x128xf32>
}
