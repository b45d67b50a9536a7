module @torch_int4 {
  util.global private @__auto.packed = #flow.parameter.named<"model"::"packed"> : tensor<16x16xi8>
  util.global private @__auto.zeros = #flow.parameter.named<"model"::"zeros"> : tensor<16x4x1xf32>
  util.global private @__auto.scales = #flow.parameter.named<"model"::"scales"> : tensor<16x4x1xf32>
  func.func @main(%arg0: !torch.vtensor<[4,32],f32>) -> !torch.vtensor<[4,16],f32> attributes {torch.assume_strict_symbolic_shapes} {
    %__auto.packed = util.global.load @__auto.packed : tensor<16x16xi8>
    %0 = torch_c.from_builtin_tensor %__auto.packed : tensor<16x16xi8> -> !torch.vtensor<[16,16],ui8>
    %int15 = torch.constant.int 15
    %1 = torch.aten.__and__.Scalar %0, %int15 : !torch.vtensor<[16,16],ui8>, !torch.int -> !torch.vtensor<[16,16],ui8>
    %int4 = torch.constant.int 4
    %2 = torch.aten.__rshift__.Scalar %0, %int4 : !torch.vtensor<[16,16],ui8>, !torch.int -> !torch.vtensor<[16,16],ui8>
    %3 = torch.prim.ListConstruct %1, %2 : (!torch.vtensor<[16,16],ui8>, !torch.vtensor<[16,16],ui8>) -> !torch.list<vtensor>
    %int-1 = torch.constant.int -1
    %4 = torch.aten.stack %3, %int-1 : !torch.list<vtensor>, !torch.int -> !torch.vtensor<[16,16,2],ui8>
    %int16 = torch.constant.int 16
    %int4_0 = torch.constant.int 4
    %int8 = torch.constant.int 8
    %5 = torch.prim.ListConstruct %int16, %int4_0, %int8 : (!torch.int, !torch.int, !torch.int) -> !torch.list<int>
    %6 = torch.aten.reshape %4, %5 : !torch.vtensor<[16,16,2],ui8>, !torch.list<int> -> !torch.vtensor<[16,4,8],ui8>
    %none = torch.constant.none
    %none_1 = torch.constant.none
    %int0 = torch.constant.int 0
    %cpu = torch.constant.device "cpu"
    %int0_2 = torch.constant.int 0
    torch.aten._assert_tensor_metadata %6, %none, %none_1, %int0, %cpu, %int0_2 : !torch.vtensor<[16,4,8],ui8>, !torch.none, !torch.none, !torch.int, !torch.Device, !torch.int
    %int6 = torch.constant.int 6
    %false = torch.constant.bool false
    %false_3 = torch.constant.bool false
    %none_4 = torch.constant.none
    %7 = torch.aten.to.dtype %6, %int6, %false, %false_3, %none_4 : !torch.vtensor<[16,4,8],ui8>, !torch.int, !torch.bool, !torch.bool, !torch.none -> !torch.vtensor<[16,4,8],f32>
    %__auto.zeros = util.global.load @__auto.zeros : tensor<16x4x1xf32>
    %8 = torch_c.from_builtin_tensor %__auto.zeros : tensor<16x4x1xf32> -> !torch.vtensor<[16,4,1],f32>
    %int1 = torch.constant.int 1
    %9 = torch.aten.sub.Tensor %7, %8, %int1 : !torch.vtensor<[16,4,8],f32>, !torch.vtensor<[16,4,1],f32>, !torch.int -> !torch.vtensor<[16,4,8],f32>
    %__auto.scales = util.global.load @__auto.scales : tensor<16x4x1xf32>
    %10 = torch_c.from_builtin_tensor %__auto.scales : tensor<16x4x1xf32> -> !torch.vtensor<[16,4,1],f32>
    %11 = torch.aten.mul.Tensor %9, %10 : !torch.vtensor<[16,4,8],f32>, !torch.vtensor<[16,4,1],f32> -> !torch.vtensor<[16,4,8],f32>
    %int16_5 = torch.constant.int 16
    %int32 = torch.constant.int 32
    %12 = torch.prim.ListConstruct %int16_5, %int32 : (!torch.int, !torch.int) -> !torch.list<int>
    %13 = torch.aten.reshape %11, %12 : !torch.vtensor<[16,4,8],f32>, !torch.list<int> -> !torch.vtensor<[16,32],f32>
    %14 = torch.aten.numpy_T %13 : !torch.vtensor<[16,32],f32> -> !torch.vtensor<[32,16],f32>
    %15 = torch.aten.matmul %arg0, %14 : !torch.vtensor<[4,32],f32>, !torch.vtensor<[32,16],f32> -> !torch.vtensor<[4,16],f32>
    return %15 : !torch.vtensor<[4,16],f32>
  }
}
