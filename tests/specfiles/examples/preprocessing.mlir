// A spec that calls a function in the place of products. PASS is to be replaced by what it does before.
module attributes {transform.with_named_sequence} {
  util.func private @called(%a: tensor<1xf32>) -> tensor<1xf32> {
    util.return %a : tensor<1xf32>
  }
  transform.named_sequence @match(%op: !transform.any_op {transform.readonly}) -> !transform.any_op {
    transform.match.operation_name %op ["linalg.matmul"] : !transform.any_op
    transform.yield %op : !transform.any_op
  }
  transform.named_sequence @call(%op: !transform.any_op {transform.readonly}) {
    %m = transform.util.get_nearest_symbol_table %op : (!transform.any_op) -> !transform.any_op
    %f = transform.util.import_symbol @called into %m if undefined : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
  transform.named_sequence @__transform_main(%module: !transform.any_op) {
    PASS
    transform.foreach_match in %module @match -> @call : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
}
