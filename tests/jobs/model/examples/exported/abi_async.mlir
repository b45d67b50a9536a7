module @net attributes {torch.debug_module_name = "Net"} {
  ml_program.global private mutable @state(dense<0.0> : tensor<8x6xf32>) : tensor<8x6xf32>
  util.func public @main$async(%x: !hal.buffer_view, %wait: !hal.fence, %signal: !hal.fence) -> !hal.buffer_view attributes {inlining_policy = #util.inline.never, iree.abi.model = "coarse-fences", iree.abi.stub} {
    %in = hal.tensor.import wait(%wait) => %x "input0" : !hal.buffer_view -> tensor<4x8xf32>
    %w = ml_program.global_load @state : tensor<8x6xf32>
    %zero = arith.constant 0.0 : f32
    %empty = tensor.empty() : tensor<4x6xf32>
    %fill = linalg.fill ins(%zero : f32) outs(%empty : tensor<4x6xf32>) -> tensor<4x6xf32>
    %y = linalg.matmul ins(%in, %w : tensor<4x8xf32>, tensor<8x6xf32>) outs(%fill : tensor<4x6xf32>) -> tensor<4x6xf32>
    %done = hal.tensor.barrier join(%y : tensor<4x6xf32>) => %signal : !hal.fence
    %out = hal.tensor.export %done "output0" : tensor<4x6xf32> -> !hal.buffer_view
    util.return %out : !hal.buffer_view
  }
  util.func public @main(%x: !hal.buffer_view) -> !hal.buffer_view attributes {iree.abi.stub} {
    %null = util.null : !hal.fence
    %c0 = arith.constant 0 : index
    %device = hal.devices.get %c0 : !hal.device
    %c-1_i32 = arith.constant -1 : i32
    %fence = hal.fence.create device(%device : !hal.device) flags("None") : !hal.fence
    %y = util.call @main$async(%x, %null, %fence) : (!hal.buffer_view, !hal.fence, !hal.fence) -> !hal.buffer_view
    %status = hal.fence.await until([%fence]) timeout_millis(%c-1_i32) flags("None") : i32
    util.return %y : !hal.buffer_view
  }
}
