// A product with a bias, three times over.
!state = tensor<8x32xf32>
func.func @main(%first: !state, %weights: tensor<32x32xf32>, %bias: tensor<32xf32>, %times: index) -> !state {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %ends, %last = scf.while (%i = %c0, %state = %first) : (index, !state) -> (index, !state) {
    %more = arith.cmpi slt, %i, %times : index
    scf.condition(%more) %i, %state : index, !state
  } do {
  ^bb0(%i: index, %state: !state):
    %moved = tensor.empty() : !state
    %begun = linalg.fill ins(%zero : f32) outs(%moved : !state) -> !state
    %product = linalg.matmul ins(%state, %weights : !state, tensor<32x32xf32>) outs(%begun : !state) -> !state
    %next = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>,
      affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%product, %bias : !state, tensor<32xf32>) outs(%moved : !state) {
    ^bb0(%p: f32, %b: f32, %o: f32):
      %s = arith.addf %p, %b : f32
      linalg.yield %s : f32
    } -> !state
    %j = arith.addi %i, %c1 : index
    scf.yield %j, %next : index, !state
  }
  return %last : !state
}
