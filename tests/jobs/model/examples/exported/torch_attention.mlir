module @torch_attention {
  func.func @main(%arg0: !torch.vtensor<[2,6,8],f32>) -> !torch.vtensor<[2,6,8],f32> attributes {torch.assume_strict_symbolic_shapes} {
    %int8 = torch.constant.int 8
    %0 = torch.prim.ListConstruct %int8 : (!torch.int) -> !torch.list<int>
    %1 = torch.vtensor.literal(dense_resource<torch_tensor_8_torch.float32> : tensor<8xf32>) : !torch.vtensor<[8],f32>
    %2 = torch.vtensor.literal(dense_resource<torch_tensor_8_torch.float32_1> : tensor<8xf32>) : !torch.vtensor<[8],f32>
    %float1.000000e-05 = torch.constant.float 1.000000e-05
    %false = torch.constant.bool false
    %3 = torch.aten.layer_norm %arg0, %0, %1, %2, %float1.000000e-05, %false : !torch.vtensor<[2,6,8],f32>, !torch.list<int>, !torch.vtensor<[8],f32>, !torch.vtensor<[8],f32>, !torch.float, !torch.bool -> !torch.vtensor<[2,6,8],f32>
    %4 = torch.vtensor.literal(dense_resource<torch_tensor_24_8_torch.float32> : tensor<24x8xf32>) : !torch.vtensor<[24,8],f32>
    %none = torch.constant.none
    %5 = torch.aten.linear %3, %4, %none : !torch.vtensor<[2,6,8],f32>, !torch.vtensor<[24,8],f32>, !torch.none -> !torch.vtensor<[2,6,24],f32>
    %int8_0 = torch.constant.int 8
    %int2 = torch.constant.int 2
    %6 = torch.aten.split.Tensor %5, %int8_0, %int2 : !torch.vtensor<[2,6,24],f32>, !torch.int, !torch.int -> !torch.list<vtensor>
    %7:3 = torch.prim.ListUnpack %6 : !torch.list<vtensor> -> !torch.vtensor<[2,6,8],f32>, !torch.vtensor<[2,6,8],f32>, !torch.vtensor<[2,6,8],f32>
    %int2_1 = torch.constant.int 2
    %int6 = torch.constant.int 6
    %int2_2 = torch.constant.int 2
    %int4 = torch.constant.int 4
    %8 = torch.prim.ListConstruct %int2_1, %int6, %int2_2, %int4 : (!torch.int, !torch.int, !torch.int, !torch.int) -> !torch.list<int>
    %9 = torch.aten.view %7#0, %8 : !torch.vtensor<[2,6,8],f32>, !torch.list<int> -> !torch.vtensor<[2,6,2,4],f32>
    %int1 = torch.constant.int 1
    %int2_3 = torch.constant.int 2
    %10 = torch.aten.transpose.int %9, %int1, %int2_3 : !torch.vtensor<[2,6,2,4],f32>, !torch.int, !torch.int -> !torch.vtensor<[2,2,6,4],f32>
    %int2_4 = torch.constant.int 2
    %int6_5 = torch.constant.int 6
    %int2_6 = torch.constant.int 2
    %int4_7 = torch.constant.int 4
    %11 = torch.prim.ListConstruct %int2_4, %int6_5, %int2_6, %int4_7 : (!torch.int, !torch.int, !torch.int, !torch.int) -> !torch.list<int>
    %12 = torch.aten.view %7#1, %11 : !torch.vtensor<[2,6,8],f32>, !torch.list<int> -> !torch.vtensor<[2,6,2,4],f32>
    %int1_8 = torch.constant.int 1
    %int2_9 = torch.constant.int 2
    %13 = torch.aten.transpose.int %12, %int1_8, %int2_9 : !torch.vtensor<[2,6,2,4],f32>, !torch.int, !torch.int -> !torch.vtensor<[2,2,6,4],f32>
    %int2_10 = torch.constant.int 2
    %int6_11 = torch.constant.int 6
    %int2_12 = torch.constant.int 2
    %int4_13 = torch.constant.int 4
    %14 = torch.prim.ListConstruct %int2_10, %int6_11, %int2_12, %int4_13 : (!torch.int, !torch.int, !torch.int, !torch.int) -> !torch.list<int>
    %15 = torch.aten.view %7#2, %14 : !torch.vtensor<[2,6,8],f32>, !torch.list<int> -> !torch.vtensor<[2,6,2,4],f32>
    %int1_14 = torch.constant.int 1
    %int2_15 = torch.constant.int 2
    %16 = torch.aten.transpose.int %15, %int1_14, %int2_15 : !torch.vtensor<[2,6,2,4],f32>, !torch.int, !torch.int -> !torch.vtensor<[2,2,6,4],f32>
    %none_16 = torch.constant.none
    %float0.000000e00 = torch.constant.float 0.000000e+00
    %false_17 = torch.constant.bool false
    %none_18 = torch.constant.none
    %false_19 = torch.constant.bool false
    %17 = torch.aten.scaled_dot_product_attention %10, %13, %16, %none_16, %float0.000000e00, %false_17, %none_18, %false_19 : !torch.vtensor<[2,2,6,4],f32>, !torch.vtensor<[2,2,6,4],f32>, !torch.vtensor<[2,2,6,4],f32>, !torch.none, !torch.float, !torch.bool, !torch.none, !torch.bool -> !torch.vtensor<[2,2,6,4],f32>
    %int1_20 = torch.constant.int 1
    %int2_21 = torch.constant.int 2
    %18 = torch.aten.transpose.int %17, %int1_20, %int2_21 : !torch.vtensor<[2,2,6,4],f32>, !torch.int, !torch.int -> !torch.vtensor<[2,6,2,4],f32>
    %int2_22 = torch.constant.int 2
    %int6_23 = torch.constant.int 6
    %int8_24 = torch.constant.int 8
    %19 = torch.prim.ListConstruct %int2_22, %int6_23, %int8_24 : (!torch.int, !torch.int, !torch.int) -> !torch.list<int>
    %20 = torch.aten.reshape %18, %19 : !torch.vtensor<[2,6,2,4],f32>, !torch.list<int> -> !torch.vtensor<[2,6,8],f32>
    %21 = torch.vtensor.literal(dense_resource<torch_tensor_8_8_torch.float32> : tensor<8x8xf32>) : !torch.vtensor<[8,8],f32>
    %none_25 = torch.constant.none
    %22 = torch.aten.linear %20, %21, %none_25 : !torch.vtensor<[2,6,8],f32>, !torch.vtensor<[8,8],f32>, !torch.none -> !torch.vtensor<[2,6,8],f32>
    %int1_26 = torch.constant.int 1
    %23 = torch.aten.add.Tensor %arg0, %22, %int1_26 : !torch.vtensor<[2,6,8],f32>, !torch.vtensor<[2,6,8],f32>, !torch.int -> !torch.vtensor<[2,6,8],f32>
    return %23 : !torch.vtensor<[2,6,8],f32>
  }
}

