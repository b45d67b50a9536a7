// Queries times keys, as IREE decomposes an attention: its sum stands between the loops of the result.
// found: gemm_2x8x16x4_f32_f32_nt
util.func public @main(%q: tensor<2x8x4xf32>, %k: tensor<2x16x4xf32>) -> tensor<2x8x16xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x8x16xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<2x8x16xf32>) -> tensor<2x8x16xf32>
  %s = linalg.generic {
    indexing_maps = [affine_map<(b, m, k, n) -> (b, m, k)>, affine_map<(b, m, k, n) -> (b, n, k)>,
                     affine_map<(b, m, k, n) -> (b, m, n)>],
    iterator_types = ["parallel", "parallel", "reduction", "parallel"]
  } ins(%q, %k : tensor<2x8x4xf32>, tensor<2x16x4xf32>) outs(%f : tensor<2x8x16xf32>) {
  ^bb0(%x: f32, %y: f32, %sum: f32):
    %xy = arith.mulf %x, %y : f32
    %next = arith.addf %xy, %sum : f32
    linalg.yield %next : f32
  } -> tensor<2x8x16xf32>
  util.return %s : tensor<2x8x16xf32>
}
