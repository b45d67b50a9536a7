module @torch_f16 {
  func.func @main(%arg0: !torch.vtensor<[4,8],f16>) -> !torch.vtensor<[4,4],f16> attributes {torch.assume_strict_symbolic_shapes} {
    %0 = torch.vtensor.literal(dense_resource<torch_tensor_16_8_torch.float16> : tensor<16x8xf16>) : !torch.vtensor<[16,8],f16>
    %none = torch.constant.none
    %1 = torch.aten.linear %arg0, %0, %none : !torch.vtensor<[4,8],f16>, !torch.vtensor<[16,8],f16>, !torch.none -> !torch.vtensor<[4,16],f16>
    %2 = torch.aten.relu %1 : !torch.vtensor<[4,16],f16> -> !torch.vtensor<[4,16],f16>
    %3 = torch.vtensor.literal(dense_resource<torch_tensor_4_16_torch.float16> : tensor<4x16xf16>) : !torch.vtensor<[4,16],f16>
    %none_0 = torch.constant.none
    %4 = torch.aten.linear %2, %3, %none_0 : !torch.vtensor<[4,16],f16>, !torch.vtensor<[4,16],f16>, !torch.none -> !torch.vtensor<[4,4],f16>
    return %4 : !torch.vtensor<[4,4],f16>
  }
}

{-#
  dialect_resources: {
    builtin: {
      torch_tensor_16_8_torch.float16: "0x0200000051A81E35EEB0BFAF4730C82C3D32603515B30132922FF8315D313BB079B4873474B23C3364B5D4ABAD1BD52B5127212F0AA98B2D993552B3F1A452B0F734D834F0A0D8AFFEB20C343CA654357432F43479345AB3A02EB1B0AD3112A8D627D3B30EB54330422DDD27AF33B9B004303BB2B02C2AADEC33F234EA341224AC32A7B5A3B20B2C0A1871B402B149B19BB55128B633983060B132B590B4B71EC83395B028B209B2D6A75FB5FEB4923565B115AC0EAEF8B4FAABED2E98B0B7A3ED96A2B51C349234B7336EAFEA314DB599AD9AACFEAFC03028B13FA989AE50B579ABCBB499320C324D3599AF9A246F2CA6352F35DBB1D0B419B573B1C234992F75353134",
      torch_tensor_4_16_torch.float16: "0x020000006C1BF5B0D0336B32ED2E5FB04D32D3254A31AE2E403005B370B0CC30ABAAF6B24633899D743241B2822D07AEBCAEADAAECAD623014AA11324D2BF2A89FB053B3ABAC69B3EEA92F1C20A4DCAF8D318130E2AB52AE0831F63253B3EAAAF0A5CBADD432BAA8C8321015F1A6ABB052AD282D142F8EA09F3389B1222E353390A95A32"
    }
  }
#-}
