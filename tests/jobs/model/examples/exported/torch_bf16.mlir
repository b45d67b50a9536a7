module @torch_bf16 {
  func.func @main(%arg0: !torch.vtensor<[4,8],bf16>, %arg1: !torch.vtensor<[8,6],bf16>) -> !torch.vtensor<[4,6],bf16> attributes {torch.assume_strict_symbolic_shapes} {
    %0 = torch.aten.matmul %arg0, %arg1 : !torch.vtensor<[4,8],bf16>, !torch.vtensor<[8,6],bf16> -> !torch.vtensor<[4,6],bf16>
    %str = torch.constant.str "none"
    %1 = torch.aten.gelu %0, %str : !torch.vtensor<[4,6],bf16>, !torch.str -> !torch.vtensor<[4,6],bf16>
    return %1 : !torch.vtensor<[4,6],bf16>
  }
}
