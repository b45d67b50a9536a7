module @torch_results {
  func.func @main(%arg0: !torch.vtensor<[4,8],f32>, %arg1: !torch.vtensor<[8,6],f32>) -> (!torch.vtensor<[4,6],f32>, !torch.vtensor<[4],f32>, !torch.vtensor<[4],si64>) attributes {torch.assume_strict_symbolic_shapes} {
    %0 = torch.aten.matmul %arg0, %arg1 : !torch.vtensor<[4,8],f32>, !torch.vtensor<[8,6],f32> -> !torch.vtensor<[4,6],f32>
    %int1 = torch.constant.int 1
    %1 = torch.prim.ListConstruct %int1 : (!torch.int) -> !torch.list<int>
    %false = torch.constant.bool false
    %none = torch.constant.none
    %2 = torch.aten.sum.dim_IntList %0, %1, %false, %none : !torch.vtensor<[4,6],f32>, !torch.list<int>, !torch.bool, !torch.none -> !torch.vtensor<[4],f32>
    %int1_0 = torch.constant.int 1
    %false_1 = torch.constant.bool false
    %3 = torch.aten.argmax %0, %int1_0, %false_1 : !torch.vtensor<[4,6],f32>, !torch.int, !torch.bool -> !torch.vtensor<[4],si64>
    return %0, %2, %3 : !torch.vtensor<[4,6],f32>, !torch.vtensor<[4],f32>, !torch.vtensor<[4],si64>
  }
}
