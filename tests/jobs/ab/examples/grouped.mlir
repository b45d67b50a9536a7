// Two convolutions with batch norms, as IREE's importer of ONNX writes them, and what adds both; the first is grouped and
// begins with a bias.
!out = tensor<1x4x8x8xf32>
!channels = tensor<1x4x1x1xf32>
func.func @main(%x: tensor<1x3x9x9xf32>) -> !out {
  %zero = arith.constant 0.0 : f32
  %w = arith.constant dense<"0x000080bf3c1b75bf78366abfb4515fbff06c54bf2c8849bf67a33ebfa3be33bfdfd928bf1bf51dbf571013bf932b08bf9e8dfabe16c4e4be8efacebe0531b9be7d67a3bef59d8dbedaa86fbeca1544beb98218be52dfd9bd31b982bd414caebc414cae3c31b9823d52dfd93db982183eca15443edaa86f3ef59d8d3e7d67a33e0531b93e8eface3e16c4e43e9e8dfa3e932b083f5710133f1bf51d3fdfd9283fa3be333f67a33e3f2c88493ff06c543fb4515f3f78366a3f3c1b753f0000803f"> : tensor<4x3x2x2xf32>
  %turned = arith.constant dense<"0x000000406dd4f73fdaa8ef3f477de73fb451df3f2126d73f8eface3ffbcec63f67a3be3fd477b63f414cae3fae20a63f1bf59d3f88c9953ff59d8d3f6272853f9e8d7a3f78366a3f52df593f2c88493f0531393fdfd9283fb982183f932b083fdaa8ef3e8eface3e414cae3ef59d8d3e52df593eb982183e414cae3d414cae3c414c2ebd52dfd9bd414c2ebedaa86fbeb98298be0531b9be52dfd9be9e8dfabef59d0dbf1bf51dbf414c2ebf67a33ebf8efa4ebfb4515fbfdaa86fbf000080bf"> : tensor<4x3x2x2xf32>
  %mean = arith.constant dense<[[[[0.5]], [[-0.25]], [[0.125]], [[1.0]]]]> : !channels
  %gamma = arith.constant dense<[[[[1.5]], [[0.5]], [[-2.0]], [[1.0]]]]> : !channels
  %beta = arith.constant dense<[[[[0.1]], [[0.2]], [[0.3]], [[0.4]]]]> : !channels
  %variance = arith.constant dense<[[[[4.0]], [[2.0]], [[1.0]], [[0.5]]]]> : !channels
  %vectors = tensor.empty() : !channels
  %root = linalg.generic {indexing_maps = [affine_map<(a, b, c, d) -> (a, b, c, d)>,
    affine_map<(a, b, c, d) -> (a, b, c, d)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%variance : !channels) outs(%vectors : !channels) {
  ^bb0(%v: f32, %o: f32):
    %r = math.rsqrt %v : f32
    linalg.yield %r : f32
  } -> !channels
  %empty = tensor.empty() : !out
  %fill = linalg.fill ins(%zero : f32) outs(%empty : !out) -> !out
  %first = arith.constant dense<[1.0, -1.0, 0.5, 0.25]> : tensor<4xf32>
  %third = tensor.extract_slice %x[0, 0, 0, 0] [1, 1, 9, 9] [1, 1, 1, 1] : tensor<1x3x9x9xf32> to tensor<1x1x9x9xf32>
  %four = tensor.concat dim(1) %x, %third : (tensor<1x3x9x9xf32>, tensor<1x1x9x9xf32>) -> tensor<1x4x9x9xf32>
  %image = tensor.expand_shape %four [[0], [1, 2], [3], [4]] output_shape [1, 2, 2, 9, 9]
    : tensor<1x4x9x9xf32> into tensor<1x2x2x9x9xf32>
  %some = tensor.extract_slice %w[0, 0, 0, 0] [4, 2, 2, 2] [1, 1, 1, 1] : tensor<4x3x2x2xf32> to tensor<4x2x2x2xf32>
  %filters = tensor.expand_shape %some [[0, 1], [2], [3], [4]] output_shape [2, 2, 2, 2, 2]
    : tensor<4x2x2x2xf32> into tensor<2x2x2x2x2xf32>
  %copies = linalg.broadcast ins(%first : tensor<4xf32>) outs(%empty : !out) dimensions = [0, 2, 3]
  %start = tensor.expand_shape %copies [[0], [1, 2], [3], [4]] output_shape [1, 2, 2, 8, 8]
    : !out into tensor<1x2x2x8x8xf32>
  %sums = linalg.conv_2d_ngchw_gfchw {dilations = dense<1> : vector<2xi64>, strides = dense<1> : vector<2xi64>}
    ins(%image, %filters : tensor<1x2x2x9x9xf32>, tensor<2x2x2x2x2xf32>)
    outs(%start : tensor<1x2x2x8x8xf32>) -> tensor<1x2x2x8x8xf32>
  %a = tensor.collapse_shape %sums [[0], [1, 2], [3], [4]] : tensor<1x2x2x8x8xf32> into !out
  %na_0 = linalg.generic {indexing_maps = [affine_map<(n, c, h, w) -> (n, c, h, w)>, affine_map<(n, c, h, w) -> (n, c, 0, 0)>, affine_map<(n, c, h, w) -> (n, c, h, w)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%a, %mean : !out, !channels) outs(%empty : !out) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %z = arith.subf %p, %q : f32
    linalg.yield %z : f32
  } -> !out
  %na_1 = linalg.generic {indexing_maps = [affine_map<(n, c, h, w) -> (n, c, h, w)>, affine_map<(n, c, h, w) -> (n, c, 0, 0)>, affine_map<(n, c, h, w) -> (n, c, h, w)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%na_0, %root : !out, !channels) outs(%empty : !out) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %z = arith.mulf %p, %q : f32
    linalg.yield %z : f32
  } -> !out
  %na_2 = linalg.generic {indexing_maps = [affine_map<(n, c, h, w) -> (n, c, h, w)>, affine_map<(n, c, h, w) -> (n, c, 0, 0)>, affine_map<(n, c, h, w) -> (n, c, h, w)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%na_1, %gamma : !out, !channels) outs(%empty : !out) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %z = arith.mulf %p, %q : f32
    linalg.yield %z : f32
  } -> !out
  %na = linalg.generic {indexing_maps = [affine_map<(n, c, h, w) -> (n, c, h, w)>, affine_map<(n, c, h, w) -> (n, c, 0, 0)>, affine_map<(n, c, h, w) -> (n, c, h, w)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%na_2, %beta : !out, !channels) outs(%empty : !out) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %z = arith.addf %p, %q : f32
    linalg.yield %z : f32
  } -> !out
  %b = linalg.conv_2d_nchw_fchw {dilations = dense<1> : vector<2xi64>, strides = dense<1> : vector<2xi64>}
    ins(%x, %turned : tensor<1x3x9x9xf32>, tensor<4x3x2x2xf32>) outs(%fill : !out) -> !out
  %nb_0 = linalg.generic {indexing_maps = [affine_map<(n, c, h, w) -> (n, c, h, w)>, affine_map<(n, c, h, w) -> (n, c, 0, 0)>, affine_map<(n, c, h, w) -> (n, c, h, w)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%b, %mean : !out, !channels) outs(%empty : !out) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %z = arith.subf %p, %q : f32
    linalg.yield %z : f32
  } -> !out
  %nb_1 = linalg.generic {indexing_maps = [affine_map<(n, c, h, w) -> (n, c, h, w)>, affine_map<(n, c, h, w) -> (n, c, 0, 0)>, affine_map<(n, c, h, w) -> (n, c, h, w)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%nb_0, %root : !out, !channels) outs(%empty : !out) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %z = arith.mulf %p, %q : f32
    linalg.yield %z : f32
  } -> !out
  %nb_2 = linalg.generic {indexing_maps = [affine_map<(n, c, h, w) -> (n, c, h, w)>, affine_map<(n, c, h, w) -> (n, c, 0, 0)>, affine_map<(n, c, h, w) -> (n, c, h, w)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%nb_1, %gamma : !out, !channels) outs(%empty : !out) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %z = arith.mulf %p, %q : f32
    linalg.yield %z : f32
  } -> !out
  %nb = linalg.generic {indexing_maps = [affine_map<(n, c, h, w) -> (n, c, h, w)>, affine_map<(n, c, h, w) -> (n, c, 0, 0)>, affine_map<(n, c, h, w) -> (n, c, h, w)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%nb_2, %beta : !out, !channels) outs(%empty : !out) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %z = arith.addf %p, %q : f32
    linalg.yield %z : f32
  } -> !out
  %last = linalg.generic {indexing_maps = [affine_map<(a, b, c, d) -> (a, b, c, d)>,
    affine_map<(a, b, c, d) -> (a, b, c, d)>, affine_map<(a, b, c, d) -> (a, b, c, d)>],
    iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%na, %nb : !out, !out) outs(%empty : !out) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %s = arith.addf %l, %r : f32
    %m = arith.maximumf %s, %zero : f32
    linalg.yield %m : f32
  } -> !out
  return %last : !out
}
