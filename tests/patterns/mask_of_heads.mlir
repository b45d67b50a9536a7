// A mask of scores, one for each head. LAST is to be replaced by the last key that a query sees.
  %hidden = arith.constant 0xFC00 : f16
  %nothing = arith.constant 0.0 : f16
  %unmasked = tensor.empty() : tensor<2x3x8x16xf16>
  %mask = linalg.generic {
    indexing_maps = [affine_map<(b, h, i, j) -> (b, h, i, j)>],
    iterator_types = ["parallel", "parallel", "parallel", "parallel"]
  } outs(%unmasked : tensor<2x3x8x16xf16>) {
  ^bb0(%unused: f16):
    %h = linalg.index 1 : index
    %i = linalg.index 2 : index
    %j = linalg.index 3 : index
    %last = arith.addi %i, %h : index
    %seen = arith.cmpi sge, LAST, %j : index
    %score = arith.select %seen, %nothing, %hidden : f16
    linalg.yield %score : f16
  } -> tensor<2x3x8x16xf16>
