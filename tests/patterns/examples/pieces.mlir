// Products with what follows them, each to be replaced as one piece.
// found: gemm_64x96x32_f32_f32_nn_bias_relu gemm_64x96x32_f32_f32_nn_bias gemm_64x96x32_f32_f32_nn
// found: gemm_64x96x32_f32_f32_nn_bias_clip0to6 gemm_64x96x32_f32_f32_nn_bias gemm_64x96x32_f32_f32_nn
// found: gemm_64x96x32_f32_f32_nn_bias_clipm1to6 gemm_64x96x32_f32_f32_nn_bias gemm_64x96x32_f32_f32_nn
// found: gemm_64x96x32_f32_f32_nn_bias_silu gemm_64x96x32_f32_f32_nn_bias gemm_64x96x32_f32_f32_nn
// found: gemm_64x96x32_f32_f32_nn_bias_residual gemm_64x96x32_f32_f32_nn gemm_2x32x96x32_f32_f32_nn_bias_residual gemm_2x32x96x32_f32_f32_nn
// found: gemm_64x96x32_f32_f32_nn
!lhs = tensor<64x32xf32>
!rhs = tensor<32x96xf32>
!sum = tensor<64x96xf32>
!sums = tensor<2x32x96xf32>
#each = affine_map<(i, j) -> (i, j)>
#whole = affine_map<(b, i, j) -> (b, i, j)>
#matrix = affine_map<(b, i, j) -> (i, j)>
#column = affine_map<(b, i, j) -> (j)>
#none = affine_map<(i, j) -> ()>
func.func @whole(%a: !lhs, %b: !rhs, %v: tensor<96xf32>) -> !sum {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : !sum
  %start = linalg.broadcast ins(%v : tensor<96xf32>) outs(%empty : !sum) dimensions = [0]
  %0 = linalg.matmul ins(%a, %b : !lhs, !rhs) outs(%start : !sum) -> !sum
  %1 = linalg.generic {indexing_maps = [#each, #each], iterator_types = ["parallel", "parallel"]}
    ins(%0 : !sum) outs(%empty : !sum) {
  ^bb0(%in: f32, %out: f32):
    %more = arith.cmpf ugt, %in, %zero : f32
    %s = arith.select %more, %in, %zero : f32
    linalg.yield %s : f32
  } -> !sum
  return %1 : !sum
}
func.func @limited(%a: !lhs, %b: !rhs, %v: tensor<96xf32>) -> !sum {
  %low = arith.constant dense<0.0> : tensor<f32>
  %high = arith.constant dense<6.0> : tensor<f32>
  %empty = tensor.empty() : !sum
  %start = linalg.broadcast ins(%v : tensor<96xf32>) outs(%empty : !sum) dimensions = [0]
  %0 = linalg.matmul ins(%a, %b : !lhs, !rhs) outs(%start : !sum) -> !sum
  %1 = linalg.generic {indexing_maps = [#each, #none, #none, #each], iterator_types = ["parallel", "parallel"]}
    ins(%0, %low, %high : !sum, tensor<f32>, tensor<f32>) outs(%empty : !sum) {
  ^bb0(%in: f32, %least: f32, %most: f32, %out: f32):
    %less = arith.cmpf ult, %in, %least : f32
    %s = arith.select %less, %least, %in : f32
    %more = arith.cmpf ugt, %s, %most : f32
    %l = arith.select %more, %most, %s : f32
    linalg.yield %l : f32
  } -> !sum
  return %1 : !sum
}
func.func @captured(%a: !lhs, %b: !rhs, %v: tensor<96xf32>) -> !sum {
  %low = arith.constant -1.0 : f32
  %high = arith.constant 6.0 : f32
  %empty = tensor.empty() : !sum
  %start = linalg.broadcast ins(%v : tensor<96xf32>) outs(%empty : !sum) dimensions = [0]
  %0 = linalg.matmul ins(%a, %b : !lhs, !rhs) outs(%start : !sum) -> !sum
  %1 = linalg.generic {indexing_maps = [#each, #each], iterator_types = ["parallel", "parallel"]}
    ins(%0 : !sum) outs(%empty : !sum) {
  ^bb0(%in: f32, %out: f32):
    %less = arith.cmpf ult, %in, %low : f32
    %s = arith.select %less, %low, %in : f32
    %more = arith.cmpf ugt, %s, %high : f32
    %l = arith.select %more, %high, %s : f32
    linalg.yield %l : f32
  } -> !sum
  return %1 : !sum
}
func.func @activated(%a: !lhs, %b: !rhs, %v: tensor<96xf32>) -> !sum {
  %one = arith.constant 1.0 : f32
  %empty = tensor.empty() : !sum
  %start = linalg.broadcast ins(%v : tensor<96xf32>) outs(%empty : !sum) dimensions = [0]
  %0 = linalg.matmul ins(%a, %b : !lhs, !rhs) outs(%start : !sum) -> !sum
  %1 = linalg.generic {indexing_maps = [#each, #each], iterator_types = ["parallel", "parallel"]}
    ins(%0 : !sum) outs(%empty : !sum) {
  ^bb0(%in: f32, %out: f32):
    %n = arith.negf %in : f32
    %p = math.exp %n : f32
    %m = arith.addf %p, %one : f32
    %s = arith.divf %one, %m : f32
    linalg.yield %s : f32
  } -> !sum
  %2 = linalg.generic {indexing_maps = [#each, #each, #each], iterator_types = ["parallel", "parallel"]}
    ins(%0, %1 : !sum, !sum) outs(%empty : !sum) {
  ^bb0(%in: f32, %share: f32, %out: f32):
    %s = arith.mulf %in, %share : f32
    linalg.yield %s : f32
  } -> !sum
  return %2 : !sum
}
func.func @layer(%a: tensor<2x32x32xf32>, %b: !rhs, %v: tensor<96xf32>, %r: !sums) -> !sums {
  %zero = arith.constant 0.0 : f32
  %0 = tensor.empty() : tensor<2x32x96xf32>
  %copies = linalg.generic {indexing_maps = [#matrix, #whole], iterator_types = ["parallel", "parallel", "parallel"]}
    ins(%b : !rhs) outs(%0 : !sums) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> !sums
  %fill = linalg.fill ins(%zero : f32) outs(%0 : !sums) -> !sums
  %1 = linalg.batch_matmul ins(%a, %copies : tensor<2x32x32xf32>, !sums) outs(%fill : !sums) -> !sums
  %2 = linalg.generic {indexing_maps = [#whole, #column, #whole, #whole],
    iterator_types = ["parallel", "parallel", "parallel"]}
    ins(%1, %v, %r : !sums, tensor<96xf32>, !sums) outs(%0 : !sums) {
  ^bb0(%in: f32, %bias: f32, %more: f32, %out: f32):
    %s = arith.addf %in, %bias : f32
    %t = arith.addf %s, %more : f32
    linalg.yield %t : f32
  } -> !sums
  return %2 : !sums
}
func.func @bare(%a: !lhs, %b: !rhs) -> !sum {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : !sum
  %fill = linalg.fill ins(%zero : f32) outs(%empty : !sum) -> !sum
  %0 = linalg.matmul ins(%a, %b : !lhs, !rhs) outs(%fill : !sum) -> !sum
  return %0 : !sum
}
