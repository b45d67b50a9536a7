// Results that are no tensors stand beside one that is.
func.func @main(%x: tensor<4xf32>) -> (f32, tensor<4xf32>, i32) {
  %c1 = arith.constant 1 : index
  %f = tensor.extract %x[%c1] : tensor<4xf32>
  %i = arith.fptosi %f : f32 to i32
  %sum = arith.addf %x, %x : tensor<4xf32>
  return %f, %sum, %i : f32, tensor<4xf32>, i32
}
