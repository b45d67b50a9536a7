// Two products that a kernel computes, the second of what the first gives.
!lhs = tensor<64x32xf16>
!rhs = tensor<32x96xf16>
!sum = tensor<64x96xf32>
func.func @twice(%a: !lhs, %b: !rhs, %c: !rhs) -> (!sum, !sum) {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : !sum
  %fill = linalg.fill ins(%zero : f32) outs(%empty : !sum) -> !sum
  %0 = linalg.matmul ins(%a, %b : !lhs, !rhs) outs(%fill : !sum) -> !sum
  %left = tensor.extract_slice %0[0, 0] [64, 32] [1, 1] : !sum to tensor<64x32xf32>
  %to = tensor.empty() : !lhs
  %rounded = linalg.generic {
    indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]
  } ins(%left : tensor<64x32xf32>) outs(%to : !lhs) {
  ^bb0(%x: f32, %y: f16):
    %value = arith.truncf %x : f32 to f16
    linalg.yield %value : f16
  } -> !lhs
  %1 = linalg.matmul ins(%rounded, %c : !lhs, !rhs) outs(%fill : !sum) -> !sum
  return %0, %1 : !sum, !sum
}
