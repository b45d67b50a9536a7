// A recurrent network as IREE's importer writes it, with a free number of tokens.
module {
  func.func @net(%x: !torch.vtensor<[?,1,8],f32>, %w: !torch.vtensor<[1,48,8],f32>) -> !torch.vtensor<[?,1,1,16],f32> attributes {torch.onnx_meta.ir_version = 8 : si64, torch.onnx_meta.opset_version = 17 : si64} {
    %none = torch.constant.none
    %r = torch.operator "onnx.Constant"() {torch.onnx.value = dense<0.5> : tensor<1x48x16xf32>} : () -> !torch.vtensor<[1,48,16],f32>
    %b = torch.operator "onnx.Constant"() {torch.onnx.value = dense<0.5> : tensor<1x96xf32>} : () -> !torch.vtensor<[1,96],f32>
    %0 = torch.operator "onnx.Add"(%x, %x) : (!torch.vtensor<[?,1,8],f32>, !torch.vtensor<[?,1,8],f32>) -> !torch.vtensor<[?,1,8],f32>
    %1 = torch.operator "onnx.GRU"(%0, %w, %r, %b) {torch.onnx.hidden_size = 16 : si64, torch.onnx.linear_before_reset = 1 : si64} : (!torch.vtensor<[?,1,8],f32>, !torch.vtensor<[1,48,8],f32>, !torch.vtensor<[1,48,16],f32>, !torch.vtensor<[1,96],f32>) -> !torch.vtensor<[?,1,1,16],f32>
    %2 = torch.operator "onnx.Add"(%1, %1) : (!torch.vtensor<[?,1,1,16],f32>, !torch.vtensor<[?,1,1,16],f32>) -> !torch.vtensor<[?,1,1,16],f32>
    return %2 : !torch.vtensor<[?,1,1,16],f32>
  }
}
