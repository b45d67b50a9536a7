module @torch_causal {
  func.func @causal_flag(%arg0: !torch.vtensor<[1,2,8,4],f16>, %arg1: !torch.vtensor<[1,2,8,4],f16>, %arg2: !torch.vtensor<[1,2,8,4],f16>) -> !torch.vtensor<[1,2,8,4],f16> attributes {torch.assume_strict_symbolic_shapes} {
    %none = torch.constant.none
    %float0.000000e00 = torch.constant.float 0.000000e+00
    %true = torch.constant.bool true
    %none_0 = torch.constant.none
    %false = torch.constant.bool false
    %0 = torch.aten.scaled_dot_product_attention %arg0, %arg1, %arg2, %none, %float0.000000e00, %true, %none_0, %false : !torch.vtensor<[1,2,8,4],f16>, !torch.vtensor<[1,2,8,4],f16>, !torch.vtensor<[1,2,8,4],f16>, !torch.none, !torch.float, !torch.bool, !torch.none, !torch.bool -> !torch.vtensor<[1,2,8,4],f16>
    return %0 : !torch.vtensor<[1,2,8,4],f16>
  }
  func.func @causal_ones(%arg0: !torch.vtensor<[1,2,8,4],f16>, %arg1: !torch.vtensor<[1,2,8,4],f16>, %arg2: !torch.vtensor<[1,2,8,4],f16>) -> !torch.vtensor<[1,2,8,4],f16> attributes {torch.assume_strict_symbolic_shapes} {
    %int8 = torch.constant.int 8
    %int8_0 = torch.constant.int 8
    %0 = torch.prim.ListConstruct %int8, %int8_0 : (!torch.int, !torch.int) -> !torch.list<int>
    %int11 = torch.constant.int 11
    %none = torch.constant.none
    %cpu = torch.constant.device "cpu"
    %false = torch.constant.bool false
    %1 = torch.aten.ones %0, %int11, %none, %cpu, %false : !torch.list<int>, !torch.int, !torch.none, !torch.Device, !torch.bool -> !torch.vtensor<[8,8],i1>
    %int0 = torch.constant.int 0
    %2 = torch.aten.tril %1, %int0 : !torch.vtensor<[8,8],i1>, !torch.int -> !torch.vtensor<[8,8],i1>
    %int1 = torch.constant.int 1
    %int2 = torch.constant.int 2
    %int8_1 = torch.constant.int 8
    %int8_2 = torch.constant.int 8
    %3 = torch.prim.ListConstruct %int1, %int2, %int8_1, %int8_2 : (!torch.int, !torch.int, !torch.int, !torch.int) -> !torch.list<int>
    %false_3 = torch.constant.bool false
    %4 = torch.aten.expand %2, %3, %false_3 : !torch.vtensor<[8,8],i1>, !torch.list<int>, !torch.bool -> !torch.vtensor<[1,2,8,8],i1>
    %float0.000000e00 = torch.constant.float 0.000000e+00
    %false_4 = torch.constant.bool false
    %none_5 = torch.constant.none
    %false_6 = torch.constant.bool false
    %5 = torch.aten.scaled_dot_product_attention %arg0, %arg1, %arg2, %4, %float0.000000e00, %false_4, %none_5, %false_6 : !torch.vtensor<[1,2,8,4],f16>, !torch.vtensor<[1,2,8,4],f16>, !torch.vtensor<[1,2,8,4],f16>, !torch.vtensor<[1,2,8,8],i1>, !torch.float, !torch.bool, !torch.none, !torch.bool -> !torch.vtensor<[1,2,8,4],f16>
    return %5 : !torch.vtensor<[1,2,8,4],f16>
  }
  func.func @causal_cut(%arg0: !torch.vtensor<[1,2,8,4],f16>, %arg1: !torch.vtensor<[1,2,8,4],f16>, %arg2: !torch.vtensor<[1,2,8,4],f16>) -> !torch.vtensor<[1,2,8,4],f16> attributes {torch.assume_strict_symbolic_shapes} {
    %int16 = torch.constant.int 16
    %int16_0 = torch.constant.int 16
    %0 = torch.prim.ListConstruct %int16, %int16_0 : (!torch.int, !torch.int) -> !torch.list<int>
    %int11 = torch.constant.int 11
    %none = torch.constant.none
    %cpu = torch.constant.device "cpu"
    %false = torch.constant.bool false
    %1 = torch.aten.ones %0, %int11, %none, %cpu, %false : !torch.list<int>, !torch.int, !torch.none, !torch.Device, !torch.bool -> !torch.vtensor<[16,16],i1>
    %int0 = torch.constant.int 0
    %2 = torch.aten.tril %1, %int0 : !torch.vtensor<[16,16],i1>, !torch.int -> !torch.vtensor<[16,16],i1>
    %int0_1 = torch.constant.int 0
    %int0_2 = torch.constant.int 0
    %int8 = torch.constant.int 8
    %int1 = torch.constant.int 1
    %3 = torch.aten.slice.Tensor %2, %int0_1, %int0_2, %int8, %int1 : !torch.vtensor<[16,16],i1>, !torch.int, !torch.int, !torch.int, !torch.int -> !torch.vtensor<[8,16],i1>
    %int1_3 = torch.constant.int 1
    %int0_4 = torch.constant.int 0
    %int8_5 = torch.constant.int 8
    %int1_6 = torch.constant.int 1
    %4 = torch.aten.slice.Tensor %3, %int1_3, %int0_4, %int8_5, %int1_6 : !torch.vtensor<[8,16],i1>, !torch.int, !torch.int, !torch.int, !torch.int -> !torch.vtensor<[8,8],i1>
    %int1_7 = torch.constant.int 1
    %int2 = torch.constant.int 2
    %int8_8 = torch.constant.int 8
    %int8_9 = torch.constant.int 8
    %5 = torch.prim.ListConstruct %int1_7, %int2, %int8_8, %int8_9 : (!torch.int, !torch.int, !torch.int, !torch.int) -> !torch.list<int>
    %false_10 = torch.constant.bool false
    %6 = torch.aten.expand %4, %5, %false_10 : !torch.vtensor<[8,8],i1>, !torch.list<int>, !torch.bool -> !torch.vtensor<[1,2,8,8],i1>
    %float0.000000e00 = torch.constant.float 0.000000e+00
    %false_11 = torch.constant.bool false
    %none_12 = torch.constant.none
    %false_13 = torch.constant.bool false
    %7 = torch.aten.scaled_dot_product_attention %arg0, %arg1, %arg2, %6, %float0.000000e00, %false_11, %none_12, %false_13 : !torch.vtensor<[1,2,8,4],f16>, !torch.vtensor<[1,2,8,4],f16>, !torch.vtensor<[1,2,8,4],f16>, !torch.vtensor<[1,2,8,8],i1>, !torch.float, !torch.bool, !torch.none, !torch.bool -> !torch.vtensor<[1,2,8,4],f16>
    return %7 : !torch.vtensor<[1,2,8,4],f16>
  }
  func.func @causal_inverted(%arg0: !torch.vtensor<[1,2,8,4],f16>, %arg1: !torch.vtensor<[1,2,8,4],f16>, %arg2: !torch.vtensor<[1,2,8,4],f16>) -> !torch.vtensor<[1,2,8,4],f16> attributes {torch.assume_strict_symbolic_shapes} {
    %int8 = torch.constant.int 8
    %int8_0 = torch.constant.int 8
    %0 = torch.prim.ListConstruct %int8, %int8_0 : (!torch.int, !torch.int) -> !torch.list<int>
    %int11 = torch.constant.int 11
    %none = torch.constant.none
    %cpu = torch.constant.device "cpu"
    %false = torch.constant.bool false
    %1 = torch.aten.ones %0, %int11, %none, %cpu, %false : !torch.list<int>, !torch.int, !torch.none, !torch.Device, !torch.bool -> !torch.vtensor<[8,8],i1>
    %int1 = torch.constant.int 1
    %2 = torch.aten.triu %1, %int1 : !torch.vtensor<[8,8],i1>, !torch.int -> !torch.vtensor<[8,8],i1>
    %3 = torch.aten.bitwise_not %2 : !torch.vtensor<[8,8],i1> -> !torch.vtensor<[8,8],i1>
    %int1_1 = torch.constant.int 1
    %int2 = torch.constant.int 2
    %int8_2 = torch.constant.int 8
    %int8_3 = torch.constant.int 8
    %4 = torch.prim.ListConstruct %int1_1, %int2, %int8_2, %int8_3 : (!torch.int, !torch.int, !torch.int, !torch.int) -> !torch.list<int>
    %false_4 = torch.constant.bool false
    %5 = torch.aten.expand %3, %4, %false_4 : !torch.vtensor<[8,8],i1>, !torch.list<int>, !torch.bool -> !torch.vtensor<[1,2,8,8],i1>
    %float0.000000e00 = torch.constant.float 0.000000e+00
    %false_5 = torch.constant.bool false
    %none_6 = torch.constant.none
    %false_7 = torch.constant.bool false
    %6 = torch.aten.scaled_dot_product_attention %arg0, %arg1, %arg2, %5, %float0.000000e00, %false_5, %none_6, %false_7 : !torch.vtensor<[1,2,8,4],f16>, !torch.vtensor<[1,2,8,4],f16>, !torch.vtensor<[1,2,8,4],f16>, !torch.vtensor<[1,2,8,8],i1>, !torch.float, !torch.bool, !torch.none, !torch.bool -> !torch.vtensor<[1,2,8,4],f16>
    return %6 : !torch.vtensor<[1,2,8,4],f16>
  }
  func.func @causal_compared(%arg0: !torch.vtensor<[1,2,8,4],f16>, %arg1: !torch.vtensor<[1,2,8,4],f16>, %arg2: !torch.vtensor<[1,2,8,4],f16>) -> !torch.vtensor<[1,2,8,4],f16> attributes {torch.assume_strict_symbolic_shapes} {
    %int8 = torch.constant.int 8
    %none = torch.constant.none
    %none_0 = torch.constant.none
    %cpu = torch.constant.device "cpu"
    %false = torch.constant.bool false
    %0 = torch.aten.arange %int8, %none, %none_0, %cpu, %false : !torch.int, !torch.none, !torch.none, !torch.Device, !torch.bool -> !torch.vtensor<[8],si64>
    %int0 = torch.constant.int 0
    %1 = torch.aten.unsqueeze %0, %int0 : !torch.vtensor<[8],si64>, !torch.int -> !torch.vtensor<[1,8],si64>
    %int8_1 = torch.constant.int 8
    %none_2 = torch.constant.none
    %none_3 = torch.constant.none
    %cpu_4 = torch.constant.device "cpu"
    %false_5 = torch.constant.bool false
    %2 = torch.aten.arange %int8_1, %none_2, %none_3, %cpu_4, %false_5 : !torch.int, !torch.none, !torch.none, !torch.Device, !torch.bool -> !torch.vtensor<[8],si64>
    %int1 = torch.constant.int 1
    %3 = torch.aten.unsqueeze %2, %int1 : !torch.vtensor<[8],si64>, !torch.int -> !torch.vtensor<[8,1],si64>
    %4 = torch.aten.le.Tensor %1, %3 : !torch.vtensor<[1,8],si64>, !torch.vtensor<[8,1],si64> -> !torch.vtensor<[8,8],i1>
    %int1_6 = torch.constant.int 1
    %int2 = torch.constant.int 2
    %int8_7 = torch.constant.int 8
    %int8_8 = torch.constant.int 8
    %5 = torch.prim.ListConstruct %int1_6, %int2, %int8_7, %int8_8 : (!torch.int, !torch.int, !torch.int, !torch.int) -> !torch.list<int>
    %false_9 = torch.constant.bool false
    %6 = torch.aten.expand %4, %5, %false_9 : !torch.vtensor<[8,8],i1>, !torch.list<int>, !torch.bool -> !torch.vtensor<[1,2,8,8],i1>
    %float0.000000e00 = torch.constant.float 0.000000e+00
    %false_10 = torch.constant.bool false
    %none_11 = torch.constant.none
    %false_12 = torch.constant.bool false
    %7 = torch.aten.scaled_dot_product_attention %arg0, %arg1, %arg2, %6, %float0.000000e00, %false_10, %none_11, %false_12 : !torch.vtensor<[1,2,8,4],f16>, !torch.vtensor<[1,2,8,4],f16>, !torch.vtensor<[1,2,8,4],f16>, !torch.vtensor<[1,2,8,8],i1>, !torch.float, !torch.bool, !torch.none, !torch.bool -> !torch.vtensor<[1,2,8,4],f16>
    return %7 : !torch.vtensor<[1,2,8,4],f16>
  }
  func.func @causal_infinite(%arg0: !torch.vtensor<[1,2,8,4],f16>, %arg1: !torch.vtensor<[1,2,8,4],f16>, %arg2: !torch.vtensor<[1,2,8,4],f16>) -> !torch.vtensor<[1,2,8,4],f16> attributes {torch.assume_strict_symbolic_shapes} {
    %int8 = torch.constant.int 8
    %int8_0 = torch.constant.int 8
    %0 = torch.prim.ListConstruct %int8, %int8_0 : (!torch.int, !torch.int) -> !torch.list<int>
    %int8_1 = torch.constant.int 8
    %int1 = torch.constant.int 1
    %1 = torch.prim.ListConstruct %int8_1, %int1 : (!torch.int, !torch.int) -> !torch.list<int>
    %int5 = torch.constant.int 5
    %int0 = torch.constant.int 0
    %cpu = torch.constant.device "cpu"
    %false = torch.constant.bool false
    %2 = torch.aten.empty_strided %0, %1, %int5, %int0, %cpu, %false : !torch.list<int>, !torch.list<int>, !torch.int, !torch.int, !torch.Device, !torch.bool -> !torch.vtensor<[8,8],f16>
    %float-Inf = torch.constant.float 0xFFF0000000000000
    %3 = torch.aten.fill.Scalar %2, %float-Inf : !torch.vtensor<[8,8],f16>, !torch.float -> !torch.vtensor<[8,8],f16>
    %int1_2 = torch.constant.int 1
    %4 = torch.aten.triu %3, %int1_2 : !torch.vtensor<[8,8],f16>, !torch.int -> !torch.vtensor<[8,8],f16>
    %int1_3 = torch.constant.int 1
    %int2 = torch.constant.int 2
    %int8_4 = torch.constant.int 8
    %int8_5 = torch.constant.int 8
    %5 = torch.prim.ListConstruct %int1_3, %int2, %int8_4, %int8_5 : (!torch.int, !torch.int, !torch.int, !torch.int) -> !torch.list<int>
    %false_6 = torch.constant.bool false
    %6 = torch.aten.expand %4, %5, %false_6 : !torch.vtensor<[8,8],f16>, !torch.list<int>, !torch.bool -> !torch.vtensor<[1,2,8,8],f16>
    %float0.000000e00 = torch.constant.float 0.000000e+00
    %false_7 = torch.constant.bool false
    %none = torch.constant.none
    %false_8 = torch.constant.bool false
    %7 = torch.aten.scaled_dot_product_attention %arg0, %arg1, %arg2, %6, %float0.000000e00, %false_7, %none, %false_8 : !torch.vtensor<[1,2,8,4],f16>, !torch.vtensor<[1,2,8,4],f16>, !torch.vtensor<[1,2,8,4],f16>, !torch.vtensor<[1,2,8,8],f16>, !torch.float, !torch.bool, !torch.none, !torch.bool -> !torch.vtensor<[1,2,8,4],f16>
    return %7 : !torch.vtensor<[1,2,8,4],f16>
  }
  func.func @causal_filled(%arg0: !torch.vtensor<[1,2,8,4],f16>, %arg1: !torch.vtensor<[1,2,8,4],f16>, %arg2: !torch.vtensor<[1,2,8,4],f16>) -> !torch.vtensor<[1,2,8,4],f16> attributes {torch.assume_strict_symbolic_shapes} {
    %int8 = torch.constant.int 8
    %int8_0 = torch.constant.int 8
    %0 = torch.prim.ListConstruct %int8, %int8_0 : (!torch.int, !torch.int) -> !torch.list<int>
    %int8_1 = torch.constant.int 8
    %int1 = torch.constant.int 1
    %1 = torch.prim.ListConstruct %int8_1, %int1 : (!torch.int, !torch.int) -> !torch.list<int>
    %int5 = torch.constant.int 5
    %int0 = torch.constant.int 0
    %cpu = torch.constant.device "cpu"
    %false = torch.constant.bool false
    %2 = torch.aten.empty_strided %0, %1, %int5, %int0, %cpu, %false : !torch.list<int>, !torch.list<int>, !torch.int, !torch.int, !torch.Device, !torch.bool -> !torch.vtensor<[8,8],f16>
    %float0.000000e00 = torch.constant.float 0.000000e+00
    %3 = torch.aten.fill.Scalar %2, %float0.000000e00 : !torch.vtensor<[8,8],f16>, !torch.float -> !torch.vtensor<[8,8],f16>
    %int8_2 = torch.constant.int 8
    %int8_3 = torch.constant.int 8
    %4 = torch.prim.ListConstruct %int8_2, %int8_3 : (!torch.int, !torch.int) -> !torch.list<int>
    %none = torch.constant.none
    %none_4 = torch.constant.none
    %cpu_5 = torch.constant.device "cpu"
    %false_6 = torch.constant.bool false
    %5 = torch.aten.ones %4, %none, %none_4, %cpu_5, %false_6 : !torch.list<int>, !torch.none, !torch.none, !torch.Device, !torch.bool -> !torch.vtensor<[8,8],f32>
    %int0_7 = torch.constant.int 0
    %6 = torch.aten.tril %5, %int0_7 : !torch.vtensor<[8,8],f32>, !torch.int -> !torch.vtensor<[8,8],f32>
    %int0_8 = torch.constant.int 0
    %7 = torch.aten.eq.Scalar %6, %int0_8 : !torch.vtensor<[8,8],f32>, !torch.int -> !torch.vtensor<[8,8],i1>
    %float-Inf = torch.constant.float 0xFFF0000000000000
    %8 = torch.aten.where.ScalarSelf %7, %float-Inf, %3 : !torch.vtensor<[8,8],i1>, !torch.float, !torch.vtensor<[8,8],f16> -> !torch.vtensor<[8,8],f16>
    %int1_9 = torch.constant.int 1
    %int2 = torch.constant.int 2
    %int8_10 = torch.constant.int 8
    %int8_11 = torch.constant.int 8
    %9 = torch.prim.ListConstruct %int1_9, %int2, %int8_10, %int8_11 : (!torch.int, !torch.int, !torch.int, !torch.int) -> !torch.list<int>
    %false_12 = torch.constant.bool false
    %10 = torch.aten.expand %8, %9, %false_12 : !torch.vtensor<[8,8],f16>, !torch.list<int>, !torch.bool -> !torch.vtensor<[1,2,8,8],f16>
    %float0.000000e00_13 = torch.constant.float 0.000000e+00
    %false_14 = torch.constant.bool false
    %none_15 = torch.constant.none
    %false_16 = torch.constant.bool false
    %11 = torch.aten.scaled_dot_product_attention %arg0, %arg1, %arg2, %10, %float0.000000e00_13, %false_14, %none_15, %false_16 : !torch.vtensor<[1,2,8,4],f16>, !torch.vtensor<[1,2,8,4],f16>, !torch.vtensor<[1,2,8,4],f16>, !torch.vtensor<[1,2,8,8],f16>, !torch.float, !torch.bool, !torch.none, !torch.bool -> !torch.vtensor<[1,2,8,4],f16>
    return %11 : !torch.vtensor<[1,2,8,4],f16>
  }
  func.func @causal_chosen(%arg0: !torch.vtensor<[1,2,8,4],f16>, %arg1: !torch.vtensor<[1,2,8,4],f16>, %arg2: !torch.vtensor<[1,2,8,4],f16>) -> !torch.vtensor<[1,2,8,4],f16> attributes {torch.assume_strict_symbolic_shapes} {
    %int8 = torch.constant.int 8
    %none = torch.constant.none
    %none_0 = torch.constant.none
    %cpu = torch.constant.device "cpu"
    %false = torch.constant.bool false
    %0 = torch.aten.arange %int8, %none, %none_0, %cpu, %false : !torch.int, !torch.none, !torch.none, !torch.Device, !torch.bool -> !torch.vtensor<[8],si64>
    %int1 = torch.constant.int 1
    %1 = torch.aten.unsqueeze %0, %int1 : !torch.vtensor<[8],si64>, !torch.int -> !torch.vtensor<[8,1],si64>
    %int8_1 = torch.constant.int 8
    %none_2 = torch.constant.none
    %none_3 = torch.constant.none
    %cpu_4 = torch.constant.device "cpu"
    %false_5 = torch.constant.bool false
    %2 = torch.aten.arange %int8_1, %none_2, %none_3, %cpu_4, %false_5 : !torch.int, !torch.none, !torch.none, !torch.Device, !torch.bool -> !torch.vtensor<[8],si64>
    %3 = torch.aten.ge.Tensor %1, %2 : !torch.vtensor<[8,1],si64>, !torch.vtensor<[8],si64> -> !torch.vtensor<[8,8],i1>
    %float0.000000e00 = torch.constant.float 0.000000e+00
    %float-Inf = torch.constant.float 0xFFF0000000000000
    %4 = torch.aten.where.Scalar %3, %float0.000000e00, %float-Inf : !torch.vtensor<[8,8],i1>, !torch.float, !torch.float -> !torch.vtensor<[8,8],f32>
    %none_6 = torch.constant.none
    %none_7 = torch.constant.none
    %int6 = torch.constant.int 6
    %cpu_8 = torch.constant.device "cpu"
    %int0 = torch.constant.int 0
    torch.aten._assert_tensor_metadata %4, %none_6, %none_7, %int6, %cpu_8, %int0 : !torch.vtensor<[8,8],f32>, !torch.none, !torch.none, !torch.int, !torch.Device, !torch.int
    %int5 = torch.constant.int 5
    %5 = torch.prims.convert_element_type %4, %int5 : !torch.vtensor<[8,8],f32>, !torch.int -> !torch.vtensor<[8,8],f16>
    %int1_9 = torch.constant.int 1
    %int2 = torch.constant.int 2
    %int8_10 = torch.constant.int 8
    %int8_11 = torch.constant.int 8
    %6 = torch.prim.ListConstruct %int1_9, %int2, %int8_10, %int8_11 : (!torch.int, !torch.int, !torch.int, !torch.int) -> !torch.list<int>
    %false_12 = torch.constant.bool false
    %7 = torch.aten.expand %5, %6, %false_12 : !torch.vtensor<[8,8],f16>, !torch.list<int>, !torch.bool -> !torch.vtensor<[1,2,8,8],f16>
    %float0.000000e00_13 = torch.constant.float 0.000000e+00
    %false_14 = torch.constant.bool false
    %none_15 = torch.constant.none
    %false_16 = torch.constant.bool false
    %8 = torch.aten.scaled_dot_product_attention %arg0, %arg1, %arg2, %7, %float0.000000e00_13, %false_14, %none_15, %false_16 : !torch.vtensor<[1,2,8,4],f16>, !torch.vtensor<[1,2,8,4],f16>, !torch.vtensor<[1,2,8,4],f16>, !torch.vtensor<[1,2,8,8],f16>, !torch.float, !torch.bool, !torch.none, !torch.bool -> !torch.vtensor<[1,2,8,4],f16>
    return %8 : !torch.vtensor<[1,2,8,4],f16>
  }
  func.func @other_stored(%arg0: !torch.vtensor<[1,2,8,4],f16>, %arg1: !torch.vtensor<[1,2,8,4],f16>, %arg2: !torch.vtensor<[1,2,8,4],f16>) -> !torch.vtensor<[1,2,8,4],f16> attributes {torch.assume_strict_symbolic_shapes} {
    %0 = torch.vtensor.literal(dense_resource<torch_tensor_1_1_8_8_torch.uint8> : tensor<1x1x8x8xui8>) : !torch.vtensor<[1,1,8,8],ui8>
    %int11 = torch.constant.int 11
    %1 = torch.prims.convert_element_type %0, %int11 : !torch.vtensor<[1,1,8,8],ui8>, !torch.int -> !torch.vtensor<[1,1,8,8],i1>
    %int1 = torch.constant.int 1
    %int2 = torch.constant.int 2
    %int8 = torch.constant.int 8
    %int8_0 = torch.constant.int 8
    %2 = torch.prim.ListConstruct %int1, %int2, %int8, %int8_0 : (!torch.int, !torch.int, !torch.int, !torch.int) -> !torch.list<int>
    %false = torch.constant.bool false
    %3 = torch.aten.expand %1, %2, %false : !torch.vtensor<[1,1,8,8],i1>, !torch.list<int>, !torch.bool -> !torch.vtensor<[1,2,8,8],i1>
    %float0.000000e00 = torch.constant.float 0.000000e+00
    %false_1 = torch.constant.bool false
    %none = torch.constant.none
    %false_2 = torch.constant.bool false
    %4 = torch.aten.scaled_dot_product_attention %arg0, %arg1, %arg2, %3, %float0.000000e00, %false_1, %none, %false_2 : !torch.vtensor<[1,2,8,4],f16>, !torch.vtensor<[1,2,8,4],f16>, !torch.vtensor<[1,2,8,4],f16>, !torch.vtensor<[1,2,8,8],i1>, !torch.float, !torch.bool, !torch.none, !torch.bool -> !torch.vtensor<[1,2,8,4],f16>
    return %4 : !torch.vtensor<[1,2,8,4],f16>
  }
  func.func @other_lowest(%arg0: !torch.vtensor<[1,2,8,4],f16>, %arg1: !torch.vtensor<[1,2,8,4],f16>, %arg2: !torch.vtensor<[1,2,8,4],f16>) -> !torch.vtensor<[1,2,8,4],f16> attributes {torch.assume_strict_symbolic_shapes} {
    %int8 = torch.constant.int 8
    %int8_0 = torch.constant.int 8
    %0 = torch.prim.ListConstruct %int8, %int8_0 : (!torch.int, !torch.int) -> !torch.list<int>
    %int8_1 = torch.constant.int 8
    %int1 = torch.constant.int 1
    %1 = torch.prim.ListConstruct %int8_1, %int1 : (!torch.int, !torch.int) -> !torch.list<int>
    %int5 = torch.constant.int 5
    %int0 = torch.constant.int 0
    %cpu = torch.constant.device "cpu"
    %false = torch.constant.bool false
    %2 = torch.aten.empty_strided %0, %1, %int5, %int0, %cpu, %false : !torch.list<int>, !torch.list<int>, !torch.int, !torch.int, !torch.Device, !torch.bool -> !torch.vtensor<[8,8],f16>
    %float-6.550400e04 = torch.constant.float -6.550400e+04
    %3 = torch.aten.fill.Scalar %2, %float-6.550400e04 : !torch.vtensor<[8,8],f16>, !torch.float -> !torch.vtensor<[8,8],f16>
    %int1_2 = torch.constant.int 1
    %4 = torch.aten.triu %3, %int1_2 : !torch.vtensor<[8,8],f16>, !torch.int -> !torch.vtensor<[8,8],f16>
    %int1_3 = torch.constant.int 1
    %int2 = torch.constant.int 2
    %int8_4 = torch.constant.int 8
    %int8_5 = torch.constant.int 8
    %5 = torch.prim.ListConstruct %int1_3, %int2, %int8_4, %int8_5 : (!torch.int, !torch.int, !torch.int, !torch.int) -> !torch.list<int>
    %false_6 = torch.constant.bool false
    %6 = torch.aten.expand %4, %5, %false_6 : !torch.vtensor<[8,8],f16>, !torch.list<int>, !torch.bool -> !torch.vtensor<[1,2,8,8],f16>
    %float0.000000e00 = torch.constant.float 0.000000e+00
    %false_7 = torch.constant.bool false
    %none = torch.constant.none
    %false_8 = torch.constant.bool false
    %7 = torch.aten.scaled_dot_product_attention %arg0, %arg1, %arg2, %6, %float0.000000e00, %false_7, %none, %false_8 : !torch.vtensor<[1,2,8,4],f16>, !torch.vtensor<[1,2,8,4],f16>, !torch.vtensor<[1,2,8,4],f16>, !torch.vtensor<[1,2,8,8],f16>, !torch.float, !torch.bool, !torch.none, !torch.bool -> !torch.vtensor<[1,2,8,4],f16>
    return %7 : !torch.vtensor<[1,2,8,4],f16>
  }
  func.func @other_finite(%arg0: !torch.vtensor<[1,2,8,4],f16>, %arg1: !torch.vtensor<[1,2,8,4],f16>, %arg2: !torch.vtensor<[1,2,8,4],f16>) -> !torch.vtensor<[1,2,8,4],f16> attributes {torch.assume_strict_symbolic_shapes} {
    %int8 = torch.constant.int 8
    %int8_0 = torch.constant.int 8
    %0 = torch.prim.ListConstruct %int8, %int8_0 : (!torch.int, !torch.int) -> !torch.list<int>
    %int8_1 = torch.constant.int 8
    %int1 = torch.constant.int 1
    %1 = torch.prim.ListConstruct %int8_1, %int1 : (!torch.int, !torch.int) -> !torch.list<int>
    %int5 = torch.constant.int 5
    %int0 = torch.constant.int 0
    %cpu = torch.constant.device "cpu"
    %false = torch.constant.bool false
    %2 = torch.aten.empty_strided %0, %1, %int5, %int0, %cpu, %false : !torch.list<int>, !torch.list<int>, !torch.int, !torch.int, !torch.Device, !torch.bool -> !torch.vtensor<[8,8],f16>
    %float-1.000000e04 = torch.constant.float -1.000000e+04
    %3 = torch.aten.fill.Scalar %2, %float-1.000000e04 : !torch.vtensor<[8,8],f16>, !torch.float -> !torch.vtensor<[8,8],f16>
    %int1_2 = torch.constant.int 1
    %4 = torch.aten.triu %3, %int1_2 : !torch.vtensor<[8,8],f16>, !torch.int -> !torch.vtensor<[8,8],f16>
    %int1_3 = torch.constant.int 1
    %int2 = torch.constant.int 2
    %int8_4 = torch.constant.int 8
    %int8_5 = torch.constant.int 8
    %5 = torch.prim.ListConstruct %int1_3, %int2, %int8_4, %int8_5 : (!torch.int, !torch.int, !torch.int, !torch.int) -> !torch.list<int>
    %false_6 = torch.constant.bool false
    %6 = torch.aten.expand %4, %5, %false_6 : !torch.vtensor<[8,8],f16>, !torch.list<int>, !torch.bool -> !torch.vtensor<[1,2,8,8],f16>
    %float0.000000e00 = torch.constant.float 0.000000e+00
    %false_7 = torch.constant.bool false
    %none = torch.constant.none
    %false_8 = torch.constant.bool false
    %7 = torch.aten.scaled_dot_product_attention %arg0, %arg1, %arg2, %6, %float0.000000e00, %false_7, %none, %false_8 : !torch.vtensor<[1,2,8,4],f16>, !torch.vtensor<[1,2,8,4],f16>, !torch.vtensor<[1,2,8,4],f16>, !torch.vtensor<[1,2,8,8],f16>, !torch.float, !torch.bool, !torch.none, !torch.bool -> !torch.vtensor<[1,2,8,4],f16>
    return %7 : !torch.vtensor<[1,2,8,4],f16>
  }
  func.func @other_strict(%arg0: !torch.vtensor<[1,2,8,4],f16>, %arg1: !torch.vtensor<[1,2,8,4],f16>, %arg2: !torch.vtensor<[1,2,8,4],f16>) -> !torch.vtensor<[1,2,8,4],f16> attributes {torch.assume_strict_symbolic_shapes} {
    %int8 = torch.constant.int 8
    %int8_0 = torch.constant.int 8
    %0 = torch.prim.ListConstruct %int8, %int8_0 : (!torch.int, !torch.int) -> !torch.list<int>
    %int11 = torch.constant.int 11
    %none = torch.constant.none
    %cpu = torch.constant.device "cpu"
    %false = torch.constant.bool false
    %1 = torch.aten.ones %0, %int11, %none, %cpu, %false : !torch.list<int>, !torch.int, !torch.none, !torch.Device, !torch.bool -> !torch.vtensor<[8,8],i1>
    %int-1 = torch.constant.int -1
    %2 = torch.aten.tril %1, %int-1 : !torch.vtensor<[8,8],i1>, !torch.int -> !torch.vtensor<[8,8],i1>
    %int1 = torch.constant.int 1
    %int2 = torch.constant.int 2
    %int8_1 = torch.constant.int 8
    %int8_2 = torch.constant.int 8
    %3 = torch.prim.ListConstruct %int1, %int2, %int8_1, %int8_2 : (!torch.int, !torch.int, !torch.int, !torch.int) -> !torch.list<int>
    %false_3 = torch.constant.bool false
    %4 = torch.aten.expand %2, %3, %false_3 : !torch.vtensor<[8,8],i1>, !torch.list<int>, !torch.bool -> !torch.vtensor<[1,2,8,8],i1>
    %float0.000000e00 = torch.constant.float 0.000000e+00
    %false_4 = torch.constant.bool false
    %none_5 = torch.constant.none
    %false_6 = torch.constant.bool false
    %5 = torch.aten.scaled_dot_product_attention %arg0, %arg1, %arg2, %4, %float0.000000e00, %false_4, %none_5, %false_6 : !torch.vtensor<[1,2,8,4],f16>, !torch.vtensor<[1,2,8,4],f16>, !torch.vtensor<[1,2,8,4],f16>, !torch.vtensor<[1,2,8,8],i1>, !torch.float, !torch.bool, !torch.none, !torch.bool -> !torch.vtensor<[1,2,8,4],f16>
    return %5 : !torch.vtensor<[1,2,8,4],f16>
  }
  func.func @other_next(%arg0: !torch.vtensor<[1,2,8,4],f16>, %arg1: !torch.vtensor<[1,2,8,4],f16>, %arg2: !torch.vtensor<[1,2,8,4],f16>) -> !torch.vtensor<[1,2,8,4],f16> attributes {torch.assume_strict_symbolic_shapes} {
    %int8 = torch.constant.int 8
    %int8_0 = torch.constant.int 8
    %0 = torch.prim.ListConstruct %int8, %int8_0 : (!torch.int, !torch.int) -> !torch.list<int>
    %int11 = torch.constant.int 11
    %none = torch.constant.none
    %cpu = torch.constant.device "cpu"
    %false = torch.constant.bool false
    %1 = torch.aten.ones %0, %int11, %none, %cpu, %false : !torch.list<int>, !torch.int, !torch.none, !torch.Device, !torch.bool -> !torch.vtensor<[8,8],i1>
    %int1 = torch.constant.int 1
    %2 = torch.aten.tril %1, %int1 : !torch.vtensor<[8,8],i1>, !torch.int -> !torch.vtensor<[8,8],i1>
    %int1_1 = torch.constant.int 1
    %int2 = torch.constant.int 2
    %int8_2 = torch.constant.int 8
    %int8_3 = torch.constant.int 8
    %3 = torch.prim.ListConstruct %int1_1, %int2, %int8_2, %int8_3 : (!torch.int, !torch.int, !torch.int, !torch.int) -> !torch.list<int>
    %false_4 = torch.constant.bool false
    %4 = torch.aten.expand %2, %3, %false_4 : !torch.vtensor<[8,8],i1>, !torch.list<int>, !torch.bool -> !torch.vtensor<[1,2,8,8],i1>
    %float0.000000e00 = torch.constant.float 0.000000e+00
    %false_5 = torch.constant.bool false
    %none_6 = torch.constant.none
    %false_7 = torch.constant.bool false
    %5 = torch.aten.scaled_dot_product_attention %arg0, %arg1, %arg2, %4, %float0.000000e00, %false_5, %none_6, %false_7 : !torch.vtensor<[1,2,8,4],f16>, !torch.vtensor<[1,2,8,4],f16>, !torch.vtensor<[1,2,8,4],f16>, !torch.vtensor<[1,2,8,8],i1>, !torch.float, !torch.bool, !torch.none, !torch.bool -> !torch.vtensor<[1,2,8,4],f16>
    return %5 : !torch.vtensor<[1,2,8,4],f16>
  }
  func.func @other_window(%arg0: !torch.vtensor<[1,2,8,4],f16>, %arg1: !torch.vtensor<[1,2,8,4],f16>, %arg2: !torch.vtensor<[1,2,8,4],f16>) -> !torch.vtensor<[1,2,8,4],f16> attributes {torch.assume_strict_symbolic_shapes} {
    %int8 = torch.constant.int 8
    %int8_0 = torch.constant.int 8
    %0 = torch.prim.ListConstruct %int8, %int8_0 : (!torch.int, !torch.int) -> !torch.list<int>
    %int11 = torch.constant.int 11
    %none = torch.constant.none
    %cpu = torch.constant.device "cpu"
    %false = torch.constant.bool false
    %1 = torch.aten.ones %0, %int11, %none, %cpu, %false : !torch.list<int>, !torch.int, !torch.none, !torch.Device, !torch.bool -> !torch.vtensor<[8,8],i1>
    %int0 = torch.constant.int 0
    %2 = torch.aten.tril %1, %int0 : !torch.vtensor<[8,8],i1>, !torch.int -> !torch.vtensor<[8,8],i1>
    %int-3 = torch.constant.int -3
    %3 = torch.aten.triu %2, %int-3 : !torch.vtensor<[8,8],i1>, !torch.int -> !torch.vtensor<[8,8],i1>
    %int1 = torch.constant.int 1
    %int2 = torch.constant.int 2
    %int8_1 = torch.constant.int 8
    %int8_2 = torch.constant.int 8
    %4 = torch.prim.ListConstruct %int1, %int2, %int8_1, %int8_2 : (!torch.int, !torch.int, !torch.int, !torch.int) -> !torch.list<int>
    %false_3 = torch.constant.bool false
    %5 = torch.aten.expand %3, %4, %false_3 : !torch.vtensor<[8,8],i1>, !torch.list<int>, !torch.bool -> !torch.vtensor<[1,2,8,8],i1>
    %float0.000000e00 = torch.constant.float 0.000000e+00
    %false_4 = torch.constant.bool false
    %none_5 = torch.constant.none
    %false_6 = torch.constant.bool false
    %6 = torch.aten.scaled_dot_product_attention %arg0, %arg1, %arg2, %5, %float0.000000e00, %false_4, %none_5, %false_6 : !torch.vtensor<[1,2,8,4],f16>, !torch.vtensor<[1,2,8,4],f16>, !torch.vtensor<[1,2,8,4],f16>, !torch.vtensor<[1,2,8,8],i1>, !torch.float, !torch.bool, !torch.none, !torch.bool -> !torch.vtensor<[1,2,8,4],f16>
    return %6 : !torch.vtensor<[1,2,8,4],f16>
  }
  func.func @other_future(%arg0: !torch.vtensor<[1,2,8,4],f16>, %arg1: !torch.vtensor<[1,2,8,4],f16>, %arg2: !torch.vtensor<[1,2,8,4],f16>) -> !torch.vtensor<[1,2,8,4],f16> attributes {torch.assume_strict_symbolic_shapes} {
    %int8 = torch.constant.int 8
    %int8_0 = torch.constant.int 8
    %0 = torch.prim.ListConstruct %int8, %int8_0 : (!torch.int, !torch.int) -> !torch.list<int>
    %int11 = torch.constant.int 11
    %none = torch.constant.none
    %cpu = torch.constant.device "cpu"
    %false = torch.constant.bool false
    %1 = torch.aten.ones %0, %int11, %none, %cpu, %false : !torch.list<int>, !torch.int, !torch.none, !torch.Device, !torch.bool -> !torch.vtensor<[8,8],i1>
    %int0 = torch.constant.int 0
    %2 = torch.aten.triu %1, %int0 : !torch.vtensor<[8,8],i1>, !torch.int -> !torch.vtensor<[8,8],i1>
    %int1 = torch.constant.int 1
    %int2 = torch.constant.int 2
    %int8_1 = torch.constant.int 8
    %int8_2 = torch.constant.int 8
    %3 = torch.prim.ListConstruct %int1, %int2, %int8_1, %int8_2 : (!torch.int, !torch.int, !torch.int, !torch.int) -> !torch.list<int>
    %false_3 = torch.constant.bool false
    %4 = torch.aten.expand %2, %3, %false_3 : !torch.vtensor<[8,8],i1>, !torch.list<int>, !torch.bool -> !torch.vtensor<[1,2,8,8],i1>
    %float0.000000e00 = torch.constant.float 0.000000e+00
    %false_4 = torch.constant.bool false
    %none_5 = torch.constant.none
    %false_6 = torch.constant.bool false
    %5 = torch.aten.scaled_dot_product_attention %arg0, %arg1, %arg2, %4, %float0.000000e00, %false_4, %none_5, %false_6 : !torch.vtensor<[1,2,8,4],f16>, !torch.vtensor<[1,2,8,4],f16>, !torch.vtensor<[1,2,8,4],f16>, !torch.vtensor<[1,2,8,8],i1>, !torch.float, !torch.bool, !torch.none, !torch.bool -> !torch.vtensor<[1,2,8,4],f16>
    return %5 : !torch.vtensor<[1,2,8,4],f16>
  }
  func.func @other_heads(%arg0: !torch.vtensor<[1,2,8,4],f16>, %arg1: !torch.vtensor<[1,2,8,4],f16>, %arg2: !torch.vtensor<[1,2,8,4],f16>) -> !torch.vtensor<[1,2,8,4],f16> attributes {torch.assume_strict_symbolic_shapes} {
    %int2 = torch.constant.int 2
    %none = torch.constant.none
    %none_0 = torch.constant.none
    %cpu = torch.constant.device "cpu"
    %false = torch.constant.bool false
    %0 = torch.aten.arange %int2, %none, %none_0, %cpu, %false : !torch.int, !torch.none, !torch.none, !torch.Device, !torch.bool -> !torch.vtensor<[2],si64>
    %int1 = torch.constant.int 1
    %1 = torch.aten.unsqueeze %0, %int1 : !torch.vtensor<[2],si64>, !torch.int -> !torch.vtensor<[2,1],si64>
    %int2_1 = torch.constant.int 2
    %2 = torch.aten.unsqueeze %1, %int2_1 : !torch.vtensor<[2,1],si64>, !torch.int -> !torch.vtensor<[2,1,1],si64>
    %int8 = torch.constant.int 8
    %none_2 = torch.constant.none
    %none_3 = torch.constant.none
    %cpu_4 = torch.constant.device "cpu"
    %false_5 = torch.constant.bool false
    %3 = torch.aten.arange %int8, %none_2, %none_3, %cpu_4, %false_5 : !torch.int, !torch.none, !torch.none, !torch.Device, !torch.bool -> !torch.vtensor<[8],si64>
    %int1_6 = torch.constant.int 1
    %4 = torch.aten.unsqueeze %3, %int1_6 : !torch.vtensor<[8],si64>, !torch.int -> !torch.vtensor<[8,1],si64>
    %int1_7 = torch.constant.int 1
    %5 = torch.aten.add.Tensor %2, %4, %int1_7 : !torch.vtensor<[2,1,1],si64>, !torch.vtensor<[8,1],si64>, !torch.int -> !torch.vtensor<[2,8,1],si64>
    %int8_8 = torch.constant.int 8
    %none_9 = torch.constant.none
    %none_10 = torch.constant.none
    %cpu_11 = torch.constant.device "cpu"
    %false_12 = torch.constant.bool false
    %6 = torch.aten.arange %int8_8, %none_9, %none_10, %cpu_11, %false_12 : !torch.int, !torch.none, !torch.none, !torch.Device, !torch.bool -> !torch.vtensor<[8],si64>
    %7 = torch.aten.ge.Tensor %5, %6 : !torch.vtensor<[2,8,1],si64>, !torch.vtensor<[8],si64> -> !torch.vtensor<[2,8,8],i1>
    %int1_13 = torch.constant.int 1
    %int2_14 = torch.constant.int 2
    %int8_15 = torch.constant.int 8
    %int8_16 = torch.constant.int 8
    %8 = torch.prim.ListConstruct %int1_13, %int2_14, %int8_15, %int8_16 : (!torch.int, !torch.int, !torch.int, !torch.int) -> !torch.list<int>
    %false_17 = torch.constant.bool false
    %9 = torch.aten.expand %7, %8, %false_17 : !torch.vtensor<[2,8,8],i1>, !torch.list<int>, !torch.bool -> !torch.vtensor<[1,2,8,8],i1>
    %float0.000000e00 = torch.constant.float 0.000000e+00
    %false_18 = torch.constant.bool false
    %none_19 = torch.constant.none
    %false_20 = torch.constant.bool false
    %10 = torch.aten.scaled_dot_product_attention %arg0, %arg1, %arg2, %9, %float0.000000e00, %false_18, %none_19, %false_20 : !torch.vtensor<[1,2,8,4],f16>, !torch.vtensor<[1,2,8,4],f16>, !torch.vtensor<[1,2,8,4],f16>, !torch.vtensor<[1,2,8,8],i1>, !torch.float, !torch.bool, !torch.none, !torch.bool -> !torch.vtensor<[1,2,8,4],f16>
    return %10 : !torch.vtensor<[1,2,8,4],f16>
  }
  func.func @other_weighted(%arg0: !torch.vtensor<[1,2,8,4],f16>, %arg1: !torch.vtensor<[1,2,8,4],f16>, %arg2: !torch.vtensor<[1,2,8,4],f16>) -> !torch.vtensor<[1,2,8,4],f16> attributes {torch.assume_strict_symbolic_shapes} {
    %int8 = torch.constant.int 8
    %int8_0 = torch.constant.int 8
    %0 = torch.prim.ListConstruct %int8, %int8_0 : (!torch.int, !torch.int) -> !torch.list<int>
    %int8_1 = torch.constant.int 8
    %int1 = torch.constant.int 1
    %1 = torch.prim.ListConstruct %int8_1, %int1 : (!torch.int, !torch.int) -> !torch.list<int>
    %int5 = torch.constant.int 5
    %int0 = torch.constant.int 0
    %cpu = torch.constant.device "cpu"
    %false = torch.constant.bool false
    %2 = torch.aten.empty_strided %0, %1, %int5, %int0, %cpu, %false : !torch.list<int>, !torch.list<int>, !torch.int, !torch.int, !torch.Device, !torch.bool -> !torch.vtensor<[8,8],f16>
    %float-Inf = torch.constant.float 0xFFF0000000000000
    %3 = torch.aten.fill.Scalar %2, %float-Inf : !torch.vtensor<[8,8],f16>, !torch.float -> !torch.vtensor<[8,8],f16>
    %int1_2 = torch.constant.int 1
    %4 = torch.aten.triu %3, %int1_2 : !torch.vtensor<[8,8],f16>, !torch.int -> !torch.vtensor<[8,8],f16>
    %int8_3 = torch.constant.int 8
    %int8_4 = torch.constant.int 8
    %5 = torch.prim.ListConstruct %int8_3, %int8_4 : (!torch.int, !torch.int) -> !torch.list<int>
    %int8_5 = torch.constant.int 8
    %int1_6 = torch.constant.int 1
    %6 = torch.prim.ListConstruct %int8_5, %int1_6 : (!torch.int, !torch.int) -> !torch.list<int>
    %int5_7 = torch.constant.int 5
    %int0_8 = torch.constant.int 0
    %cpu_9 = torch.constant.device "cpu"
    %false_10 = torch.constant.bool false
    %7 = torch.aten.empty_strided %5, %6, %int5_7, %int0_8, %cpu_9, %false_10 : !torch.list<int>, !torch.list<int>, !torch.int, !torch.int, !torch.Device, !torch.bool -> !torch.vtensor<[8,8],f16>
    %float1.000000e00 = torch.constant.float 1.000000e+00
    %8 = torch.aten.fill.Scalar %7, %float1.000000e00 : !torch.vtensor<[8,8],f16>, !torch.float -> !torch.vtensor<[8,8],f16>
    %int-1 = torch.constant.int -1
    %9 = torch.aten.tril %8, %int-1 : !torch.vtensor<[8,8],f16>, !torch.int -> !torch.vtensor<[8,8],f16>
    %int1_11 = torch.constant.int 1
    %10 = torch.aten.add.Tensor %4, %9, %int1_11 : !torch.vtensor<[8,8],f16>, !torch.vtensor<[8,8],f16>, !torch.int -> !torch.vtensor<[8,8],f16>
    %int1_12 = torch.constant.int 1
    %int2 = torch.constant.int 2
    %int8_13 = torch.constant.int 8
    %int8_14 = torch.constant.int 8
    %11 = torch.prim.ListConstruct %int1_12, %int2, %int8_13, %int8_14 : (!torch.int, !torch.int, !torch.int, !torch.int) -> !torch.list<int>
    %false_15 = torch.constant.bool false
    %12 = torch.aten.expand %10, %11, %false_15 : !torch.vtensor<[8,8],f16>, !torch.list<int>, !torch.bool -> !torch.vtensor<[1,2,8,8],f16>
    %float0.000000e00 = torch.constant.float 0.000000e+00
    %false_16 = torch.constant.bool false
    %none = torch.constant.none
    %false_17 = torch.constant.bool false
    %13 = torch.aten.scaled_dot_product_attention %arg0, %arg1, %arg2, %12, %float0.000000e00, %false_16, %none, %false_17 : !torch.vtensor<[1,2,8,4],f16>, !torch.vtensor<[1,2,8,4],f16>, !torch.vtensor<[1,2,8,4],f16>, !torch.vtensor<[1,2,8,8],f16>, !torch.float, !torch.bool, !torch.none, !torch.bool -> !torch.vtensor<[1,2,8,4],f16>
    return %13 : !torch.vtensor<[1,2,8,4],f16>
  }
  func.func @causal_few(%arg0: !torch.vtensor<[1,2,4,4],bf16>, %arg1: !torch.vtensor<[1,2,8,4],bf16>, %arg2: !torch.vtensor<[1,2,8,4],bf16>) -> !torch.vtensor<[1,2,4,4],bf16> attributes {torch.assume_strict_symbolic_shapes} {
    %none = torch.constant.none
    %float0.000000e00 = torch.constant.float 0.000000e+00
    %true = torch.constant.bool true
    %none_0 = torch.constant.none
    %false = torch.constant.bool false
    %0 = torch.aten.scaled_dot_product_attention %arg0, %arg1, %arg2, %none, %float0.000000e00, %true, %none_0, %false : !torch.vtensor<[1,2,4,4],bf16>, !torch.vtensor<[1,2,8,4],bf16>, !torch.vtensor<[1,2,8,4],bf16>, !torch.none, !torch.float, !torch.bool, !torch.none, !torch.bool -> !torch.vtensor<[1,2,4,4],bf16>
    return %0 : !torch.vtensor<[1,2,4,4],bf16>
  }
}

{-#
  dialect_resources: {
    builtin: {
      torch_tensor_1_1_8_8_torch.uint8: "0x0100000001000000000000000101000000000000010101000000000001010101000000000101010101000000010101010101000001010101010101000101010101010101"
    }
  }
#-}
