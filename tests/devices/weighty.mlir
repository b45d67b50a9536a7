// Weights of 256 MiB that each context has for itself; a call reads one of them.
util.global private @weights : tensor<67108864xf32>
util.initializer {
  %one = arith.constant dense<1.0> : tensor<67108864xf32>
  %held = util.optimization_barrier %one : tensor<67108864xf32>
  util.global.store %held, @weights : tensor<67108864xf32>
  util.return
}
func.func @main(%x: tensor<1xf32>) -> tensor<1xf32> {
  %weights = util.global.load @weights : tensor<67108864xf32>
  %one = tensor.extract_slice %weights[7] [1] [1] : tensor<67108864xf32> to tensor<1xf32>
  %sum = arith.addf %x, %one : tensor<1xf32>
  return %sum : tensor<1xf32>
}
