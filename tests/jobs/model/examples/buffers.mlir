// A result is written into a bare buffer that the caller gives; the input is another one.
module @buffers {
  func.func @main(
      %product: !hal.buffer {iree.abi.output = 0 : index}, %bytes: !hal.buffer,
      %weight: tensor<96x128xf32>) -> tensor<64x128xf32> {
    %input = hal.tensor.import %bytes "input" : !hal.buffer -> tensor<64x96xf32>
    %zero = arith.constant 0.0 : f32
    %empty = tensor.empty() : tensor<64x128xf32>
    %fill = linalg.fill ins(%zero : f32) outs(%empty : tensor<64x128xf32>) -> tensor<64x128xf32>
    %matmul = linalg.matmul ins(%input, %weight : tensor<64x96xf32>, tensor<96x128xf32>) outs(%fill : tensor<64x128xf32>) -> tensor<64x128xf32>
    return %matmul : tensor<64x128xf32>
  }
}
