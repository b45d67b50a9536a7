// The norm of a product's rows, as it comes from onnx.
// found: gemm_16x32x8_f16_f32_f16_nn_rms1em05 gemm_16x32x8_f16_f32_f16_nn gemm_16x32x8_f16_f32_nn_rms1em05 gemm_16x32x8_f16_f32_nn gemm_2x8x32x8_f16_f32_f16_nn gemm_2x8x32x8_f16_f32_nn
util.global private @weights = dense<[[0.75, 0.25, 0.0, -0.5, -0.375, -1.0, -0.875, -1.0, -0.75, 0.625, 0.375, 0.875, 0.0, 0.25, 1.0, 0.5, 0.25, 0.125, 0.125, 0.875, -0.5, 0.625, 0.375, -1.0, -0.25, 0.75, 0.125, -1.0, 0.625, 0.5, 0.75, -0.75], [-0.875, 0.75, -1.0, 0.125, -0.875, -0.375, 0.0, -0.125, -0.25, -1.0, -1.0, -0.75, -1.0, 0.375, 0.0, 0.375, -0.5, 0.25, 0.5, -0.25, -0.125, 1.0, 0.625, 1.0, -0.25, 0.375, 1.0, 0.375, 0.75, 0.375, 0.375, -0.25], [0.75, -0.75, 0.125, 0.5, 0.75, 0.0, -0.25, -0.375, -0.125, 0.0, 0.5, 0.875, -0.875, 0.875, 0.125, -0.25, 0.375, 0.125, -0.5, -0.375, 0.5, 0.25, 0.0, -0.375, 0.5, -0.25, -0.375, 0.875, -0.5, -0.625, 0.5, 0.25], [-1.0, -0.875, -0.25, 0.75, -0.25, 0.625, -0.375, -0.5, 0.625, 0.75, -0.875, -1.0, 0.375, -0.375, 0.125, -0.75, 0.75, -0.125, 0.875, 0.625, 0.375, -0.625, 0.625, -1.0, 0.125, -0.25, 1.0, -0.625, 1.0, -0.875, 0.25, 0.125], [0.875, -0.375, 0.875, 0.375, 0.875, -0.625, 0.5, 1.0, -1.0, -0.25, 0.25, -0.875, 0.0, 0.25, 0.5, 0.875, -0.25, -0.125, 0.0, 1.0, -0.625, 0.0, -1.0, -0.125, 1.0, 0.25, -0.375, 1.0, 0.25, 1.0, -1.0, -0.125], [0.75, 0.5, -0.25, 0.0, -0.125, 0.0, -0.625, 0.625, -0.875, -0.125, -0.5, 0.5, 0.5, 0.5, 0.875, 0.875, -0.625, -0.875, -0.75, 0.5, 1.0, 0.875, 0.375, 1.0, 0.75, -1.0, -0.75, 0.75, -0.875, 1.0, 0.75, 1.0], [-0.25, -0.75, 0.0, 1.0, -0.25, 0.875, -0.25, 0.625, -0.625, 0.0, -0.375, -0.625, 0.875, 0.625, -0.75, 0.875, 1.0, -0.5, -0.125, 0.125, 0.375, -0.125, -0.75, 0.875, 0.375, -1.0, 0.625, 0.5, -0.625, 0.25, 0.0, -1.0], [0.875, 0.5, -0.375, -1.0, -0.875, 0.5, -0.75, 0.0, 0.875, 0.875, -0.5, -0.875, 0.0, 0.75, 0.25, -0.875, 0.375, -0.375, -0.625, -0.125, 0.75, 1.0, -0.75, 0.125, 0.5, -0.5, -0.5, -0.5, -0.625, 0.875, -0.625, -0.625]]> : tensor<8x32xf16>
util.global private @scale = dense<[0.0, 0.0, 0.5, 1.0, -1.0, -0.75, 0.625, 1.0]> : tensor<8xf16>
util.global private @shift = dense<[0.75, -0.5, -0.875, -0.375, -0.125, 0.625, -0.125, -0.875]> : tensor<8xf16>
func.func @main(%x: tensor<2x8x8xf16>) -> tensor<2x8x32xf16> {
  %zero = arith.constant 0.0 : f16
  %nothing = arith.constant 0.0 : f32
  %eight = arith.constant 8.0 : f16
  %eight32 = arith.constant 8.0 : f32
  %two = arith.constant 2.0 : f32
  %eps = arith.constant 1.0e-5 : f32
  %scale = util.global.load @scale : tensor<8xf16>
  %shift = util.global.load @shift : tensor<8xf16>
  %weights = util.global.load @weights : tensor<8x32xf16>
  %wide = tensor.empty() : tensor<2x8x8xf16>
  %wide32 = tensor.empty() : tensor<2x8x8xf32>
  %one = tensor.empty() : tensor<2x8x1xf16>
  %one32 = tensor.empty() : tensor<2x8x1xf32>
  %none = linalg.fill ins(%zero : f16) outs(%one : tensor<2x8x1xf16>) -> tensor<2x8x1xf16>
  %none32 = linalg.fill ins(%nothing : f32) outs(%one32 : tensor<2x8x1xf32>) -> tensor<2x8x1xf32>
  %x32 = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, j, k)>, affine_map<(i, j, k) -> (i, j, k)>], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x : tensor<2x8x8xf16>) outs(%wide32 : tensor<2x8x8xf32>) {
  ^bb0(%a: f16, %out: f32):
    %v = arith.extf %a : f16 to f32
    linalg.yield %v : f32
  } -> tensor<2x8x8xf32>
  %squares = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, j, k)>, affine_map<(i, j, k) -> (i, j, k)>], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x32 : tensor<2x8x8xf32>) outs(%wide32 : tensor<2x8x8xf32>) {
  ^bb0(%a: f32, %out: f32):
    %v = math.powf %a, %two : f32
    linalg.yield %v : f32
  } -> tensor<2x8x8xf32>
  %sum = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, j, k)>, affine_map<(i, j, k) -> (i, j, 0)>], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%squares : tensor<2x8x8xf32>) outs(%none32 : tensor<2x8x1xf32>) {
  ^bb0(%in: f32, %out: f32):
    %v = arith.addf %in, %out : f32
    linalg.yield %v : f32
  } -> tensor<2x8x1xf32>
  %mean = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, j, k)>, affine_map<(i, j, k) -> (i, j, k)>], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%sum : tensor<2x8x1xf32>) outs(%one32 : tensor<2x8x1xf32>) {
  ^bb0(%a: f32, %out: f32):
    %v = arith.divf %a, %eight32 : f32
    linalg.yield %v : f32
  } -> tensor<2x8x1xf32>
  %root = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, j, k)>, affine_map<(i, j, k) -> (i, j, k)>], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%mean : tensor<2x8x1xf32>) outs(%one32 : tensor<2x8x1xf32>) {
  ^bb0(%a: f32, %out: f32):
    %p = arith.addf %a, %eps : f32
    %v = math.sqrt %p : f32
    linalg.yield %v : f32
  } -> tensor<2x8x1xf32>
  %normed = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, j, k)>, affine_map<(i, j, k) -> (i, j, 0)>, affine_map<(i, j, k) -> (i, j, k)>], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x32, %root : tensor<2x8x8xf32>, tensor<2x8x1xf32>) outs(%wide32 : tensor<2x8x8xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %v = arith.divf %a, %b : f32
    linalg.yield %v : f32
  } -> tensor<2x8x8xf32>
  %narrow = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, j, k)>, affine_map<(i, j, k) -> (i, j, k)>], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%normed : tensor<2x8x8xf32>) outs(%wide : tensor<2x8x8xf16>) {
  ^bb0(%a: f32, %out: f16):
    %v = arith.truncf %a : f32 to f16
    linalg.yield %v : f16
  } -> tensor<2x8x8xf16>
  %y = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (k)>, affine_map<(i, j, k) -> (i, j, k)>, affine_map<(i, j, k) -> (i, j, k)>], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%scale, %narrow : tensor<8xf16>, tensor<2x8x8xf16>) outs(%wide : tensor<2x8x8xf16>) {
  ^bb0(%a: f16, %b: f16, %out: f16):
    %v = arith.mulf %a, %b : f16
    linalg.yield %v : f16
  } -> tensor<2x8x8xf16>
  %columns = tensor.empty() : tensor<2x8x32xf16>
  %more = tensor.empty() : tensor<2x8x32xf16>
  %copies = linalg.broadcast ins(%weights : tensor<8x32xf16>) outs(%more : tensor<2x8x32xf16>) dimensions = [0]
  %sums = tensor.empty() : tensor<2x8x32xf32>
  %zeros = linalg.fill ins(%nothing : f32) outs(%sums : tensor<2x8x32xf32>) -> tensor<2x8x32xf32>
  %product = linalg.batch_matmul ins(%y, %copies : tensor<2x8x8xf16>, tensor<2x8x32xf16>)
      outs(%zeros : tensor<2x8x32xf32>) -> tensor<2x8x32xf32>
  %made = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, j, k)>, affine_map<(i, j, k) -> (i, j, k)>], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%product : tensor<2x8x32xf32>) outs(%columns : tensor<2x8x32xf16>) {
  ^bb0(%in: f32, %out: f16):
    %v = arith.truncf %in : f32 to f16
    linalg.yield %v : f16
  } -> tensor<2x8x32xf16>
  return %made : tensor<2x8x32xf16>
}
