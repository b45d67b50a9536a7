// Three products, the first with bias and relu: three dispatches with three different roots.
#id = affine_map<(d0, d1) -> (d0, d1)>
#column = affine_map<(d0, d1) -> (d1)>
func.func @main(%input: tensor<64x96xf32>, %first: tensor<96x128xf32>, %bias: tensor<128xf32>, %second: tensor<128x64xf32>, %third: tensor<64x32xf32>) -> tensor<64x32xf32> {
  %zero = arith.constant 0.0 : f32
  %empty1 = tensor.empty() : tensor<64x128xf32>
  %fill1 = linalg.fill ins(%zero : f32) outs(%empty1 : tensor<64x128xf32>) -> tensor<64x128xf32>
  %product1 = linalg.matmul ins(%input, %first : tensor<64x96xf32>, tensor<96x128xf32>) outs(%fill1 : tensor<64x128xf32>) -> tensor<64x128xf32>
  %relu = linalg.generic {indexing_maps = [#id, #column, #id], iterator_types = ["parallel", "parallel"]} ins(%product1, %bias : tensor<64x128xf32>, tensor<128xf32>) outs(%empty1 : tensor<64x128xf32>) {
  ^bb0(%x: f32, %b: f32, %unused: f32):
    %sum = arith.addf %x, %b : f32
    %value = arith.maximumf %sum, %zero : f32
    linalg.yield %value : f32
  } -> tensor<64x128xf32>
  %empty2 = tensor.empty() : tensor<64x64xf32>
  %fill2 = linalg.fill ins(%zero : f32) outs(%empty2 : tensor<64x64xf32>) -> tensor<64x64xf32>
  %product2 = linalg.matmul ins(%relu, %second : tensor<64x128xf32>, tensor<128x64xf32>) outs(%fill2 : tensor<64x64xf32>) -> tensor<64x64xf32>
  %empty3 = tensor.empty() : tensor<64x32xf32>
  %fill3 = linalg.fill ins(%zero : f32) outs(%empty3 : tensor<64x32xf32>) -> tensor<64x32xf32>
  %product3 = linalg.matmul ins(%product2, %third : tensor<64x64xf32>, tensor<64x32xf32>) outs(%fill3 : tensor<64x32xf32>) -> tensor<64x32xf32>
  return %product3 : tensor<64x32xf32>
}
