// As torch exports it: silu(gate(x)) * up(x).
// found: gemm_16x64x8_f16_f32_f16_nn_silu_gated gemm_16x64x8_f16_f32_f16_nn gemm_16x64x8_f16_f32_nn
util.global private @weights_gate = dense<[[0.75, 0.25, 0.0, -0.5, -0.375, -1.0, -0.875, -1.0], [-0.75, 0.625, 0.375, 0.875, 0.0, 0.25, 1.0, 0.5], [0.25, 0.125, 0.125, 0.875, -0.5, 0.625, 0.375, -1.0], [-0.25, 0.75, 0.125, -1.0, 0.625, 0.5, 0.75, -0.75], [-0.875, 0.75, -1.0, 0.125, -0.875, -0.375, 0.0, -0.125], [-0.25, -1.0, -1.0, -0.75, -1.0, 0.375, 0.0, 0.375], [-0.5, 0.25, 0.5, -0.25, -0.125, 1.0, 0.625, 1.0], [-0.25, 0.375, 1.0, 0.375, 0.75, 0.375, 0.375, -0.25], [0.75, -0.75, 0.125, 0.5, 0.75, 0.0, -0.25, -0.375], [-0.125, 0.0, 0.5, 0.875, -0.875, 0.875, 0.125, -0.25], [0.375, 0.125, -0.5, -0.375, 0.5, 0.25, 0.0, -0.375], [0.5, -0.25, -0.375, 0.875, -0.5, -0.625, 0.5, 0.25], [-1.0, -0.875, -0.25, 0.75, -0.25, 0.625, -0.375, -0.5], [0.625, 0.75, -0.875, -1.0, 0.375, -0.375, 0.125, -0.75], [0.75, -0.125, 0.875, 0.625, 0.375, -0.625, 0.625, -1.0], [0.125, -0.25, 1.0, -0.625, 1.0, -0.875, 0.25, 0.125], [0.875, -0.375, 0.875, 0.375, 0.875, -0.625, 0.5, 1.0], [-1.0, -0.25, 0.25, -0.875, 0.0, 0.25, 0.5, 0.875], [-0.25, -0.125, 0.0, 1.0, -0.625, 0.0, -1.0, -0.125], [1.0, 0.25, -0.375, 1.0, 0.25, 1.0, -1.0, -0.125], [0.75, 0.5, -0.25, 0.0, -0.125, 0.0, -0.625, 0.625], [-0.875, -0.125, -0.5, 0.5, 0.5, 0.5, 0.875, 0.875], [-0.625, -0.875, -0.75, 0.5, 1.0, 0.875, 0.375, 1.0], [0.75, -1.0, -0.75, 0.75, -0.875, 1.0, 0.75, 1.0], [-0.25, -0.75, 0.0, 1.0, -0.25, 0.875, -0.25, 0.625], [-0.625, 0.0, -0.375, -0.625, 0.875, 0.625, -0.75, 0.875], [1.0, -0.5, -0.125, 0.125, 0.375, -0.125, -0.75, 0.875], [0.375, -1.0, 0.625, 0.5, -0.625, 0.25, 0.0, -1.0], [0.875, 0.5, -0.375, -1.0, -0.875, 0.5, -0.75, 0.0], [0.875, 0.875, -0.5, -0.875, 0.0, 0.75, 0.25, -0.875], [0.375, -0.375, -0.625, -0.125, 0.75, 1.0, -0.75, 0.125], [0.5, -0.5, -0.5, -0.5, -0.625, 0.875, -0.625, -0.625]]> : tensor<32x8xf16>
util.global private @weights_up = dense<[[0.0, 0.0, 0.5, 1.0, -1.0, -0.75, 0.625, 1.0], [-0.5, -0.375, 0.75, -0.125, -0.5, 0.75, -0.5, -0.25], [0.25, 0.125, -0.875, -1.0, 0.75, 0.5, 0.75, 0.125], [0.625, -0.375, -0.125, 0.625, -0.75, -0.375, -0.75, -0.125], [1.0, -0.75, -0.25, -0.25, 0.875, -0.625, 0.0, -0.5], [-1.0, 0.5, -0.875, -0.5, 0.0, 0.0, -0.875, 1.0], [0.5, 1.0, -0.875, 0.5, -0.5, 0.125, 0.875, -0.5], [0.5, -0.75, -0.375, 1.0, -0.125, 0.0, -0.5, -0.875], [-0.125, 0.25, -0.125, 0.625, -0.25, 0.25, 0.625, 0.875], [-0.125, -1.0, 0.5, 0.0, 0.75, -0.125, -0.25, -0.875], [-0.125, 0.25, 0.625, 0.75, -0.625, 0.25, 0.625, -0.5], [-0.375, 0.75, 0.125, 0.0, 0.375, 0.0, 1.0, 0.5], [-1.0, -0.75, 0.125, 0.625, -0.875, 0.375, 0.5, 0.625], [0.75, -0.625, 0.125, 0.625, -0.25, -0.625, 0.0, -0.875], [-0.625, 0.75, 0.375, 0.75, 0.75, 0.75, -0.375, 0.0], [0.25, -0.5, 0.875, -1.0, 0.75, 0.25, -0.5, 0.5], [-0.125, 0.75, 1.0, -0.5, -0.125, -0.625, 0.375, 0.25], [0.75, 0.625, 1.0, 1.0, 0.875, -0.75, -1.0, 0.0], [-0.375, 0.875, 0.625, -0.125, 0.125, 0.25, 0.875, -1.0], [0.0, 0.375, -0.125, 0.875, 1.0, 0.75, -0.125, 0.875], [-0.875, 0.375, -0.5, -0.5, 0.375, 0.625, 0.875, -0.625], [0.75, 0.75, -0.375, -0.875, 0.625, 0.75, -0.125, -0.75], [-0.75, -0.25, 0.5, -0.375, -1.0, 0.375, 0.5, -0.625], [0.125, -0.25, 0.0, -1.0, 0.25, -0.5, 0.125, -0.125], [0.25, -0.875, -0.25, 0.25, 0.625, -0.25, -1.0, 0.5], [0.0, 0.375, -0.75, -0.125, 0.875, 0.75, -0.375, 0.25], [-0.875, 0.625, -0.5, -0.375, 1.0, 0.125, 0.75, -0.625], [0.5, 1.0, -0.875, -0.5, -0.75, -0.5, -0.375, -0.875], [0.875, -0.5, 0.875, 0.5, -0.75, 0.375, 0.625, -0.75], [-0.75, -0.25, -0.875, -0.125, 0.0, 0.375, 0.125, -0.125], [-0.625, 0.125, -0.125, 0.75, 0.375, 0.5, 0.125, -0.25], [-0.5, -0.125, 0.125, -0.25, -0.75, -0.875, -1.0, -0.625]]> : tensor<32x8xf16>
func.func @main(%x: tensor<2x8x8xf16>) -> tensor<2x8x32xf16> {
  %one = arith.constant 1.0 : f16
  %nothing = arith.constant 0.0 : f32
  %sums = tensor.empty() : tensor<2x8x32xf32>
  %e832 = tensor.empty() : tensor<8x32xf16>
  %e2832 = tensor.empty() : tensor<2x8x32xf16>
  %zeros = linalg.fill ins(%nothing : f32) outs(%sums : tensor<2x8x32xf32>) -> tensor<2x8x32xf32>
  %weights_gate = util.global.load @weights_gate : tensor<32x8xf16>
  %turned_gate = linalg.transpose ins(%weights_gate : tensor<32x8xf16>) outs(%e832 : tensor<8x32xf16>)
      permutation = [1, 0]
  %copies_gate = linalg.broadcast ins(%turned_gate : tensor<8x32xf16>) outs(%e2832 : tensor<2x8x32xf16>)
      dimensions = [0]
  %product_gate = linalg.batch_matmul ins(%x, %copies_gate : tensor<2x8x8xf16>, tensor<2x8x32xf16>)
      outs(%zeros : tensor<2x8x32xf32>) -> tensor<2x8x32xf32>
  %gate = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, j, k)>, affine_map<(i, j, k) -> (i, j, k)>], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%product_gate : tensor<2x8x32xf32>) outs(%e2832 : tensor<2x8x32xf16>) {
  ^bb0(%in: f32, %out: f16):
    %narrow = arith.truncf %in : f32 to f16
    linalg.yield %narrow : f16
  } -> tensor<2x8x32xf16>
  %weights_up = util.global.load @weights_up : tensor<32x8xf16>
  %turned_up = linalg.transpose ins(%weights_up : tensor<32x8xf16>) outs(%e832 : tensor<8x32xf16>)
      permutation = [1, 0]
  %copies_up = linalg.broadcast ins(%turned_up : tensor<8x32xf16>) outs(%e2832 : tensor<2x8x32xf16>)
      dimensions = [0]
  %product_up = linalg.batch_matmul ins(%x, %copies_up : tensor<2x8x8xf16>, tensor<2x8x32xf16>)
      outs(%zeros : tensor<2x8x32xf32>) -> tensor<2x8x32xf32>
  %up = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, j, k)>, affine_map<(i, j, k) -> (i, j, k)>], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%product_up : tensor<2x8x32xf32>) outs(%e2832 : tensor<2x8x32xf16>) {
  ^bb0(%in: f32, %out: f16):
    %narrow = arith.truncf %in : f32 to f16
    linalg.yield %narrow : f16
  } -> tensor<2x8x32xf16>
  %bent = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, j, k)>, affine_map<(i, j, k) -> (i, j, k)>], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%gate : tensor<2x8x32xf16>) outs(%e2832 : tensor<2x8x32xf16>) {
  ^bb0(%in: f16, %out: f16):
    %negative = arith.negf %in : f16
    %power = math.exp %negative : f16
    %more = arith.addf %power, %one : f16
    %share = arith.divf %one, %more : f16
    linalg.yield %share : f16
  } -> tensor<2x8x32xf16>
  %silu = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, j, k)>, affine_map<(i, j, k) -> (i, j, k)>, affine_map<(i, j, k) -> (i, j, k)>], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%bent, %gate : tensor<2x8x32xf16>, tensor<2x8x32xf16>) outs(%e2832 : tensor<2x8x32xf16>) {
  ^bb0(%in: f16, %other: f16, %out: f16):
    %value = arith.mulf %in, %other : f16
    linalg.yield %value : f16
  } -> tensor<2x8x32xf16>
  %made = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, j, k)>, affine_map<(i, j, k) -> (i, j, k)>, affine_map<(i, j, k) -> (i, j, k)>], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%silu, %up : tensor<2x8x32xf16>, tensor<2x8x32xf16>) outs(%e2832 : tensor<2x8x32xf16>) {
  ^bb0(%in: f16, %other: f16, %out: f16):
    %value = arith.mulf %in, %other : f16
    linalg.yield %value : f16
  } -> tensor<2x8x32xf16>
  return %made : tensor<2x8x32xf16>
}
