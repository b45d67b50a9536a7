module @torch_conv {
  func.func @main(%arg0: !torch.vtensor<[1,3,8,8],f32>) -> !torch.vtensor<[1,2],f32> attributes {torch.assume_strict_symbolic_shapes} {
    %0 = torch.vtensor.literal(dense_resource<torch_tensor_4_3_3_3_torch.float32> : tensor<4x3x3x3xf32>) : !torch.vtensor<[4,3,3,3],f32>
    %1 = torch.vtensor.literal(dense_resource<torch_tensor_4_torch.float32> : tensor<4xf32>) : !torch.vtensor<[4],f32>
    %int2 = torch.constant.int 2
    %int2_0 = torch.constant.int 2
    %2 = torch.prim.ListConstruct %int2, %int2_0 : (!torch.int, !torch.int) -> !torch.list<int>
    %int1 = torch.constant.int 1
    %int1_1 = torch.constant.int 1
    %3 = torch.prim.ListConstruct %int1, %int1_1 : (!torch.int, !torch.int) -> !torch.list<int>
    %int1_2 = torch.constant.int 1
    %int1_3 = torch.constant.int 1
    %4 = torch.prim.ListConstruct %int1_2, %int1_3 : (!torch.int, !torch.int) -> !torch.list<int>
    %int1_4 = torch.constant.int 1
    %5 = torch.aten.conv2d %arg0, %0, %1, %2, %3, %4, %int1_4 : !torch.vtensor<[1,3,8,8],f32>, !torch.vtensor<[4,3,3,3],f32>, !torch.vtensor<[4],f32>, !torch.list<int>, !torch.list<int>, !torch.list<int>, !torch.int -> !torch.vtensor<[1,4,4,4],f32>
    %6 = torch.vtensor.literal(dense_resource<torch_tensor_4_torch.float32_1> : tensor<4xf32>) : !torch.vtensor<[4],f32>
    %7 = torch.vtensor.literal(dense_resource<torch_tensor_4_torch.float32_2> : tensor<4xf32>) : !torch.vtensor<[4],f32>
    %8 = torch.vtensor.literal(dense_resource<torch_tensor_4_torch.float32_3> : tensor<4xf32>) : !torch.vtensor<[4],f32>
    %9 = torch.vtensor.literal(dense_resource<torch_tensor_4_torch.float32_4> : tensor<4xf32>) : !torch.vtensor<[4],f32>
    %false = torch.constant.bool false
    %float1.000000e-01 = torch.constant.float 1.000000e-01
    %float1.000000e-05 = torch.constant.float 1.000000e-05
    %false_5 = torch.constant.bool false
    %10 = torch.aten.batch_norm %5, %6, %7, %8, %9, %false, %float1.000000e-01, %float1.000000e-05, %false_5 : !torch.vtensor<[1,4,4,4],f32>, !torch.vtensor<[4],f32>, !torch.vtensor<[4],f32>, !torch.vtensor<[4],f32>, !torch.vtensor<[4],f32>, !torch.bool, !torch.float, !torch.float, !torch.bool -> !torch.vtensor<[1,4,4,4],f32>
    %11 = torch.aten.relu %10 : !torch.vtensor<[1,4,4,4],f32> -> !torch.vtensor<[1,4,4,4],f32>
    %12 = torch.vtensor.literal(dense_resource<torch_tensor_4_1_3_3_torch.float32> : tensor<4x1x3x3xf32>) : !torch.vtensor<[4,1,3,3],f32>
    %13 = torch.vtensor.literal(dense_resource<torch_tensor_4_torch.float32_5> : tensor<4xf32>) : !torch.vtensor<[4],f32>
    %int1_6 = torch.constant.int 1
    %int1_7 = torch.constant.int 1
    %14 = torch.prim.ListConstruct %int1_6, %int1_7 : (!torch.int, !torch.int) -> !torch.list<int>
    %int1_8 = torch.constant.int 1
    %int1_9 = torch.constant.int 1
    %15 = torch.prim.ListConstruct %int1_8, %int1_9 : (!torch.int, !torch.int) -> !torch.list<int>
    %int1_10 = torch.constant.int 1
    %int1_11 = torch.constant.int 1
    %16 = torch.prim.ListConstruct %int1_10, %int1_11 : (!torch.int, !torch.int) -> !torch.list<int>
    %int4 = torch.constant.int 4
    %17 = torch.aten.conv2d %11, %12, %13, %14, %15, %16, %int4 : !torch.vtensor<[1,4,4,4],f32>, !torch.vtensor<[4,1,3,3],f32>, !torch.vtensor<[4],f32>, !torch.list<int>, !torch.list<int>, !torch.list<int>, !torch.int -> !torch.vtensor<[1,4,4,4],f32>
    %18 = torch.aten.relu %17 : !torch.vtensor<[1,4,4,4],f32> -> !torch.vtensor<[1,4,4,4],f32>
    %int2_12 = torch.constant.int 2
    %int2_13 = torch.constant.int 2
    %19 = torch.prim.ListConstruct %int2_12, %int2_13 : (!torch.int, !torch.int) -> !torch.list<int>
    %20 = torch.prim.ListConstruct  : () -> !torch.list<int>
    %int0 = torch.constant.int 0
    %int0_14 = torch.constant.int 0
    %21 = torch.prim.ListConstruct %int0, %int0_14 : (!torch.int, !torch.int) -> !torch.list<int>
    %int1_15 = torch.constant.int 1
    %int1_16 = torch.constant.int 1
    %22 = torch.prim.ListConstruct %int1_15, %int1_16 : (!torch.int, !torch.int) -> !torch.list<int>
    %false_17 = torch.constant.bool false
    %23 = torch.aten.max_pool2d %18, %19, %20, %21, %22, %false_17 : !torch.vtensor<[1,4,4,4],f32>, !torch.list<int>, !torch.list<int>, !torch.list<int>, !torch.list<int>, !torch.bool -> !torch.vtensor<[1,4,2,2],f32>
    %int2_18 = torch.constant.int 2
    %int3 = torch.constant.int 3
    %24 = torch.prim.ListConstruct %int2_18, %int3 : (!torch.int, !torch.int) -> !torch.list<int>
    %false_19 = torch.constant.bool false
    %none = torch.constant.none
    %25 = torch.aten.mean.dim %23, %24, %false_19, %none : !torch.vtensor<[1,4,2,2],f32>, !torch.list<int>, !torch.bool, !torch.none -> !torch.vtensor<[1,4],f32>
    %26 = torch.vtensor.literal(dense_resource<torch_tensor_2_4_torch.float32> : tensor<2x4xf32>) : !torch.vtensor<[2,4],f32>
    %27 = torch.vtensor.literal(dense_resource<torch_tensor_2_torch.float32> : tensor<2xf32>) : !torch.vtensor<[2],f32>
    %28 = torch.aten.linear %25, %26, %27 : !torch.vtensor<[1,4],f32>, !torch.vtensor<[2,4],f32>, !torch.vtensor<[2],f32> -> !torch.vtensor<[1,2],f32>
    return %28 : !torch.vtensor<[1,2],f32>
  }
}

