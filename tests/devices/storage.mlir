// Twice the input, written into a bare buffer of the caller's.
func.func @main(%x: tensor<4xf32>, %out: !hal.buffer {iree.abi.output = 0 : index}) -> tensor<4xf32> {
  %sum = arith.addf %x, %x : tensor<4xf32>
  return %sum : tensor<4xf32>
}
