module @attention {
  func.func @main(%arg0: !torch.vtensor<[1,256,512],f32>, %arg1: !torch.vtensor<[512,1536],f32>, %arg2: !torch.vtensor<[512,512],f32>) -> !torch.vtensor<[1,256,512],f32> attributes {torch.assume_strict_symbolic_shapes} {
    %0 = torch.aten.matmul %arg0, %arg1 : !torch.vtensor<[1,256,512],f32>, !torch.vtensor<[512,1536],f32> -> !torch.vtensor<[1,256,1536],f32>
    %int512 = torch.constant.int 512
    %int2 = torch.constant.int 2
    %1 = torch.aten.split.Tensor %0, %int512, %int2 : !torch.vtensor<[1,256,1536],f32>, !torch.int, !torch.int -> !torch.list<vtensor>
    %2:3 = torch.prim.ListUnpack %1 : !torch.list<vtensor> -> !torch.vtensor<[1,256,512],f32>, !torch.vtensor<[1,256,512],f32>, !torch.vtensor<[1,256,512],f32>
    %int1 = torch.constant.int 1
    %int256 = torch.constant.int 256
    %int8 = torch.constant.int 8
    %int64 = torch.constant.int 64
    %3 = torch.prim.ListConstruct %int1, %int256, %int8, %int64 : (!torch.int, !torch.int, !torch.int, !torch.int) -> !torch.list<int>
    %4 = torch.aten.view %2#0, %3 : !torch.vtensor<[1,256,512],f32>, !torch.list<int> -> !torch.vtensor<[1,256,8,64],f32>
    %int1_0 = torch.constant.int 1
    %int2_1 = torch.constant.int 2
    %5 = torch.aten.transpose.int %4, %int1_0, %int2_1 : !torch.vtensor<[1,256,8,64],f32>, !torch.int, !torch.int -> !torch.vtensor<[1,8,256,64],f32>
    %int1_2 = torch.constant.int 1
    %int256_3 = torch.constant.int 256
    %int8_4 = torch.constant.int 8
    %int64_5 = torch.constant.int 64
    %6 = torch.prim.ListConstruct %int1_2, %int256_3, %int8_4, %int64_5 : (!torch.int, !torch.int, !torch.int, !torch.int) -> !torch.list<int>
    %7 = torch.aten.view %2#1, %6 : !torch.vtensor<[1,256,512],f32>, !torch.list<int> -> !torch.vtensor<[1,256,8,64],f32>
    %int1_6 = torch.constant.int 1
    %int2_7 = torch.constant.int 2
    %8 = torch.aten.transpose.int %7, %int1_6, %int2_7 : !torch.vtensor<[1,256,8,64],f32>, !torch.int, !torch.int -> !torch.vtensor<[1,8,256,64],f32>
    %int1_8 = torch.constant.int 1
    %int256_9 = torch.constant.int 256
    %int8_10 = torch.constant.int 8
    %int64_11 = torch.constant.int 64
    %9 = torch.prim.ListConstruct %int1_8, %int256_9, %int8_10, %int64_11 : (!torch.int, !torch.int, !torch.int, !torch.int) -> !torch.list<int>
    %10 = torch.aten.view %2#2, %9 : !torch.vtensor<[1,256,512],f32>, !torch.list<int> -> !torch.vtensor<[1,256,8,64],f32>
    %int1_12 = torch.constant.int 1
    %int2_13 = torch.constant.int 2
    %11 = torch.aten.transpose.int %10, %int1_12, %int2_13 : !torch.vtensor<[1,256,8,64],f32>, !torch.int, !torch.int -> !torch.vtensor<[1,8,256,64],f32>
    %none = torch.constant.none
    %float0.000000e00 = torch.constant.float 0.000000e+00
    %false = torch.constant.bool false
    %none_14 = torch.constant.none
    %false_15 = torch.constant.bool false
    %12 = torch.aten.scaled_dot_product_attention %5, %8, %11, %none, %float0.000000e00, %false, %none_14, %false_15 : !torch.vtensor<[1,8,256,64],f32>, !torch.vtensor<[1,8,256,64],f32>, !torch.vtensor<[1,8,256,64],f32>, !torch.none, !torch.float, !torch.bool, !torch.none, !torch.bool -> !torch.vtensor<[1,8,256,64],f32>
    %int1_16 = torch.constant.int 1
    %int2_17 = torch.constant.int 2
    %13 = torch.aten.transpose.int %12, %int1_16, %int2_17 : !torch.vtensor<[1,8,256,64],f32>, !torch.int, !torch.int -> !torch.vtensor<[1,256,8,64],f32>
    %int1_18 = torch.constant.int 1
    %int256_19 = torch.constant.int 256
    %int512_20 = torch.constant.int 512
    %14 = torch.prim.ListConstruct %int1_18, %int256_19, %int512_20 : (!torch.int, !torch.int, !torch.int) -> !torch.list<int>
    %15 = torch.aten.view %13, %14 : !torch.vtensor<[1,256,8,64],f32>, !torch.list<int> -> !torch.vtensor<[1,256,512],f32>
    %16 = torch.aten.matmul %15, %arg2 : !torch.vtensor<[1,256,512],f32>, !torch.vtensor<[512,512],f32> -> !torch.vtensor<[1,256,512],f32>
    return %16 : !torch.vtensor<[1,256,512],f32>
  }
}

