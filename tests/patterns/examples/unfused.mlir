// As exporters write attention: scaled queries and keys, two products, a softmax in f32 whose maximum has an index, too.
// found: gemm_6x8x16x4_f16_f32_f16_nn gemm_6x8x16x4_f16_f32_nn
// found: attention_2x3x8x16x4_f16_bshd gemm_6x8x4x16_f16_f32_f16_nn gemm_6x8x4x16_f16_f32_nn
util.func public @main(%q: tensor<2x8x3x4xf16>, %k: tensor<2x16x3x4xf16>, %v: tensor<2x16x3x4xf16>) -> tensor<2x8x3x4xf16> {
  %half = arith.constant dense<0.70710678> : tensor<f16>
  %zero = arith.constant 0.0 : f32
  %lowest = arith.constant 0xFF800000 : f32
  %none = arith.constant 0 : i64
  %e_q = tensor.empty() : tensor<2x3x8x4xf16>
  %q1 = linalg.transpose ins(%q : tensor<2x8x3x4xf16>) outs(%e_q : tensor<2x3x8x4xf16>) permutation = [0, 2, 1, 3]
  %q2 = linalg.generic {indexing_maps = [affine_map<(a, b, c, d) -> (a, b, c, d)>, affine_map<(a, b, c, d) -> ()>,
    affine_map<(a, b, c, d) -> (a, b, c, d)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%q1, %half : tensor<2x3x8x4xf16>, tensor<f16>) outs(%e_q : tensor<2x3x8x4xf16>) {
  ^bb0(%in: f16, %by: f16, %out: f16):
    %value = arith.mulf %in, %by : f16
    linalg.yield %value : f16
  } -> tensor<2x3x8x4xf16>
  %q3 = tensor.collapse_shape %q2 [[0, 1], [2], [3]] : tensor<2x3x8x4xf16> into tensor<6x8x4xf16>
  %e_k = tensor.empty() : tensor<2x3x4x16xf16>
  %k1 = linalg.transpose ins(%k : tensor<2x16x3x4xf16>) outs(%e_k : tensor<2x3x4x16xf16>) permutation = [0, 2, 3, 1]
  %k2 = linalg.generic {indexing_maps = [affine_map<(a, b, c, d) -> (a, b, c, d)>, affine_map<(a, b, c, d) -> ()>,
    affine_map<(a, b, c, d) -> (a, b, c, d)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%k1, %half : tensor<2x3x4x16xf16>, tensor<f16>) outs(%e_k : tensor<2x3x4x16xf16>) {
  ^bb0(%in: f16, %by: f16, %out: f16):
    %value = arith.mulf %in, %by : f16
    linalg.yield %value : f16
  } -> tensor<2x3x4x16xf16>
  %k3 = tensor.collapse_shape %k2 [[0, 1], [2], [3]] : tensor<2x3x4x16xf16> into tensor<6x4x16xf16>
  %e_v = tensor.empty() : tensor<2x3x16x4xf16>
  %v1 = linalg.transpose ins(%v : tensor<2x16x3x4xf16>) outs(%e_v : tensor<2x3x16x4xf16>) permutation = [0, 2, 1, 3]
  %v2 = tensor.collapse_shape %v1 [[0, 1], [2], [3]] : tensor<2x3x16x4xf16> into tensor<6x16x4xf16>
  %e_s = tensor.empty() : tensor<6x8x16xf32>
  %s_0 = linalg.fill ins(%zero : f32) outs(%e_s : tensor<6x8x16xf32>) -> tensor<6x8x16xf32>
  %s = linalg.batch_matmul ins(%q3, %k3 : tensor<6x8x4xf16>, tensor<6x4x16xf16>) outs(%s_0 : tensor<6x8x16xf32>) -> tensor<6x8x16xf32>
  %e_n = tensor.empty() : tensor<6x8x16xf16>
  %s1 = linalg.generic {indexing_maps = [affine_map<(a, b, c) -> (a, b, c)>, affine_map<(a, b, c) -> (a, b, c)>],
    iterator_types = ["parallel", "parallel", "parallel"]} ins(%s : tensor<6x8x16xf32>) outs(%e_n : tensor<6x8x16xf16>) {
  ^bb0(%in: f32, %out: f16):
    %value = arith.truncf %in : f32 to f16
    linalg.yield %value : f16
  } -> tensor<6x8x16xf16>
  %s2 = tensor.expand_shape %s1 [[0, 1], [2], [3]] output_shape [2, 3, 8, 16] : tensor<6x8x16xf16> into tensor<2x3x8x16xf16>
  %e_x = tensor.empty() : tensor<2x3x8x16xf32>
  %x = linalg.generic {indexing_maps = [affine_map<(a, b, c, d) -> (a, b, c, d)>, affine_map<(a, b, c, d) -> (a, b, c, d)>],
    iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%s2 : tensor<2x3x8x16xf16>) outs(%e_x : tensor<2x3x8x16xf32>) {
  ^bb0(%in: f16, %out: f32):
    %value = arith.extf %in : f16 to f32
    linalg.yield %value : f32
  } -> tensor<2x3x8x16xf32>
  %e_m = tensor.empty() : tensor<2x3x8xf32>
  %m_0 = linalg.fill ins(%lowest : f32) outs(%e_m : tensor<2x3x8xf32>) -> tensor<2x3x8xf32>
  %e_i = tensor.empty() : tensor<2x3x8xi64>
  %i_0 = linalg.fill ins(%none : i64) outs(%e_i : tensor<2x3x8xi64>) -> tensor<2x3x8xi64>
  %m:2 = linalg.generic {indexing_maps = [affine_map<(a, b, c, d) -> (a, b, c, d)>, affine_map<(a, b, c, d) -> (a, b, c)>,
    affine_map<(a, b, c, d) -> (a, b, c)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
    ins(%x : tensor<2x3x8x16xf32>) outs(%m_0, %i_0 : tensor<2x3x8xf32>, tensor<2x3x8xi64>) {
  ^bb0(%in: f32, %out: f32, %at: i64):
    %place = linalg.index 3 : index
    %number = arith.index_cast %place : index to i64
    %most = arith.maximumf %in, %out : f32
    %more = arith.cmpf ogt, %in, %out : f32
    %where = arith.select %more, %number, %at : i64
    linalg.yield %most, %where : f32, i64
  } -> (tensor<2x3x8xf32>, tensor<2x3x8xi64>)
  %m1 = tensor.expand_shape %m#0 [[0], [1], [2, 3]] output_shape [2, 3, 8, 1] : tensor<2x3x8xf32> into tensor<2x3x8x1xf32>
  %d = linalg.generic {indexing_maps = [affine_map<(a, b, c, d) -> (a, b, c, d)>, affine_map<(a, b, c, d) -> (a, b, c, 0)>,
    affine_map<(a, b, c, d) -> (a, b, c, d)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%x, %m1 : tensor<2x3x8x16xf32>, tensor<2x3x8x1xf32>) outs(%e_x : tensor<2x3x8x16xf32>) {
  ^bb0(%in: f32, %less: f32, %out: f32):
    %value = arith.subf %in, %less : f32
    linalg.yield %value : f32
  } -> tensor<2x3x8x16xf32>
  %p = linalg.generic {indexing_maps = [affine_map<(a, b, c, d) -> (a, b, c, d)>, affine_map<(a, b, c, d) -> (a, b, c, d)>],
    iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%d : tensor<2x3x8x16xf32>) outs(%e_x : tensor<2x3x8x16xf32>) {
  ^bb0(%in: f32, %out: f32):
    %value = math.exp %in : f32
    linalg.yield %value : f32
  } -> tensor<2x3x8x16xf32>
  %e_t = tensor.empty() : tensor<2x3x8x1xf32>
  %t_0 = linalg.fill ins(%zero : f32) outs(%e_t : tensor<2x3x8x1xf32>) -> tensor<2x3x8x1xf32>
  %t = linalg.generic {indexing_maps = [affine_map<(a, b, c, d) -> (a, b, c, d)>, affine_map<(a, b, c, d) -> (a, b, c, 0)>],
    iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
    ins(%p : tensor<2x3x8x16xf32>) outs(%t_0 : tensor<2x3x8x1xf32>) {
  ^bb0(%in: f32, %out: f32):
    %value = arith.addf %in, %out : f32
    linalg.yield %value : f32
  } -> tensor<2x3x8x1xf32>
  %w = linalg.generic {indexing_maps = [affine_map<(a, b, c, d) -> (a, b, c, d)>, affine_map<(a, b, c, d) -> (a, b, c, 0)>,
    affine_map<(a, b, c, d) -> (a, b, c, d)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%p, %t : tensor<2x3x8x16xf32>, tensor<2x3x8x1xf32>) outs(%e_x : tensor<2x3x8x16xf32>) {
  ^bb0(%in: f32, %by: f32, %out: f32):
    %value = arith.divf %in, %by : f32
    linalg.yield %value : f32
  } -> tensor<2x3x8x16xf32>
  %e_w = tensor.empty() : tensor<2x3x8x16xf16>
  %w1 = linalg.generic {indexing_maps = [affine_map<(a, b, c, d) -> (a, b, c, d)>, affine_map<(a, b, c, d) -> (a, b, c, d)>],
    iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%w : tensor<2x3x8x16xf32>) outs(%e_w : tensor<2x3x8x16xf16>) {
  ^bb0(%in: f32, %out: f16):
    %value = arith.truncf %in : f32 to f16
    linalg.yield %value : f16
  } -> tensor<2x3x8x16xf16>
  %w2 = tensor.collapse_shape %w1 [[0, 1], [2], [3]] : tensor<2x3x8x16xf16> into tensor<6x8x16xf16>
  %e_o = tensor.empty() : tensor<6x8x4xf32>
  %o_0 = linalg.fill ins(%zero : f32) outs(%e_o : tensor<6x8x4xf32>) -> tensor<6x8x4xf32>
  %o = linalg.batch_matmul ins(%w2, %v2 : tensor<6x8x16xf16>, tensor<6x16x4xf16>) outs(%o_0 : tensor<6x8x4xf32>) -> tensor<6x8x4xf32>
  %e_r = tensor.empty() : tensor<6x8x4xf16>
  %o1 = linalg.generic {indexing_maps = [affine_map<(a, b, c) -> (a, b, c)>, affine_map<(a, b, c) -> (a, b, c)>],
    iterator_types = ["parallel", "parallel", "parallel"]} ins(%o : tensor<6x8x4xf32>) outs(%e_r : tensor<6x8x4xf16>) {
  ^bb0(%in: f32, %out: f16):
    %value = arith.truncf %in : f32 to f16
    linalg.yield %value : f16
  } -> tensor<6x8x4xf16>
  %o2 = tensor.expand_shape %o1 [[0, 1], [2], [3]] output_shape [2, 3, 8, 4] : tensor<6x8x4xf16> into tensor<2x3x8x4xf16>
  %e_h = tensor.empty() : tensor<2x8x3x4xf16>
  %made = linalg.transpose ins(%o2 : tensor<2x3x8x4xf16>) outs(%e_h : tensor<2x8x3x4xf16>) permutation = [0, 2, 1, 3]
  util.return %made : tensor<2x8x3x4xf16>
}
