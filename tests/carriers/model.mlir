// Products that a spec finds, named and generic; a sum that goes on, another layout and a pad of ones, which it leaves.
#rows = affine_map<(i, j, k) -> (i, k)>
#columns = affine_map<(i, j, k) -> (k, j)>
#out = affine_map<(i, j, k) -> (i, j)>
!lhs = tensor<64x32xf16>
!rhs = tensor<32x96xf16>
!sum = tensor<64x96xf32>
func.func @named(%a: !lhs, %b: !rhs) -> !sum {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : !sum
  %fill = linalg.fill ins(%zero : f32) outs(%empty : !sum) -> !sum
  %0 = linalg.matmul ins(%a, %b : !lhs, !rhs) outs(%fill : !sum) -> !sum
  %1 = linalg.matmul ins(%a, %b : !lhs, !rhs) outs(%0 : !sum) -> !sum
  return %1 : !sum
}
func.func @generic(%a: !lhs, %b: !rhs) -> !sum {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : !sum
  %fill = linalg.fill ins(%zero : f32) outs(%empty : !sum) -> !sum
  %0 = linalg.generic {indexing_maps = [#rows, #columns, #out], iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%a, %b : !lhs, !rhs) outs(%fill : !sum) {
  ^bb0(%x: f16, %y: f16, %s: f32):
    %wide_x = arith.extf %x : f16 to f32
    %wide_y = arith.extf %y : f16 to f32
    %product = arith.mulf %wide_x, %wide_y : f32
    %more = arith.addf %s, %product : f32
    linalg.yield %more : f32
  } -> !sum
  return %0 : !sum
}
func.func @transposed(%a: !lhs, %b: tensor<96x32xf16>) -> !sum {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : !sum
  %fill = linalg.fill ins(%zero : f32) outs(%empty : !sum) -> !sum
  %0 = linalg.matmul indexing_maps = [#rows, affine_map<(i, j, k) -> (j, k)>, #out]
    ins(%a, %b : !lhs, tensor<96x32xf16>) outs(%fill : !sum) -> !sum
  return %0 : !sum
}
func.func @other(%image: tensor<2x8x8x16xf16>, %filter: tensor<3x3x16x32xf16>) -> tensor<2x8x8x32xf32> {
  %one = arith.constant 1.0 : f16
  %zero = arith.constant 0.0 : f32
  %padded = tensor.pad %image low[0, 1, 1, 0] high[0, 1, 1, 0] {
  ^bb0(%i: index, %j: index, %k: index, %l: index):
    tensor.yield %one : f16
  } : tensor<2x8x8x16xf16> to tensor<2x10x10x16xf16>
  %empty = tensor.empty() : tensor<2x8x8x32xf32>
  %fill = linalg.fill ins(%zero : f32) outs(%empty : tensor<2x8x8x32xf32>) -> tensor<2x8x8x32xf32>
  %0 = linalg.conv_2d_nhwc_hwcf ins(%padded, %filter : tensor<2x10x10x16xf16>, tensor<3x3x16x32xf16>)
    outs(%fill : tensor<2x8x8x32xf32>) -> tensor<2x8x8x32xf32>
  return %0 : tensor<2x8x8x32xf32>
}
