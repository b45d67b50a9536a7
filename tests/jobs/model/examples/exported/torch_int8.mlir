module @torch_int8 {
  func.func @main(%arg0: !torch.vtensor<[32,8],si8>) -> !torch.vtensor<[32,4],si32> attributes {torch.assume_strict_symbolic_shapes} {
    %0 = torch.vtensor.literal(dense_resource<torch_tensor_8_4_torch.int8> : tensor<8x4xsi8>) : !torch.vtensor<[8,4],si8>
    %1 = torch.aten._int_mm %arg0, %0 : !torch.vtensor<[32,8],si8>, !torch.vtensor<[8,4],si8> -> !torch.vtensor<[32,4],si32>
    return %1 : !torch.vtensor<[32,4],si32>
  }
}

{-#
  dialect_resources: {
    builtin: {
      torch_tensor_8_4_torch.int8: "0x01000000BC7B9FB4B0D419863A5134EB6AE95455CEDA13C8983BA7AACD180E2B0BEAD72C"
    }
  }
#-}