{-#
  dialect_resources: {
    builtin: {
      torch_tensor_4_3_3_3_torch.float32: "0x0400000053E9CA3D73953EBE1C7A0E3EEFF522BE9FD42D3B230506BDEB94CFBDD85FD03CC0F5223EA86D66BD4DFFE9BD78C491BD135343BE53E9B13D424ABDBD138303BE3710E3BDA69CE23D99B9D03D3341173E80F68E3D4AA083BD3B485CBD55E1683D5AFF213E7353563D067CBABD7846B9BD92523ABE2C4E2A3DE82EDDBDADB32FBE19CE2C3E1EF5FFBDD459B3BCFBD5613DB6E7C83BA39A04BE894B1FBE85141D3E9D5C003D427E233E892184BDDB30683D864234BDD9380CBC1E0CF0BD3A4C853DD339793D871682BBED4831BD52F5F2BD2F48083EEDB312BEF376A13DBC8784BDAC28BEBD1D9C0D3DD5BCCCBD5D9F353D5FCD1A3D535212BE2A3F033DF2DFA73D0F039C3D4674C6BCFD8D21BE2208F3BC18E3883DD6CF8FBD759B953D923D033EB7CCCDBD46C3F83AC0F9A23D2422773C12B1833C51DBC43CDEEC1ABEFACB773CDA76083EDC94313EA4A7E73D3D43D33C6511B83D71BDBFBD074F23BEB57629BE0C99443EC931FA3D7E3808BE19349A3DEED1143E35FE443EE8502C3E0CAE183E2FB834BDC2518ABD9ECD213EE6DDDC3D102FEDBD182B313E5A6EBE3DC7DBD63D4709F7BDF727623D7F2B8ABD28FB193E",
      torch_tensor_4_torch.float32: "0x04000000BFD70DBD5971993DD4030C3D6FB1A73D",
      torch_tensor_4_torch.float32_1: "0x040000000000803F0000803F0000803F0000803F",
      torch_tensor_4_torch.float32_2: "0x0400000000000000000000000000000000000000",
      torch_tensor_4_torch.float32_3: "0x0400000000000000000000000000000000000000",
      torch_tensor_4_torch.float32_4: "0x040000000000803F0000803F0000803F0000803F",
      torch_tensor_4_1_3_3_torch.float32: "0x040000002BFDE7BDA36C263E53696EBE062F9A3D80F166BE7C5EA8BE0B0E89BE7ABC863E6BAC383E461FA03E86B9883EC06998BEBEEF68BE369D5CBD43AC5DBE4B056D3E7C0681BE7B8926BE2EE1A4BE5ECA41BE975E8C3E2CBC8B3EDB56743EC2C6833E27C1973E40CEAEBDF82F163E580D983EC6D6E13D879CAA3E7609313E7630543E90EDEEBDF8C7233EC0E21C3D5B08A3BD",
      torch_tensor_4_torch.float32_5: "0x04000000B86940BE1E873FBE225383BEBE25653E",
      torch_tensor_2_4_torch.float32: "0x0400000096FFB53EA01669BDC42494BE22DDC53E8CB5A33E703C183DB8BB71BEB846EB3E",
      torch_tensor_2_torch.float32: "0x04000000AC60513E5A57C2BE"
    }
  }
#-}
