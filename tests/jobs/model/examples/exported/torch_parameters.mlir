module @torch_parameters {
  util.global private @__auto.up.weight = #flow.parameter.named<"model"::"up.weight"> : tensor<16x8xf32>
  util.global private @__auto.up.bias = #flow.parameter.named<"model"::"up.bias"> : tensor<16xf32>
  util.global private @__auto.down.weight = #flow.parameter.named<"model"::"down.weight"> : tensor<4x16xf32>
  util.global private @__auto.down.bias = #flow.parameter.named<"model"::"down.bias"> : tensor<4xf32>
  func.func @main(%arg0: !torch.vtensor<[4,8],f32>) -> !torch.vtensor<[4,4],f32> attributes {torch.assume_strict_symbolic_shapes} {
    %__auto.up.weight = util.global.load @__auto.up.weight : tensor<16x8xf32>
    %0 = torch_c.from_builtin_tensor %__auto.up.weight : tensor<16x8xf32> -> !torch.vtensor<[16,8],f32>
    %__auto.up.bias = util.global.load @__auto.up.bias : tensor<16xf32>
    %1 = torch_c.from_builtin_tensor %__auto.up.bias : tensor<16xf32> -> !torch.vtensor<[16],f32>
    %2 = torch.aten.linear %arg0, %0, %1 : !torch.vtensor<[4,8],f32>, !torch.vtensor<[16,8],f32>, !torch.vtensor<[16],f32> -> !torch.vtensor<[4,16],f32>
    %3 = torch.aten.relu %2 : !torch.vtensor<[4,16],f32> -> !torch.vtensor<[4,16],f32>
    %__auto.down.weight = util.global.load @__auto.down.weight : tensor<4x16xf32>
    %4 = torch_c.from_builtin_tensor %__auto.down.weight : tensor<4x16xf32> -> !torch.vtensor<[4,16],f32>
    %__auto.down.bias = util.global.load @__auto.down.bias : tensor<4xf32>
    %5 = torch_c.from_builtin_tensor %__auto.down.bias : tensor<4xf32> -> !torch.vtensor<[4],f32>
    %6 = torch.aten.linear %3, %4, %5 : !torch.vtensor<[4,16],f32>, !torch.vtensor<[4,16],f32>, !torch.vtensor<[4],f32> -> !torch.vtensor<[4,4],f32>
    return %6 : !torch.vtensor<[4,4],f32>
  }
}
