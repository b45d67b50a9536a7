// A layer as torch has it in f16: the product is rounded, then bias and residual are added.
// found: gemm_8x16x32_f16_f32_f16_nn_bias_residual gemm_8x16x32_f16_f32_f16_nn_bias gemm_8x16x32_f16_f32_f16_nn gemm_8x16x32_f16_f32_nn
!wide = tensor<8x16xf32>
!t = tensor<8x16xf16>
func.func @main(%a: tensor<8x32xf16>, %b: tensor<32x16xf16>, %v: tensor<16xf16>, %r: !t) -> !t {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : !wide
  %f = linalg.fill ins(%zero : f32) outs(%e : !wide) -> !wide
  %p = linalg.matmul ins(%a, %b : tensor<8x32xf16>, tensor<32x16xf16>) outs(%f : !wide) -> !wide
  %n = tensor.empty() : !t
  %rounded = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
    ins(%p : !wide) outs(%n : !t) {
  ^bb0(%x: f32, %o: f16):
    %s = arith.truncf %x : f32 to f16
    linalg.yield %s : f16
  } -> !t
  %biased = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
    ins(%rounded, %v : !t, tensor<16xf16>) outs(%n : !t) {
  ^bb0(%x: f16, %y: f16, %o: f16):
    %s = arith.addf %x, %y : f16
    linalg.yield %s : f16
  } -> !t
  %last = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
    ins(%biased, %r : !t, !t) outs(%n : !t) {
  ^bb0(%x: f16, %y: f16, %o: f16):
    %s = arith.addf %y, %x : f16
    linalg.yield %s : f16
  } -> !t
  return %last : !t
}