{-#
  dialect_resources: {
    builtin: {
      torch_tensor_8_torch.float32: "0x040000000000803F0000803F0000803F0000803F0000803F0000803F0000803F0000803F",
      torch_tensor_8_torch.float32_1: "0x040000000000000000000000000000000000000000000000000000000000000000000000",
      torch_tensor_24_8_torch.float32: "0x04000000C77CAB3E676FA33E88B498BE0C9B08BE41FF78BE496BAB3E8F8F1BBE574A25BE3EAD3D3EF07927BEE34F32BE3058FDBC29320BBD9A028DBEF9E8963EFFB31FBEA66B003E99729D3E0295363E90074D3D86059A3E84AB423DE57F27BE843EAB3EFF5FAB3DFA9DB0BE8323CEBDE59B76BE91B59E3E22286FBDEE00A5BE5B12B6BC6D5D633E981DBC3DDAF4E43DAA7E063D8CF9063E426CB0BDE10410BE4733A9BE595E88BE92E81C3E315E56BEFBC24F3D8A1EE73DE811CD3C49BA6ABE2A1DAD3E798652BE75E3943E9C0090BEFB2CAEBD10F0443E08EC13BE6310983EA62379BECF0398BE0B4023BE45186A3DB3ACA63E6CD62CBEAA79013E0288B5BD6C069DBDA81A853E95498CBE36D0193D743BAA3E7EFE46BDE18C8C3E0BFCDEBDB6B6913E021BAFBE9FB650BDFA5C7EBDA0A9EA3DA7090E3E5DFD8A3E37C157BDF2B465BC9BED773E77EAC3BD09B09E3EBC0C71BE60B41CBD41909BBC958B213E6784773EB98965BD94F895BE2963333E3298D83D416E113E77545FBEA901693E1074AB3E1551FB3CB114A9BEC1257E3E8E3786BEF771A63D5171523D847229BEDA1EFC3DDCE8A1BE5DEAA43DC78365BE23981CBD44463A3DEA379A3E6ABC2CBE5EEF673EF2F637BD35F12BBEAFA19DBEAC16A6BE11C9B03EA595B4BDCEAA903C694EC43DDF16763ECD7E9A3E4ECF923E3A1D86BECB0468BD5E3B56BEF7D94EBE9AC1AB3DD7E9A93EEB0391BE801B5B3E7BB43BBE19088DBD19B08F3EC9C3A3BDE1DC033DAA137DBE4F179A3EE5333BBD546584BE6F04D43D38B580BEE2A38FBED570B03C20858F3EFEE6CCBD4D662A3EC38D9B3E4820703E50E93DBE1BBF1EBD2FDBE3BDD28F91BE502D19398E34883EF982983E251D073D6374A43D00BC1CBE1DA4883EBAA516BEBD7D7BBEA3015F3D2D00593E9C34A3BEB6A2A33E8F3C023E1FA67DBEC0F89BBD7A0C9D3E62E28ABE9DA1D3BDAC7BED3D9D969EBE0D78463E58753C3ED389603E14D166BEA24BB43E439A56BE0CB8B43EF7B8ADBE6548A1BEE15C5E3ED459173D0A16A73C617B48BEC8DD17BE0EB6D3BD4A57B0BE7584963C3D0F803D",
      torch_tensor_8_8_torch.float32: "0x04000000FAEE9CB998D3E93DA8C2AB3E4785C03D498804BEEEFE14BE65A267BED6F87ABE9F3969BD7A1080BDB30E213EA8BF1ABE2D4F903E0D097EBEAEB5833ACEB8A23EC000B43E20B751BEA9FA803D580F2B3D10BE29BE3D2AFABD861EC43DC4BF7BBE73F06E3DBFA91C3E2BAB0EBEB35C963E7E9BBEBCF442243EBD43B33ED953DDBD19BC443E761BCFBD498953BDA16B75BDDFF20FBB4BC408BED9B6A93DA3445A3C1C7E653E9F8E92BDA038113DC5AC06BE679897BE5481123E8A4D393D98FD10BE6BD0F4BD975CBD3DE8EC82BD63956C3E570EA43C5AC1083E28BD1D3E09AAB1BD34A41C3E8794853E8E48853C61B28D3D6B7A523CEEA97A3EDDD918BEE77240BE"
    }
  }
#-}
