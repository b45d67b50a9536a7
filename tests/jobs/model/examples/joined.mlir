// Two blocks of a residual network: the first adds what came before, the second another product.
#whole = affine_map<(d0, d1) -> (d0, d1)>
#column = affine_map<(d0, d1) -> (d1)>
func.func @joined(%in: tensor<16x32xf32>, %before: tensor<16x32xf32>, %other: tensor<16x8xf32>,
                  %w1: tensor<32x32xf32>, %w2: tensor<32x32xf32>, %w3: tensor<8x32xf32>, %b: tensor<32xf32>) -> tensor<16x32xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<16x32xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<16x32xf32>) -> tensor<16x32xf32>
  %one_p = linalg.matmul ins(%in, %w1 : tensor<16x32xf32>, tensor<32x32xf32>) outs(%f : tensor<16x32xf32>) -> tensor<16x32xf32>
  %one = linalg.generic {indexing_maps = [#whole, #column, #whole], iterator_types = ["parallel", "parallel"]} ins(%one_p, %b : tensor<16x32xf32>, tensor<32xf32>) outs(%e : tensor<16x32xf32>) {
  ^bb0(%x: f32, %y: f32, %unused: f32):
    %sum = arith.addf %x, %y : f32
    linalg.yield %sum : f32
  } -> tensor<16x32xf32>
  %first = linalg.generic {indexing_maps = [#whole, #whole, #whole], iterator_types = ["parallel", "parallel"]} ins(%one, %before : tensor<16x32xf32>, tensor<16x32xf32>) outs(%e : tensor<16x32xf32>) {
  ^bb0(%x: f32, %y: f32, %unused: f32):
    %sum = arith.addf %x, %y : f32
    %value = arith.maximumf %sum, %zero : f32
    linalg.yield %value : f32
  } -> tensor<16x32xf32>
  %two_p = linalg.matmul ins(%first, %w2 : tensor<16x32xf32>, tensor<32x32xf32>) outs(%f : tensor<16x32xf32>) -> tensor<16x32xf32>
  %two = linalg.generic {indexing_maps = [#whole, #column, #whole], iterator_types = ["parallel", "parallel"]} ins(%two_p, %b : tensor<16x32xf32>, tensor<32xf32>) outs(%e : tensor<16x32xf32>) {
  ^bb0(%x: f32, %y: f32, %unused: f32):
    %sum = arith.addf %x, %y : f32
    linalg.yield %sum : f32
  } -> tensor<16x32xf32>
  %across_p = linalg.matmul ins(%other, %w3 : tensor<16x8xf32>, tensor<8x32xf32>) outs(%f : tensor<16x32xf32>) -> tensor<16x32xf32>
  %across = linalg.generic {indexing_maps = [#whole, #column, #whole], iterator_types = ["parallel", "parallel"]} ins(%across_p, %b : tensor<16x32xf32>, tensor<32xf32>) outs(%e : tensor<16x32xf32>) {
  ^bb0(%x: f32, %y: f32, %unused: f32):
    %sum = arith.addf %x, %y : f32
    linalg.yield %sum : f32
  } -> tensor<16x32xf32>
  %second = linalg.generic {indexing_maps = [#whole, #whole, #whole], iterator_types = ["parallel", "parallel"]} ins(%two, %across : tensor<16x32xf32>, tensor<16x32xf32>) outs(%e : tensor<16x32xf32>) {
  ^bb0(%x: f32, %y: f32, %unused: f32):
    %sum = arith.addf %x, %y : f32
    %value = arith.maximumf %sum, %zero : f32
    linalg.yield %value : f32
  } -> tensor<16x32xf32>
  return %second : tensor<16x32xf32>
}
