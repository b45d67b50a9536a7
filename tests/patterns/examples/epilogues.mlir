// What follows a product, however it is spelt.
!t = tensor<8x16xf32>
#each = affine_map<(i, j) -> (i, j)>
#column = affine_map<(i, j) -> (j)>
#none = affine_map<(i, j) -> ()>
// found: gemm_8x16x32_f32_f32_nn_bias gemm_8x16x32_f32_f32_nn
func.func @one_bias(%a: tensor<8x32xf32>, %b: tensor<32x16xf32>, %v: tensor<16xf32>, %r: !t) -> (!t, !t) {
  %zero = arith.constant 0.0 : f32
  %six = arith.constant 6.0 : f32
  %e = tensor.empty() : !t
  %f = linalg.fill ins(%zero : f32) outs(%e : !t) -> !t
  %p = linalg.matmul ins(%a, %b : tensor<8x32xf32>, tensor<32x16xf32>) outs(%f : !t) -> !t
  %last = linalg.generic {indexing_maps = [#each, #column, #each], iterator_types = ["parallel", "parallel"]} ins(%p, %v : !t, tensor<16xf32>) outs(%e : !t) {
  ^bb0(%x: f32, %y: f32, %o: f32):
    %s = arith.addf %x, %y : f32
    linalg.yield %s : f32
  } -> !t
  return %last, %last : !t, !t
}
// found: gemm_8x16x32_f32_f32_nn_residual gemm_8x16x32_f32_f32_nn
func.func @a_residual(%a: tensor<8x32xf32>, %b: tensor<32x16xf32>, %v: tensor<16xf32>, %r: !t) -> (!t, !t) {
  %zero = arith.constant 0.0 : f32
  %six = arith.constant 6.0 : f32
  %e = tensor.empty() : !t
  %f = linalg.fill ins(%zero : f32) outs(%e : !t) -> !t
  %p = linalg.matmul ins(%a, %b : tensor<8x32xf32>, tensor<32x16xf32>) outs(%f : !t) -> !t
  %last = linalg.generic {indexing_maps = [#each, #each, #each], iterator_types = ["parallel", "parallel"]} ins(%p, %r : !t, !t) outs(%e : !t) {
  ^bb0(%x: f32, %y: f32, %o: f32):
    %s = arith.addf %y, %x : f32
    linalg.yield %s : f32
  } -> !t
  return %last, %last : !t, !t
}
// found: gemm_8x16x32_f32_f32_nn_relu gemm_8x16x32_f32_f32_nn
func.func @a_relu_by_comparison(%a: tensor<8x32xf32>, %b: tensor<32x16xf32>, %v: tensor<16xf32>, %r: !t) -> (!t, !t) {
  %zero = arith.constant 0.0 : f32
  %six = arith.constant 6.0 : f32
  %e = tensor.empty() : !t
  %f = linalg.fill ins(%zero : f32) outs(%e : !t) -> !t
  %p = linalg.matmul ins(%a, %b : tensor<8x32xf32>, tensor<32x16xf32>) outs(%f : !t) -> !t
  %last = linalg.generic {indexing_maps = [#each, #each], iterator_types = ["parallel", "parallel"]} ins(%p : !t) outs(%e : !t) {
  ^bb0(%x: f32, %o: f32):
    %c = arith.cmpf ugt, %x, %zero : f32
    %s = arith.select %c, %x, %zero : f32
    linalg.yield %s : f32
  } -> !t
  return %last, %last : !t, !t
}
// found: gemm_8x16x32_f32_f32_nn_relu gemm_8x16x32_f32_f32_nn
func.func @a_relu_by_the_other_comparison(%a: tensor<8x32xf32>, %b: tensor<32x16xf32>, %v: tensor<16xf32>, %r: !t) -> (!t, !t) {
  %zero = arith.constant 0.0 : f32
  %six = arith.constant 6.0 : f32
  %e = tensor.empty() : !t
  %f = linalg.fill ins(%zero : f32) outs(%e : !t) -> !t
  %p = linalg.matmul ins(%a, %b : tensor<8x32xf32>, tensor<32x16xf32>) outs(%f : !t) -> !t
  %last = linalg.generic {indexing_maps = [#each, #each], iterator_types = ["parallel", "parallel"]} ins(%p : !t) outs(%e : !t) {
  ^bb0(%x: f32, %o: f32):
    %c = arith.cmpf olt, %x, %zero : f32
    %s = arith.select %c, %zero, %x : f32
    linalg.yield %s : f32
  } -> !t
  return %last, %last : !t, !t
}
// found: gemm_8x16x32_f32_f32_nn_residual_relu gemm_8x16x32_f32_f32_nn
func.func @all_of_it_in_one(%a: tensor<8x32xf32>, %b: tensor<32x16xf32>, %v: tensor<16xf32>, %r: !t) -> (!t, !t) {
  %zero = arith.constant 0.0 : f32
  %six = arith.constant 6.0 : f32
  %e = tensor.empty() : !t
  %f = linalg.fill ins(%zero : f32) outs(%e : !t) -> !t
  %p = linalg.matmul ins(%a, %b : tensor<8x32xf32>, tensor<32x16xf32>) outs(%f : !t) -> !t
  %last = linalg.generic {indexing_maps = [#each, #each, #each], iterator_types = ["parallel", "parallel"]} ins(%p, %r : !t, !t) outs(%e : !t) {
  ^bb0(%x: f32, %y: f32, %o: f32):
    %m = arith.addf %x, %y : f32
    %s = arith.maximumf %m, %zero : f32
    linalg.yield %s : f32
  } -> !t
  return %last, %last : !t, !t
}
// found: gemm_8x16x32_f32_f32_nn_bias_relu gemm_8x16x32_f32_f32_nn_bias gemm_8x16x32_f32_f32_nn
func.func @one_after_the_other(%a: tensor<8x32xf32>, %b: tensor<32x16xf32>, %v: tensor<16xf32>, %r: !t) -> (!t, !t) {
  %zero = arith.constant 0.0 : f32
  %six = arith.constant 6.0 : f32
  %e = tensor.empty() : !t
  %f = linalg.fill ins(%zero : f32) outs(%e : !t) -> !t
  %p = linalg.matmul ins(%a, %b : tensor<8x32xf32>, tensor<32x16xf32>) outs(%f : !t) -> !t
  %one = linalg.generic {indexing_maps = [#each, #column, #each], iterator_types = ["parallel", "parallel"]} ins(%p, %v : !t, tensor<16xf32>) outs(%e : !t) {
  ^bb0(%x: f32, %y: f32, %o: f32):
    %s = arith.addf %x, %y : f32
    linalg.yield %s : f32
  } -> !t
  %last = linalg.generic {indexing_maps = [#each, #each], iterator_types = ["parallel", "parallel"]} ins(%one : !t) outs(%e : !t) {
  ^bb0(%x: f32, %o: f32):
    %c = arith.cmpf ugt, %x, %zero : f32
    %s = arith.select %c, %x, %zero : f32
    linalg.yield %s : f32
  } -> !t
  return %last, %last : !t, !t
}
// found: gemm_8x16x32_f32_f32_nn_clipto6 gemm_8x16x32_f32_f32_nn
func.func @a_clip_at_a_number_that_nothing_else_has(%a: tensor<8x32xf32>, %b: tensor<32x16xf32>, %v: tensor<16xf32>, %r: !t) -> (!t, !t) {
  %zero = arith.constant 0.0 : f32
  %six = arith.constant 6.0 : f32
  %e = tensor.empty() : !t
  %f = linalg.fill ins(%zero : f32) outs(%e : !t) -> !t
  %p = linalg.matmul ins(%a, %b : tensor<8x32xf32>, tensor<32x16xf32>) outs(%f : !t) -> !t
  %last = linalg.generic {indexing_maps = [#each, #each], iterator_types = ["parallel", "parallel"]} ins(%p : !t) outs(%e : !t) {
  ^bb0(%x: f32, %o: f32):
    %s = arith.minimumf %x, %six : f32
    linalg.yield %s : f32
  } -> !t
  return %last, %last : !t, !t
}
// found: gemm_8x16x32_f32_f32_nn_clip0to6 gemm_8x16x32_f32_f32_nn
func.func @limits_that_are_tensors_without_dimensions(%a: tensor<8x32xf32>, %b: tensor<32x16xf32>, %v: tensor<16xf32>, %r: !t) -> (!t, !t) {
  %zero = arith.constant 0.0 : f32
  %six = arith.constant 6.0 : f32
  %e = tensor.empty() : !t
  %f = linalg.fill ins(%zero : f32) outs(%e : !t) -> !t
  %p = linalg.matmul ins(%a, %b : tensor<8x32xf32>, tensor<32x16xf32>) outs(%f : !t) -> !t
  %low = arith.constant dense<0.0> : tensor<f32>
  %high = arith.constant dense<6.0> : tensor<f32>
  %given = tensor.empty() : tensor<f32>
  %last = linalg.generic {indexing_maps = [#each, #none, #none, #each], iterator_types = ["parallel", "parallel"]} ins(%p, %low, %high : !t, tensor<f32>, tensor<f32>) outs(%e : !t) {
  ^bb0(%x: f32, %l: f32, %h: f32, %o: f32):
    %m = arith.maximumf %x, %l : f32
    %s = arith.minimumf %m, %h : f32
    linalg.yield %s : f32
  } -> !t
  return %last, %last : !t, !t
}
// found: gemm_8x16x32_f32_f32_nn
func.func @a_limit_that_is_not_known(%a: tensor<8x32xf32>, %b: tensor<32x16xf32>, %v: tensor<16xf32>, %r: !t) -> (!t, !t) {
  %zero = arith.constant 0.0 : f32
  %six = arith.constant 6.0 : f32
  %e = tensor.empty() : !t
  %f = linalg.fill ins(%zero : f32) outs(%e : !t) -> !t
  %p = linalg.matmul ins(%a, %b : tensor<8x32xf32>, tensor<32x16xf32>) outs(%f : !t) -> !t
  %low = arith.constant dense<0.0> : tensor<f32>
  %high = arith.constant dense<6.0> : tensor<f32>
  %given = tensor.empty() : tensor<f32>
  %last = linalg.generic {indexing_maps = [#each, #none, #none, #each], iterator_types = ["parallel", "parallel"]} ins(%p, %low, %given : !t, tensor<f32>, tensor<f32>) outs(%e : !t) {
  ^bb0(%x: f32, %l: f32, %h: f32, %o: f32):
    %m = arith.maximumf %x, %l : f32
    %s = arith.minimumf %m, %h : f32
    linalg.yield %s : f32
  } -> !t
  return %last, %last : !t, !t
}
// found: gemm_8x16x32_f32_f32_nn_clipto0 gemm_8x16x32_f32_f32_nn
func.func @a_minimum_where_a_relu_would_be(%a: tensor<8x32xf32>, %b: tensor<32x16xf32>, %v: tensor<16xf32>, %r: !t) -> (!t, !t) {
  %zero = arith.constant 0.0 : f32
  %six = arith.constant 6.0 : f32
  %e = tensor.empty() : !t
  %f = linalg.fill ins(%zero : f32) outs(%e : !t) -> !t
  %p = linalg.matmul ins(%a, %b : tensor<8x32xf32>, tensor<32x16xf32>) outs(%f : !t) -> !t
  %last = linalg.generic {indexing_maps = [#each, #each], iterator_types = ["parallel", "parallel"]} ins(%p : !t) outs(%e : !t) {
  ^bb0(%x: f32, %o: f32):
    %c = arith.cmpf ugt, %x, %zero : f32
    %s = arith.select %c, %zero, %x : f32
    linalg.yield %s : f32
  } -> !t
  return %last, %last : !t, !t
}
// found: gemm_8x16x32_f32_f32_nn_bias gemm_8x16x32_f32_f32_nn
func.func @two_biases(%a: tensor<8x32xf32>, %b: tensor<32x16xf32>, %v: tensor<16xf32>, %r: !t) -> (!t, !t) {
  %zero = arith.constant 0.0 : f32
  %six = arith.constant 6.0 : f32
  %e = tensor.empty() : !t
  %f = linalg.fill ins(%zero : f32) outs(%e : !t) -> !t
  %p = linalg.matmul ins(%a, %b : tensor<8x32xf32>, tensor<32x16xf32>) outs(%f : !t) -> !t
  %one = linalg.generic {indexing_maps = [#each, #column, #each], iterator_types = ["parallel", "parallel"]} ins(%p, %v : !t, tensor<16xf32>) outs(%e : !t) {
  ^bb0(%x: f32, %y: f32, %o: f32):
    %s = arith.addf %x, %y : f32
    linalg.yield %s : f32
  } -> !t
  %last = linalg.generic {indexing_maps = [#each, #column, #each], iterator_types = ["parallel", "parallel"]} ins(%one, %v : !t, tensor<16xf32>) outs(%e : !t) {
  ^bb0(%x: f32, %y: f32, %o: f32):
    %s = arith.addf %x, %y : f32
    linalg.yield %s : f32
  } -> !t
  return %last, %last : !t, !t
}
// found: gemm_8x16x32_f32_f32_nn_relu gemm_8x16x32_f32_f32_nn
func.func @a_bias_behind_a_relu(%a: tensor<8x32xf32>, %b: tensor<32x16xf32>, %v: tensor<16xf32>, %r: !t) -> (!t, !t) {
  %zero = arith.constant 0.0 : f32
  %six = arith.constant 6.0 : f32
  %e = tensor.empty() : !t
  %f = linalg.fill ins(%zero : f32) outs(%e : !t) -> !t
  %p = linalg.matmul ins(%a, %b : tensor<8x32xf32>, tensor<32x16xf32>) outs(%f : !t) -> !t
  %one = linalg.generic {indexing_maps = [#each, #each], iterator_types = ["parallel", "parallel"]} ins(%p : !t) outs(%e : !t) {
  ^bb0(%x: f32, %o: f32):
    %c = arith.cmpf ugt, %x, %zero : f32
    %s = arith.select %c, %x, %zero : f32
    linalg.yield %s : f32
  } -> !t
  %last = linalg.generic {indexing_maps = [#each, #column, #each], iterator_types = ["parallel", "parallel"]} ins(%one, %v : !t, tensor<16xf32>) outs(%e : !t) {
  ^bb0(%x: f32, %y: f32, %o: f32):
    %s = arith.addf %x, %y : f32
    linalg.yield %s : f32
  } -> !t
  return %last, %last : !t, !t
}
// found: gemm_8x16x32_f32_f32_nn
func.func @something_else(%a: tensor<8x32xf32>, %b: tensor<32x16xf32>, %v: tensor<16xf32>, %r: !t) -> (!t, !t) {
  %zero = arith.constant 0.0 : f32
  %six = arith.constant 6.0 : f32
  %e = tensor.empty() : !t
  %f = linalg.fill ins(%zero : f32) outs(%e : !t) -> !t
  %p = linalg.matmul ins(%a, %b : tensor<8x32xf32>, tensor<32x16xf32>) outs(%f : !t) -> !t
  %last = linalg.generic {indexing_maps = [#each, #each], iterator_types = ["parallel", "parallel"]} ins(%p : !t) outs(%e : !t) {
  ^bb0(%x: f32, %o: f32):
    %s = math.exp %x : f32
    linalg.yield %s : f32
  } -> !t
  return %last, %last : !t, !t
}
// found: gemm_8x16x32_f32_f32_nn_gelu gemm_8x16x32_f32_f32_nn
func.func @a_gelu_in_one(%a: tensor<8x32xf32>, %b: tensor<32x16xf32>, %v: tensor<16xf32>, %r: !t) -> (!t, !t) {
  %zero = arith.constant 0.0 : f32
  %six = arith.constant 6.0 : f32
  %e = tensor.empty() : !t
  %f = linalg.fill ins(%zero : f32) outs(%e : !t) -> !t
  %p = linalg.matmul ins(%a, %b : tensor<8x32xf32>, tensor<32x16xf32>) outs(%f : !t) -> !t
  %last = linalg.generic {indexing_maps = [#each, #each], iterator_types = ["parallel", "parallel"]} ins(%p : !t) outs(%e : !t) {
  ^bb0(%x: f32, %o: f32):
    %k = arith.constant 1.41421354 : f32
    %d = arith.divf %x, %k : f32
    %e1 = math.erf %d : f32
    %one1 = arith.constant 1.0 : f32
    %half = arith.constant 0.5 : f32
    %m = arith.addf %e1, %one1 : f32
    %h = arith.mulf %x, %half : f32
    %s = arith.mulf %h, %m : f32
    linalg.yield %s : f32
  } -> !t
  return %last, %last : !t, !t
}
// found: gemm_8x16x32_f32_f32_nn_gelu gemm_8x16x32_f32_f32_nn
func.func @a_gelu_by_a_product(%a: tensor<8x32xf32>, %b: tensor<32x16xf32>, %v: tensor<16xf32>, %r: !t) -> (!t, !t) {
  %zero = arith.constant 0.0 : f32
  %six = arith.constant 6.0 : f32
  %e = tensor.empty() : !t
  %f = linalg.fill ins(%zero : f32) outs(%e : !t) -> !t
  %p = linalg.matmul ins(%a, %b : tensor<8x32xf32>, tensor<32x16xf32>) outs(%f : !t) -> !t
  %last = linalg.generic {indexing_maps = [#each, #each], iterator_types = ["parallel", "parallel"]} ins(%p : !t) outs(%e : !t) {
  ^bb0(%x: f32, %o: f32):
    %k = arith.constant 0.707106769 : f32
    %d = arith.mulf %x, %k : f32
    %e1 = math.erf %d : f32
    %one1 = arith.constant 1.0 : f32
    %half = arith.constant 0.5 : f32
    %m = arith.addf %e1, %one1 : f32
    %h = arith.mulf %x, %half : f32
    %s = arith.mulf %h, %m : f32
    linalg.yield %s : f32
  } -> !t
  return %last, %last : !t, !t
}
// found: gemm_8x16x32_f32_f32_nn
func.func @a_gelu_with_another_constant(%a: tensor<8x32xf32>, %b: tensor<32x16xf32>, %v: tensor<16xf32>, %r: !t) -> (!t, !t) {
  %zero = arith.constant 0.0 : f32
  %six = arith.constant 6.0 : f32
  %e = tensor.empty() : !t
  %f = linalg.fill ins(%zero : f32) outs(%e : !t) -> !t
  %p = linalg.matmul ins(%a, %b : tensor<8x32xf32>, tensor<32x16xf32>) outs(%f : !t) -> !t
  %last = linalg.generic {indexing_maps = [#each, #each], iterator_types = ["parallel", "parallel"]} ins(%p : !t) outs(%e : !t) {
  ^bb0(%x: f32, %o: f32):
    %k = arith.constant 1.41421366 : f32
    %d = arith.divf %x, %k : f32
    %e1 = math.erf %d : f32
    %one1 = arith.constant 1.0 : f32
    %half = arith.constant 0.5 : f32
    %m = arith.addf %e1, %one1 : f32
    %h = arith.mulf %x, %half : f32
    %s = arith.mulf %h, %m : f32
    linalg.yield %s : f32
  } -> !t
  return %last, %last : !t, !t
}
// found: gemm_8x16x32_f32_f32_nn_tanhgelu gemm_8x16x32_f32_f32_nn
func.func @a_gelu_by_tanh(%a: tensor<8x32xf32>, %b: tensor<32x16xf32>, %v: tensor<16xf32>, %r: !t) -> (!t, !t) {
  %zero = arith.constant 0.0 : f32
  %six = arith.constant 6.0 : f32
  %e = tensor.empty() : !t
  %f = linalg.fill ins(%zero : f32) outs(%e : !t) -> !t
  %p = linalg.matmul ins(%a, %b : tensor<8x32xf32>, tensor<32x16xf32>) outs(%f : !t) -> !t
  %last = linalg.generic {indexing_maps = [#each, #each], iterator_types = ["parallel", "parallel"]} ins(%p : !t) outs(%e : !t) {
  ^bb0(%x: f32, %o: f32):
    %three = arith.constant 3 : i64
    %q = math.fpowi %x, %three : f32, i64
    %k = arith.constant 0.044715 : f32
    %f1 = arith.constant 0.797884583 : f32
    %c = arith.mulf %q, %k : f32
    %d = arith.addf %x, %c : f32
    %t = arith.mulf %d, %f1 : f32
    %u = math.tanh %t : f32
    %one1 = arith.constant 1.0 : f32
    %half = arith.constant 0.5 : f32
    %m = arith.addf %u, %one1 : f32
    %h = arith.mulf %m, %half : f32
    %s = arith.mulf %x, %h : f32
    linalg.yield %s : f32
  } -> !t
  return %last, %last : !t, !t
}
// found: gemm_8x16x32_f32_f32_nn_importedgelu gemm_8x16x32_f32_f32_nn
func.func @a_gelu_by_tanh_as_importers_write_it(%a: tensor<8x32xf32>, %b: tensor<32x16xf32>, %v: tensor<16xf32>, %r: !t) -> (!t, !t) {
  %zero = arith.constant 0.0 : f32
  %six = arith.constant 6.0 : f32
  %e = tensor.empty() : !t
  %f = linalg.fill ins(%zero : f32) outs(%e : !t) -> !t
  %p = linalg.matmul ins(%a, %b : tensor<8x32xf32>, tensor<32x16xf32>) outs(%f : !t) -> !t
  %last = linalg.generic {indexing_maps = [#each, #each], iterator_types = ["parallel", "parallel"]} ins(%p : !t) outs(%e : !t) {
  ^bb0(%x: f32, %o: f32):
    %three = arith.constant 3 : i64
    %q = math.fpowi %x, %three : f32, i64
    %k = arith.constant 0.044715 : f32
    %f1 = arith.constant 0.797724 : f32
    %c = arith.mulf %q, %k : f32
    %d = arith.addf %x, %c : f32
    %t = arith.mulf %d, %f1 : f32
    %u = math.tanh %t : f32
    %one1 = arith.constant 1.0 : f32
    %half = arith.constant 0.5 : f32
    %m = arith.addf %u, %one1 : f32
    %h = arith.mulf %m, %half : f32
    %s = arith.mulf %x, %h : f32
    linalg.yield %s : f32
  } -> !t
  return %last, %last : !t, !t
}
// found: gemm_8x16x32_f32_f32_nn
func.func @a_gelu_by_tanh_with_another_constant(%a: tensor<8x32xf32>, %b: tensor<32x16xf32>, %v: tensor<16xf32>, %r: !t) -> (!t, !t) {
  %zero = arith.constant 0.0 : f32
  %six = arith.constant 6.0 : f32
  %e = tensor.empty() : !t
  %f = linalg.fill ins(%zero : f32) outs(%e : !t) -> !t
  %p = linalg.matmul ins(%a, %b : tensor<8x32xf32>, tensor<32x16xf32>) outs(%f : !t) -> !t
  %last = linalg.generic {indexing_maps = [#each, #each], iterator_types = ["parallel", "parallel"]} ins(%p : !t) outs(%e : !t) {
  ^bb0(%x: f32, %o: f32):
    %three = arith.constant 3 : i64
    %q = math.fpowi %x, %three : f32, i64
    %k = arith.constant 0.044715 : f32
    %f1 = arith.constant 0.7979 : f32
    %c = arith.mulf %q, %k : f32
    %d = arith.addf %x, %c : f32
    %t = arith.mulf %d, %f1 : f32
    %u = math.tanh %t : f32
    %one1 = arith.constant 1.0 : f32
    %half = arith.constant 0.5 : f32
    %m = arith.addf %u, %one1 : f32
    %h = arith.mulf %m, %half : f32
    %s = arith.mulf %x, %h : f32
    linalg.yield %s : f32
  } -> !t
  return %last, %last : !t, !t
}
// found: gemm_8x16x32_f32_f32_nn_silu gemm_8x16x32_f32_f32_nn
func.func @a_silu_in_two(%a: tensor<8x32xf32>, %b: tensor<32x16xf32>, %v: tensor<16xf32>, %r: !t) -> (!t, !t) {
  %zero = arith.constant 0.0 : f32
  %six = arith.constant 6.0 : f32
  %e = tensor.empty() : !t
  %f = linalg.fill ins(%zero : f32) outs(%e : !t) -> !t
  %p = linalg.matmul ins(%a, %b : tensor<8x32xf32>, tensor<32x16xf32>) outs(%f : !t) -> !t
  %one = linalg.generic {indexing_maps = [#each, #each], iterator_types = ["parallel", "parallel"]} ins(%p : !t) outs(%e : !t) {
  ^bb0(%x: f32, %o: f32):
    %one1 = arith.constant 1.0 : f32
    %n = arith.negf %x : f32
    %e1 = math.exp %n : f32
    %d = arith.addf %e1, %one1 : f32
    %s = arith.divf %one1, %d : f32
    linalg.yield %s : f32
  } -> !t
  %last = linalg.generic {indexing_maps = [#each, #each, #each], iterator_types = ["parallel", "parallel"]} ins(%p, %one : !t, !t) outs(%e : !t) {
  ^bb0(%x: f32, %y: f32, %o: f32):
    %s = arith.mulf %x, %y : f32
    linalg.yield %s : f32
  } -> !t
  return %last, %last : !t, !t
}
// found: gemm_8x16x32_f32_f32_nn_bias_sigmoid gemm_8x16x32_f32_f32_nn_bias gemm_8x16x32_f32_f32_nn
func.func @a_sigmoid_behind_a_bias(%a: tensor<8x32xf32>, %b: tensor<32x16xf32>, %v: tensor<16xf32>, %r: !t) -> (!t, !t) {
  %zero = arith.constant 0.0 : f32
  %six = arith.constant 6.0 : f32
  %e = tensor.empty() : !t
  %f = linalg.fill ins(%zero : f32) outs(%e : !t) -> !t
  %p = linalg.matmul ins(%a, %b : tensor<8x32xf32>, tensor<32x16xf32>) outs(%f : !t) -> !t
  %one = linalg.generic {indexing_maps = [#each, #column, #each], iterator_types = ["parallel", "parallel"]} ins(%p, %v : !t, tensor<16xf32>) outs(%e : !t) {
  ^bb0(%x: f32, %y: f32, %o: f32):
    %s = arith.addf %x, %y : f32
    linalg.yield %s : f32
  } -> !t
  %last = linalg.generic {indexing_maps = [#each, #each], iterator_types = ["parallel", "parallel"]} ins(%one : !t) outs(%e : !t) {
  ^bb0(%x: f32, %o: f32):
    %one1 = arith.constant 1.0 : f32
    %n = arith.negf %x : f32
    %e1 = math.exp %n : f32
    %d = arith.addf %e1, %one1 : f32
    %s = arith.divf %one1, %d : f32
    linalg.yield %s : f32
  } -> !t
  return %last, %last : !t, !t
}
// found: gemm_8x16x32_f32_f32_nn_hardswish gemm_8x16x32_f32_f32_nn
func.func @a_hardswish_in_five(%a: tensor<8x32xf32>, %b: tensor<32x16xf32>, %v: tensor<16xf32>, %r: !t) -> (!t, !t) {
  %zero = arith.constant 0.0 : f32
  %six = arith.constant 6.0 : f32
  %e = tensor.empty() : !t
  %f = linalg.fill ins(%zero : f32) outs(%e : !t) -> !t
  %p = linalg.matmul ins(%a, %b : tensor<8x32xf32>, tensor<32x16xf32>) outs(%f : !t) -> !t
  %one = linalg.generic {indexing_maps = [#each, #each], iterator_types = ["parallel", "parallel"]} ins(%p : !t) outs(%e : !t) {
  ^bb0(%x: f32, %o: f32):
    %k = arith.constant 3.0 : f32
    %s = arith.addf %x, %k : f32
    linalg.yield %s : f32
  } -> !t
  %two = linalg.generic {indexing_maps = [#each, #each], iterator_types = ["parallel", "parallel"]} ins(%one : !t) outs(%e : !t) {
  ^bb0(%x: f32, %o: f32):
    %c = arith.cmpf ugt, %x, %zero : f32
    %s = arith.select %c, %x, %zero : f32
    linalg.yield %s : f32
  } -> !t
  %four = linalg.generic {indexing_maps = [#each, #each], iterator_types = ["parallel", "parallel"]} ins(%two : !t) outs(%e : !t) {
  ^bb0(%x: f32, %o: f32):
    %k = arith.constant 6.0 : f32
    %s = arith.minimumf %x, %k : f32
    linalg.yield %s : f32
  } -> !t
  %five = linalg.generic {indexing_maps = [#each, #each], iterator_types = ["parallel", "parallel"]} ins(%four : !t) outs(%e : !t) {
  ^bb0(%x: f32, %o: f32):
    %k = arith.constant 6.0 : f32
    %s = arith.divf %x, %k : f32
    linalg.yield %s : f32
  } -> !t
  %last = linalg.generic {indexing_maps = [#each, #each, #each], iterator_types = ["parallel", "parallel"]} ins(%five, %p : !t, !t) outs(%e : !t) {
  ^bb0(%x: f32, %y: f32, %o: f32):
    %s = arith.mulf %x, %y : f32
    linalg.yield %s : f32
  } -> !t
  return %last, %last : !t, !t
}
// found: gemm_8x16x32_f32_f32_nn
func.func @a_hardswish_up_to_another_number(%a: tensor<8x32xf32>, %b: tensor<32x16xf32>, %v: tensor<16xf32>, %r: !t) -> (!t, !t) {
  %zero = arith.constant 0.0 : f32
  %six = arith.constant 6.0 : f32
  %e = tensor.empty() : !t
  %f = linalg.fill ins(%zero : f32) outs(%e : !t) -> !t
  %p = linalg.matmul ins(%a, %b : tensor<8x32xf32>, tensor<32x16xf32>) outs(%f : !t) -> !t
  %one = linalg.generic {indexing_maps = [#each, #each], iterator_types = ["parallel", "parallel"]} ins(%p : !t) outs(%e : !t) {
  ^bb0(%x: f32, %o: f32):
    %k = arith.constant 3.0 : f32
    %s = arith.addf %x, %k : f32
    linalg.yield %s : f32
  } -> !t
  %two = linalg.generic {indexing_maps = [#each, #each], iterator_types = ["parallel", "parallel"]} ins(%one : !t) outs(%e : !t) {
  ^bb0(%x: f32, %o: f32):
    %c = arith.cmpf ugt, %x, %zero : f32
    %s = arith.select %c, %x, %zero : f32
    linalg.yield %s : f32
  } -> !t
  %four = linalg.generic {indexing_maps = [#each, #each], iterator_types = ["parallel", "parallel"]} ins(%two : !t) outs(%e : !t) {
  ^bb0(%x: f32, %o: f32):
    %k = arith.constant 6.1 : f32
    %s = arith.minimumf %x, %k : f32
    linalg.yield %s : f32
  } -> !t
  %five = linalg.generic {indexing_maps = [#each, #each], iterator_types = ["parallel", "parallel"]} ins(%four : !t) outs(%e : !t) {
  ^bb0(%x: f32, %o: f32):
    %k = arith.constant 6.0 : f32
    %s = arith.divf %x, %k : f32
    linalg.yield %s : f32
  } -> !t
  %last = linalg.generic {indexing_maps = [#each, #each, #each], iterator_types = ["parallel", "parallel"]} ins(%five, %p : !t, !t) outs(%e : !t) {
  ^bb0(%x: f32, %y: f32, %o: f32):
    %s = arith.mulf %x, %y : f32
    linalg.yield %s : f32
  } -> !t
  return %last, %last : !t, !t
}
// found: gemm_8x16x32_f32_f32_nn
func.func @a_product_with_a_residual(%a: tensor<8x32xf32>, %b: tensor<32x16xf32>, %v: tensor<16xf32>, %r: !t) -> (!t, !t) {
  %zero = arith.constant 0.0 : f32
  %six = arith.constant 6.0 : f32
  %e = tensor.empty() : !t
  %f = linalg.fill ins(%zero : f32) outs(%e : !t) -> !t
  %p = linalg.matmul ins(%a, %b : tensor<8x32xf32>, tensor<32x16xf32>) outs(%f : !t) -> !t
  %last = linalg.generic {indexing_maps = [#each, #each, #each], iterator_types = ["parallel", "parallel"]} ins(%p, %r : !t, !t) outs(%e : !t) {
  ^bb0(%x: f32, %y: f32, %o: f32):
    %s = arith.mulf %x, %y : f32
    linalg.yield %s : f32
  } -> !t
  return %last, %last : !t, !t
}
// found: gemm_8x16x32_f32_f32_nn
func.func @a_product_that_is_a_result_too(%a: tensor<8x32xf32>, %b: tensor<32x16xf32>, %v: tensor<16xf32>, %r: !t) -> (!t, !t) {
  %zero = arith.constant 0.0 : f32
  %six = arith.constant 6.0 : f32
  %e = tensor.empty() : !t
  %f = linalg.fill ins(%zero : f32) outs(%e : !t) -> !t
  %p = linalg.matmul ins(%a, %b : tensor<8x32xf32>, tensor<32x16xf32>) outs(%f : !t) -> !t
  %last = linalg.generic {indexing_maps = [#each, #column, #each], iterator_types = ["parallel", "parallel"]} ins(%p, %v : !t, tensor<16xf32>) outs(%e : !t) {
  ^bb0(%x: f32, %y: f32, %o: f32):
    %s = arith.addf %x, %y : f32
    linalg.yield %s : f32
  } -> !t
  return %last, %p : !t, !t
}
// found: gemm_8x16x32_f32_f32_nn
func.func @a_product_that_starts_from_sixes(%a: tensor<8x32xf32>, %b: tensor<32x16xf32>, %v: tensor<16xf32>, %r: !t) -> (!t, !t) {
  %zero = arith.constant 0.0 : f32
  %six = arith.constant 6.0 : f32
  %e = tensor.empty() : !t
  %f = linalg.fill ins(%six : f32) outs(%e : !t) -> !t
  %p = linalg.matmul ins(%a, %b : tensor<8x32xf32>, tensor<32x16xf32>) outs(%f : !t) -> !t
  %last = linalg.generic {indexing_maps = [#each, #column, #each], iterator_types = ["parallel", "parallel"]} ins(%p, %v : !t, tensor<16xf32>) outs(%e : !t) {
  ^bb0(%x: f32, %y: f32, %o: f32):
    %s = arith.addf %x, %y : f32
    linalg.yield %s : f32
  } -> !t
  return %last, %last : !t, !t
}
// found: gemm_8x16x32_f32_f32_nn_bias_residual gemm_8x16x32_f32_f32_nn_residual gemm_8x16x32_f32_f32_nn
func.func @a_residual_before_a_bias(%a: tensor<8x32xf32>, %b: tensor<32x16xf32>, %v: tensor<16xf32>, %r: !t) -> (!t, !t) {
  %zero = arith.constant 0.0 : f32
  %six = arith.constant 6.0 : f32
  %e = tensor.empty() : !t
  %f = linalg.fill ins(%zero : f32) outs(%e : !t) -> !t
  %p = linalg.matmul ins(%a, %b : tensor<8x32xf32>, tensor<32x16xf32>) outs(%f : !t) -> !t
  %one = linalg.generic {indexing_maps = [#each, #each, #each], iterator_types = ["parallel", "parallel"]} ins(%p, %r : !t, !t) outs(%e : !t) {
  ^bb0(%x: f32, %y: f32, %o: f32):
    %s = arith.addf %y, %x : f32
    linalg.yield %s : f32
  } -> !t
  %last = linalg.generic {indexing_maps = [#each, #column, #each], iterator_types = ["parallel", "parallel"]} ins(%one, %v : !t, tensor<16xf32>) outs(%e : !t) {
  ^bb0(%x: f32, %y: f32, %o: f32):
    %s = arith.addf %x, %y : f32
    linalg.yield %s : f32
  } -> !t
  return %last, %last : !t, !t
}
