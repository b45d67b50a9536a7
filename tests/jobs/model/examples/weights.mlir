// A product whose weight is a parameter, in a file of its own.
util.global private @weight = #flow.parameter.named<"model"::"weight"> : tensor<96x128xf32>
func.func @main(%input: tensor<64x96xf32>) -> tensor<64x128xf32> {
  %weight = util.global.load @weight : tensor<96x128xf32>
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<64x128xf32>
  %fill = linalg.fill ins(%zero : f32) outs(%empty : tensor<64x128xf32>) -> tensor<64x128xf32>
  %result = linalg.matmul ins(%input, %weight : tensor<64x96xf32>, tensor<96x128xf32>) outs(%fill : tensor<64x128xf32>) -> tensor<64x128xf32>
  return %result : tensor<64x128xf32>
}
