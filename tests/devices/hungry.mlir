// Fills a tensor of as many elements as it is told.
func.func @main(%n: tensor<1xi64>) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %size = tensor.extract %n[%c0] : tensor<1xi64>
  %index = arith.index_cast %size : i64 to index
  %zero = arith.constant 1.0 : f32
  %empty = tensor.empty(%index) : tensor<?xf32>
  %out = linalg.fill ins(%zero : f32) outs(%empty : tensor<?xf32>) -> tensor<?xf32>
  return %out : tensor<?xf32>
}
