// Both results are written into storage that the caller gives; one input is not read, a number stands between others.
module @stored {
  func.func @main(
      %sums: tensor<?xf32> {iree.abi.output = 1 : index}, %input: tensor<?x96xf32>, %scale: f32,
      %unread: tensor<?x7xi64>, %weight: tensor<96x128xf32>,
      %product: tensor<?x128xf32> {iree.abi.output = 0 : index}) -> (tensor<?x128xf32>, tensor<?xf32>, f32) {
    %zero = arith.constant 0.0 : f32
    %c0 = arith.constant 0 : index
    %rows = tensor.dim %input, %c0 : tensor<?x96xf32>
    %empty = tensor.empty(%rows) : tensor<?x128xf32>
    %fill = linalg.fill ins(%zero : f32) outs(%empty : tensor<?x128xf32>) -> tensor<?x128xf32>
    %matmul = linalg.matmul ins(%input, %weight : tensor<?x96xf32>, tensor<96x128xf32>) outs(%fill : tensor<?x128xf32>) -> tensor<?x128xf32>
    %row = tensor.empty(%rows) : tensor<?xf32>
    %none = linalg.fill ins(%zero : f32) outs(%row : tensor<?xf32>) -> tensor<?xf32>
    %sum = linalg.generic {
      indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>],
      iterator_types = ["parallel", "reduction"]
    } ins(%matmul : tensor<?x128xf32>) outs(%none : tensor<?xf32>) {
    ^bb0(%one: f32, %others: f32):
      %scaled = arith.mulf %one, %scale : f32
      %more = arith.addf %scaled, %others : f32
      linalg.yield %more : f32
    } -> tensor<?xf32>
    %double = arith.addf %scale, %scale : f32
    return %matmul, %sum, %double : tensor<?x128xf32>, tensor<?xf32>, f32
  }
}
