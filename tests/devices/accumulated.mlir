// A product added to a constant that the compiler may not look into: it computes the sum in the constant's own place.
func.func @main(%a: tensor<3x4xi8>) -> tensor<3xi32> {
  %b = util.unfoldable_constant dense<[-2, 3, 4, -1]> : tensor<4xi8>
  %c = util.unfoldable_constant dense<[1, 2, 3]> : tensor<3xi32>
  %sum = linalg.matvec ins(%a, %b : tensor<3x4xi8>, tensor<4xi8>) outs(%c : tensor<3xi32>) -> tensor<3xi32>
  return %sum : tensor<3xi32>
}
