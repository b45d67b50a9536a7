// Gathers data[index], after a loop of `count` steps whose end nobody can foresee: by its inputs it is right, hangs or crashes.
func.func @main(%count: tensor<1xi32>, %index: tensor<4xi32>, %data: tensor<4xf32>) -> tensor<4xf32> {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %first = tensor.extract %count[%zero] : tensor<1xi32>
  %steps = arith.index_cast %first : i32 to index
  %factor = arith.constant 1103515245 : i32
  %far = arith.constant 31 : i32
  %last = scf.for %i = %zero to %steps step %one iter_args(%x = %first) -> i32 {
    %y = arith.muli %x, %factor : i32
    scf.yield %y : i32
  }
  %even = arith.shrui %last, %far : i32
  %float = arith.sitofp %even : i32 to f32
  %empty = tensor.empty() : tensor<4xf32>
  %result = linalg.generic {
    indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]
  } ins(%index : tensor<4xi32>) outs(%empty : tensor<4xf32>) {
  ^bb0(%i: i32, %o: f32):
    %at = arith.index_cast %i : i32 to index
    %value = tensor.extract %data[%at] : tensor<4xf32>
    %sum = arith.addf %value, %float : f32
    linalg.yield %sum : f32
  } -> tensor<4xf32>
  return %result : tensor<4xf32>
}
